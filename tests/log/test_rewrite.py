"""A tool result may replace one other tool result and change nothing but the content of its block (dsh-v0 §2.4)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from tests.log.sessions import WITH_PLUGINS, answer, call, close_step, close_turn, in_step, result, standing, user
from turnlog.events import (
    ImageAttachment,
    ImageBlock,
    Json,
    Message,
    StepStart,
    TextBlock,
    ToolError,
    ToolResult,
    ToolResultBlock,
    ToolSource,
    TurnStart,
)
from turnlog.log import GrammarError, Session, SurfaceError
from turnlog.log.event import event_class
from turnlog.log.surface import check_rewrite

META: Json = {"exit": 0, "flags": [True, {"a": None}], "name": "ls"}
ERROR = ToolError("Error", "FAILED")
OLD = result("c1", "a very long text", id="r1", is_error=True, error=ERROR, meta=META)


def answered(old: ToolResult = OLD) -> tuple[Session, int]:
    """A session whose call was answered by *old*, and the result's seq."""
    session = in_step()
    session.append(call("c1"))
    return session, session.append(old).seq


def with_content(*content: Any, old: ToolResult = OLD, **changes: Any) -> ToolResult:
    """*old* with other content in its block, and *changes* of the payload."""
    block = old.message.content[0]
    assert isinstance(block, ToolResultBlock)
    message = replace(old.message, content=(replace(block, content=content),))
    return replace(old, **{"message": message, **changes})


def refused(session: Session, payload: Any, seq: int, **place: Any) -> SurfaceError:
    before = standing(session)
    with pytest.raises(SurfaceError) as caught:
        session.append(payload, **{"replaces": (seq, seq), "sources": [seq], **place})
    assert caught.value.kind == "tool-result-rewrite"
    assert standing(session) == before
    return caught.value


@pytest.mark.parametrize(
    "content",
    [
        (),
        (TextBlock("short"),),
        (TextBlock("a"), TextBlock("b")),
        (TextBlock("a very long text"),),
        (ImageBlock(ImageAttachment("sha256:0", "image/png", 1, 1, 1)),),
    ],
)
def test_the_content_of_the_block_may_change(content: Any) -> None:
    session, seq = answered()
    event = session.append(with_content(*content), replaces=(seq, seq), sources=[seq])
    assert session.surface == (event.seq,)
    assert session.derive_messages()[0].content == (ToolResultBlock("c1", content, True),)


BLOCK = ToolResultBlock("c1", (TextBlock("x"),), True)
CHANGED: list[tuple[str, ToolResult]] = [
    ("turn", with_content(turn=2)),
    ("step", with_content(step=2)),
    ("error absent", with_content(error=None)),
    ("error code", with_content(error=ToolError("Error", "OTHER"))),
    ("meta absent", with_content(meta=None)),
    ("meta value", with_content(meta={**META, "exit": 1})),  # type: ignore[dict-item]
    ("meta true for 1", with_content(meta={**META, "exit": False})),  # type: ignore[dict-item]
    ("meta member", with_content(meta={**META, "more": 1})),  # type: ignore[dict-item]
    ("meta order of an array", with_content(meta={**META, "flags": [{"a": None}, True]})),  # type: ignore[dict-item]
    ("meta null for absent", with_content(meta={**META, "flags": [True, {}]})),  # type: ignore[dict-item]
    ("message id", with_content(message=Message("user", (BLOCK,), ToolSource("c1"), "r2"))),
    ("call", with_content(message=Message("user", (replace(BLOCK, tool_call_id="c2"),), ToolSource("c2"), "r1"))),
    ("isError", with_content(message=Message("user", (replace(BLOCK, is_error=False),), ToolSource("c1"), "r1"))),
    ("isError absent", with_content(message=Message("user", (replace(BLOCK, is_error=None),), ToolSource("c1"), "r1"))),
]


@pytest.mark.parametrize("payload", [payload for _, payload in CHANGED], ids=[name for name, _ in CHANGED])
def test_anything_else_may_not_change(payload: ToolResult) -> None:
    session, seq = answered()
    assert f"changes more than the content of @{seq}" in str(refused(session, payload, seq))


@pytest.mark.parametrize(("old", "new"), [(1, True), (0, False), (True, 1), ([1], [True]), ({"a": 0}, {"a": False})])
def test_true_is_not_1(old: Json, new: Json) -> None:
    first = replace(OLD, meta=old)
    session, seq = answered(first)
    refused(session, with_content(old=first, meta=new), seq)


@pytest.mark.parametrize(
    ("old", "new"), [(1, 1.0), ({"a": 1, "b": [2]}, {"b": [2], "a": 1}), ([{}], [{}]), (None, None), ("é", "é")]
)
def test_meta_is_compared_by_structure(old: Json, new: Json) -> None:
    first = replace(OLD, meta=old)
    session, seq = answered(first)
    assert session.append(with_content(old=first, meta=new), replaces=(seq, seq), sources=[seq]).seq == seq + 1


def test_a_result_never_replaces_a_message_of_another_kind() -> None:
    session, seq = answered()
    for payload in (user("hi"), answer(TextBlock("hi"))):
        other = session.append(payload).seq  # type: ignore[call-overload]
        error = refused(session, with_content(), other)
        assert "a tool result may only replace one other tool result" in str(error)
    assert session.surface == (seq, seq + 1, seq + 2)


def test_a_result_never_replaces_several_nodes() -> None:
    session, seq = answered()
    session.append(call("c1"))
    second = session.append(OLD).seq
    refused(session, with_content(), seq, replaces=(seq, second), sources=[seq, second])


def test_messages_of_other_kinds_may_replace_results() -> None:
    session, seq = answered()
    session.append(user("the result was long"), replaces=(seq, seq), sources=[seq])
    assert [message.text for message in session.derive_messages()] == ["the result was long"]


def test_a_rewritten_result_may_be_rewritten_again() -> None:
    session, seq = answered()
    again = session.append(with_content(TextBlock("x")), replaces=(seq, seq), sources=[seq]).seq
    last = session.append(with_content(), replaces=(again, again), sources=[again]).seq
    assert session.surface == (last,)
    assert session.derive_messages()[0].text == ""


def test_a_result_of_an_older_turn_may_be_rewritten_inside_a_turn_and_not_between_turns() -> None:
    session, seq = answered()
    close_step(session)
    close_turn(session)
    with pytest.raises(GrammarError, match="needs an open turn, but no turn is open"):
        session.append(with_content(), replaces=(seq, seq), sources=[seq])
    session.append(TurnStart(turn=2))
    session.append(with_content(), replaces=(seq, seq), sources=[seq])
    session.append(StepStart(turn=2, step=1))
    assert session.derive_messages()[0].text == ""


def test_a_rewrite_answers_no_waiting_call() -> None:
    session, seq = answered()
    session.append(call("c1"))
    session.append(with_content(), replaces=(seq, seq), sources=[seq])
    assert session.append(result("c1", id="r2")).seq == seq + 3


def test_format_4_keeps_the_content_in_the_message_itself() -> None:
    def tool(text: str, **members: Any) -> dict[str, Any]:
        return {
            "turn": 1,
            "message": {"role": "tool", "id": "r", "content": [{"type": "text", "text": text}], **members},
        }

    def stored(data: dict[str, Any]) -> bytes:
        return json.dumps(data).encode()

    old = event_class(WITH_PLUGINS.codec)("tool/result", 4, 1, Raw(stored(tool("long"))), "append")
    check_rewrite(5, [4], old, stored(tool("short")))
    with pytest.raises(SurfaceError):
        check_rewrite(5, [4], old, stored(tool("short", id="other")))

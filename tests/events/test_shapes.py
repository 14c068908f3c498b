"""Shape rules that types alone do not state (dsh-v0 §2.7): refused at append, listed in full for stored payloads."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.log.sessions import HEADER, SOURCE, answer, asks, call, chunk, in_step, result, standing, user
from turnlog.events import (
    AdapterDefaults,
    CallConfig,
    Errored,
    Failure,
    Message,
    ModelSource,
    Opaque,
    Payload,
    PluginSource,
    RequestHeader,
    TextBlock,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
    ToolResultBlock,
    ToolSource,
    TurnEnd,
    UsageChunk,
    UserSource,
    shape_faults,
)
from turnlog.log import ShapeError


def header(reason: str = "initial", defaults: AdapterDefaults | None = None, **config: Any) -> RequestHeader:
    settings = CallConfig(**{"provider": "acme", "model": "acme-1", **config})
    return RequestHeader(header=replace(HEADER, config=settings, adapter_defaults=defaults), reason=reason)


def said(**changes: Any) -> Payload:
    """An answer whose message has *changes*."""
    payload = answer(TextBlock("hi"))
    return replace(payload, message=replace(payload.message, **changes))


def returned(**changes: Any) -> Payload:
    """A tool result whose message has *changes*."""
    payload = result("c1")
    return replace(payload, message=replace(payload.message, **changes))


def used(**counts: int) -> TokenUsage:
    return TokenUsage(**{"input_tokens": 1, "output_tokens": 1, **counts})


BLOCK = ToolResultBlock("c1", (TextBlock("x"),), False)

FAULTS: list[tuple[Payload, list[str]]] = [
    (replace(user(), role="assistant"), ["$.role: expected 'user', got 'assistant'"]),
    (user(id=""), ["$.id: a message id may not be empty"]),
    (replace(user(), source=Opaque("", {"kind": ""})), ["$.source.kind: a source kind may not be empty"]),
    (replace(user(id=""), role="system"), ["$.role: expected 'user', got 'system'", "$.id: a message id may not be"]),
    (said(role="user"), ["$.message.role: expected 'assistant', got 'user'"]),
    (said(id=""), ["$.message.id: a message id may not be empty"]),
    (said(source=UserSource()), ["$.message.source: an assistant message comes from a model"]),
    (said(source=ModelSource(provider="", model="m")), ["$.message.source: provider and model may not be empty"]),
    (said(source=ModelSource(provider="p", model="")), ["$.message.source: provider and model may not be empty"]),
    (asks(""), ["$.message.content: a tool call without id"]),
    (answer(ToolCallBlock("c1", "", "{}")), ["$.message.content: a tool call without name"]),
    (asks("c1", "c2", "c1"), ["$.message.content: call id 'c1' is used by 2 blocks of one message"]),
    (asks("", ""), ["$.message.content: a tool call without id"] * 2),
    (replace(answer(), usage=used(input_tokens=-1)), ["$.usage.inputTokens: -1 is negative"]),
    (replace(answer(), usage=used(reasoning_tokens=-5)), ["$.usage.reasoningTokens: -5 is negative"]),
    (returned(role="assistant"), ["$.message.role: expected 'user', got 'assistant'"]),
    (returned(id=""), ["$.message.id: a message id may not be empty"]),
    (returned(source=UserSource()), ["$.message.source: a tool result comes from a tool"]),
    (returned(content=()), ["$.message.content: a tool result holds exactly one tool-result block"]),
    (returned(content=(BLOCK, BLOCK)), ["$.message.content: a tool result holds exactly one tool-result block"]),
    (returned(content=(TextBlock("x"),)), ["$.message.content: a tool result holds exactly one tool-result block"]),
    (returned(source=ToolSource("c2")), ["$.message.content[0].toolCallId: 'c1' is not the source's 'c2'"]),
    (result(""), ["$.message.source.callId: a call id may not be empty"]),
    (call(""), ["$.callId: a call id may not be empty"]),
    (replace(call("c1"), name=""), ["$.name: a tool name may not be empty"]),
    (replace(call(""), name=""), ["$.callId: a call id may not be empty", "$.name: a tool name may not be empty"]),
    (chunk(ToolCallDelta(index=0, id="", arguments_delta="{")), ["$.chunk.id: a call id may not be empty"]),
    (chunk(UsageChunk(usage=used(output_tokens=-1))), ["$.chunk.usage.outputTokens: -1 is negative"]),
    (header(reason="fallback"), ["$.reason: 'fallback' is none of initial, resume, change"]),
    (header(reason=""), ["$.reason: '' is none of initial, resume, change"]),
    (header(provider=""), ["$.header.config: provider and model may not be empty"]),
    (header(model=""), ["$.header.config: provider and model may not be empty"]),
    (header(reasoning_effort=""), ["$.header.config.reasoningEffort: may be absent, not empty"]),
    (
        header(defaults=AdapterDefaults(reasoning_effort=True)),
        ["$.header.adapterDefaults.reasoningEffort: marks a field that the config does not have"],
    ),
    (
        header(defaults=AdapterDefaults(max_tokens=True)),
        ["$.header.adapterDefaults.maxTokens: marks a field that the config does not have"],
    ),
    (
        header(defaults=AdapterDefaults(max_tokens=False), max_tokens=5),
        ["$.header.adapterDefaults.maxTokens: may be absent or true, not false"],
    ),
    (TurnEnd(turn=1, reason=Errored(Failure("", "C"))), ["$.reason.error: a failure has a message and a code"]),
    (TurnEnd(turn=1, reason=Errored(Failure("m", ""))), ["$.reason.error: a failure has a message and a code"]),
    (TurnEnd(turn=1, reason=Errored(Failure("m", "C", status=99))), ["$.reason.error.status: 99 is no HTTP status"]),
    (TurnEnd(turn=1, reason=Errored(Failure("m", "C", status=600))), ["$.reason.error.status: 600 is no HTTP status"]),
]

FINE: list[Payload] = [
    user(),
    replace(user(), content=()),
    replace(user(), source=PluginSource(plugin="notes", form="notice", summary="x")),
    replace(user(), source=SOURCE),
    answer(),
    answer(TextBlock("hi"), interrupted=True),
    asks("c1", "c2"),
    replace(answer(), usage=used(cache_read_tokens=0, cache_write_tokens=3, reasoning_tokens=1)),
    chunk(ToolCallDelta(index=0, id="c1", arguments_delta="")),
    header(),
    header("change", AdapterDefaults(reasoning_effort=True, max_tokens=True), reasoning_effort="high", max_tokens=5),
    header("resume", AdapterDefaults()),
]


@pytest.mark.parametrize(("payload", "faults"), FAULTS, ids=[faults[0][:50] for _, faults in FAULTS])
def test_a_broken_shape_is_refused_at_append_and_listed_in_stored_logs(payload: Payload, faults: list[str]) -> None:
    found = list(shape_faults(payload))
    assert len(found) == len(faults)
    assert all(one.startswith(expected) for one, expected in zip(found, faults, strict=True))
    session = in_step()
    session.append(call("c1"))
    before = standing(session)
    with pytest.raises(ShapeError) as caught:
        session.append(payload)  # type: ignore[call-overload]
    assert str(caught.value).startswith(f"{payload.event_type} @4: {faults[0]}")
    assert standing(session) == before


@pytest.mark.parametrize("payload", FINE, ids=lambda one: one.event_type)
def test_a_good_shape_is_accepted(payload: Payload) -> None:
    assert list(shape_faults(payload)) == []
    event = in_step().append(payload)  # type: ignore[call-overload]
    assert event.data == payload


def test_types_without_shape_rules_have_no_faults() -> None:
    assert list(shape_faults(TurnEnd(turn=1, reason=Opaque("paused", {"kind": "paused"})))) == []


def test_a_message_of_a_system_role_is_no_users() -> None:
    payload = replace(answer(), message=Message("system", (), SOURCE, "a"))
    assert list(shape_faults(payload)) == ["$.message.role: expected 'assistant', got 'system'"]

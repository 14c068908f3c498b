"""The model's argument text: strict JSON or an error it can act on (BC-017, BC-023, BC-026, BC-070)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.running import Rig
from turnlog.events import Json, ToolCall, thaw
from turnlog.tools import ToolArgsError, tool
from turnlog.tools.arguments import parse

CASES = Path(__file__).parents[1] / "data" / "cases"


@pytest.mark.parametrize("raw", ["", " ", " \n", "\t\r\n ", "null", " null\n", "{}", " {} "])
def test_no_arguments_are_an_empty_object(raw: str) -> None:
    """BC-026 a to e: the word null counts as no arguments."""
    assert parse(raw) == {}


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ('{"command": "rm -rf bui', "not valid JSON: Unterminated string starting at at line 1 column 13 (char 12)"),
        ('{"q":"a"}{"q":"b"}', "not valid JSON: Extra data at line 1 column 10 (char 9)"),
        ("{'a': 1}", "not valid JSON"),
        ('{"a": 1,}', "not valid JSON"),
        ('{"a": 012}', "not valid JSON"),
        ('{"a": +1}', "not valid JSON"),
        ("\ufeff{}", "not valid JSON"),
        ("\u00a0", "not valid JSON"),
        ('{"a": "\n"}', "not valid JSON"),
        ("[]", "must be a JSON object, not an array"),
        ('"{}"', "must be a JSON object, not a string"),
        ("1", "must be a JSON object, not a number"),
        ("true", "must be a JSON object, not a boolean"),
        ('{"command":"ls","command":"touch SHOULD-NOT-EXIST"}', "repeat the key 'command'"),
        ('{"a": {"b": 1, "b": 1}}', "repeat the key 'b'"),
        ('{"a": 1, "\\u0061": 2}', "repeat the key 'a'"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": -Infinity}', "-Infinity is no JSON number"),
        ('{"a": 1e999}', "too large"),
        ('{"a": "\\ud83d"}', "half of a surrogate pair (U+D83D)"),
        ('{"\\ude00": 1}', "half of a surrogate pair"),
        ('{"a": ' + "9" * 4400 + "}", "more than 4,300 digits"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_strict_json_object_is_refused_with_its_reason(raw: str, said: str) -> None:
    with pytest.raises(ToolArgsError) as raised:
        parse(raw)
    assert said in str(raised.value)


def test_integers_keep_every_digit() -> None:
    """BC-023."""
    assert parse('{ "id": 2512292042121000001, "limit": 1.0 }') == {"id": 2512292042121000001, "limit": 1.0}
    digits = "7" * 4300
    assert parse(f'{{"a": {digits}}}') == {"a": int(digits)}


def test_arguments_are_immutable() -> None:
    value: Any = parse('{"a": {"b": [1]}}')
    with pytest.raises(TypeError):
        value["a"]["b"] = 2
    with pytest.raises(TypeError):
        value["a"]["b"][0] = 2


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), values), st.booleans())
def test_every_json_object_is_read_as_it_is(value: dict[str, Json], ascii_only: bool) -> None:
    assert thaw(parse(json.dumps(value, ensure_ascii=ascii_only))) == value


@given(st.dictionaries(st.text(), values, min_size=1), st.data())
def test_no_cut_of_an_object_is_ever_an_object(value: dict[str, Json], data: st.DataObject) -> None:
    """BC-017: a prefix is refused, or it is nothing at all."""
    raw = json.dumps(value)
    cut = raw[: data.draw(st.integers(1, len(raw) - 1))]
    with pytest.raises(ToolArgsError):
        parse(cut)


@given(st.text())
def test_no_text_does_anything_but_parse_or_fail_as_told(raw: str) -> None:
    with contextlib.suppress(ToolArgsError):
        parse(raw)


def raw_arguments(case: str) -> str:
    """The arguments of the one call of a stream, joined as the assembler does."""
    text = ""
    for line in (CASES / case).read_bytes().split(b"\n"):
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:]).get("choices", []):
                for call in choice["delta"].get("tool_calls") or []:
                    text += call["function"].get("arguments") or ""
    return text


@pytest.mark.parametrize(
    "case",
    [
        "BC-017/a-tool_calls-but-cut.sse",
        "BC-017/b-stop-but-cut.sse",
        "BC-017/d-two-objects.sse",
        "BC-026/g-array.sse",
        "BC-070/dup-in-arguments.sse",
    ],
)
def test_arguments_of_reported_streams_never_reach_a_tool(case: str) -> None:
    if not (CASES / case).exists():
        pytest.skip(f"{case} is not among the bundled cases")
    ran: list[str] = []

    @tool
    def anything(command: str = "", q: str = "", query: str = "", path: str = "") -> str:
        """Whatever."""
        ran.append(command or q or query or path)
        return "ran"

    async def main() -> None:
        result = await Rig(anything).run("anything", raw_arguments(case))
        assert result.error is not None
        assert result.error.code == "INVALID_ARGS"

    asyncio.run(main())
    assert ran == []


def test_the_arguments_in_the_log_reach_the_tool_exactly() -> None:
    """BC-023, big-arg.jsonl."""
    turnlog = pytest.importorskip("turnlog")
    path = CASES / "BC-023" / "big-arg.jsonl"
    if not path.exists():
        pytest.skip("the case is not bundled")
    [call] = turnlog.load(path).select(ToolCall)
    got: list[tuple[int, float]] = []

    @tool
    def sql(id: int, limit: float) -> str:
        """Look up."""
        got.append((id, limit))
        return "1 row"

    asyncio.run(Rig(sql).run("sql", call.data.arguments))  # type: ignore[arg-type]
    assert call.data.arguments == '{ "id": 2512292042121000001, "limit": 1.0 }'
    assert got == [(2512292042121000001, 1.0)]

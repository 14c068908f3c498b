"""Tools from functions: schema, description, validation, and what keeps a function from being one."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from tests.tools.running import Rig
from turnlog.events import thaw
from turnlog.tools import AnyTool, Call, Result, Toolbox, ToolContext, ToolDefinitionError, tool
from turnlog.tools.docstring import read_docstring


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    deep: bool


@dataclass
class Size:
    width: int


class Tree(BaseModel):
    children: list[Tree]


def run(one: AnyTool, raw: str | None = None, /, **arguments: object) -> Result:
    async def main() -> Result:
        return await Rig(one).run(one.name, raw, **arguments)

    return asyncio.run(main())


def parameters(one: AnyTool) -> Any:
    return thaw(one.schema.parameters)


# -- schemas ----------------------------------------------------------------------------------------------------------


def test_the_schema_comes_from_signature_and_docstring() -> None:
    @tool
    def search(query: str, ctx: ToolContext, limit: int = 10, kinds: list[Literal["a", "b"]] | None = None) -> str:
        """Search the archive.

        Finds whole words.

        Args:
            query: What to look for,
                in any language.
            limit (int): How many at most.
        """
        return f"{query} {limit} {kinds} {ctx.call.call_id}"

    assert search.schema.name == "search"
    assert search.schema.description == "Search the archive.\n\nFinds whole words."
    assert parameters(search) == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for, in any language."},
            "limit": {"type": "integer", "default": 10, "description": "How many at most."},
            "kinds": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert run(search, query="x", kinds=None).text == "x 10 None call_1"


def test_models_enums_and_paths_are_arguments() -> None:
    @tool
    def draw(
        at: Point, color: Color, out: Path, day: date, size: Size, options: Options, tags: set[str], title: str
    ) -> str:
        """Draw."""
        assert isinstance(size, Size)
        return f"{at.x},{at.y} {color.name} {out.name} {day.year} {size.width} {options} {sorted(tags)} {title}"

    schema = parameters(draw)
    assert schema["properties"]["at"]["properties"]["x"] == {"type": "integer"}
    assert schema["properties"]["title"] == {"type": "string"}
    assert "$defs" not in schema
    result = run(
        draw,
        at={"x": 1},
        color="red",
        out="a/b",
        day="2026-01-02",
        size={"width": 3},
        options={"deep": True},
        tags=["b", "a"],
        title="t",
    )
    assert result.text == "1,0 RED b 2026 3 {'deep': True} ['a', 'b'] t"


def test_parameters_may_have_any_name() -> None:
    @tool
    def odd(_private: int, model_config: str, schema: str, copy: bool, self: str) -> str:
        """Take odd names."""
        return f"{_private} {model_config} {schema} {copy} {self}"

    assert run(odd, _private=1, model_config="a", schema="b", copy=True, self="c").text == "1 a b True c"


def test_annotations_may_be_local_to_where_the_tool_is_defined() -> None:
    class Local(BaseModel):
        x: int

    @tool
    def use(local: Local) -> str:
        """Use it."""
        return str(local.x)

    assert run(use, local={"x": 3}).text == "3"


def test_methods_and_callable_objects_are_tools() -> None:
    class Counter:
        """Count."""

        def __init__(self) -> None:
            self.total = 0

        def add(self, number: int) -> str:
            """Add a number."""
            self.total += number
            return str(self.total)

        async def __call__(self, number: int) -> str:
            return f"called with {number}"

    counter = Counter()
    add = tool(counter.add)
    assert run(add, number=2).text == "2"
    called: AnyTool = tool(name="call")(counter)
    assert run(called, number=2).text == "called with 2"
    assert "self" not in parameters(called)["properties"]


def test_a_tool_is_still_its_function() -> None:
    @tool(name="other_name", parallel=True, timeout=3)
    async def double(number: int) -> int:
        """Double."""
        return 2 * number

    assert asyncio.run(double(4)) == 8
    assert (double.name, double.timeout, double.__name__) == ("other_name", 3, "double")
    assert functools.reduce(lambda a, b: a + b, [1]) == 1


# -- validation -------------------------------------------------------------------------------------------------------


@tool
def typed(
    number: int,
    flag: bool = False,
    ratio: Annotated[float, Field(ge=0, le=1)] = 0.5,
    points: list[Point] = [],  # noqa: B006
) -> str:
    """Take typed arguments."""
    return f"{number!r} {flag!r} {ratio!r} {[one.x for one in points]}"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("{}", "number: required, but missing"),
        ('{"number": "x"}', "number: Input should be a valid integer"),
        ('{"number": 1, "flg": true}', "flg: no such parameter"),
        ('{"number": 1, "ratio": 2}', "ratio: Input should be less than or equal to 1 (got 2)"),
        ('{"number": 1, "points": [{"x": 1}, {"x": "one"}]}', "points.1.x: Input should be a valid integer"),
        ('{"number": null}', "number: Input should be a valid integer"),
        ('{"number": 1.5}', "number: "),
        ('{"number": [], "flag": "perhaps"}', "; flag: "),
    ],
)
def test_what_does_not_fit_is_named_field_by_field(raw: str, said: str) -> None:
    result = run(typed, raw)
    assert result.error is not None
    assert (result.error.name, result.error.code) == ("ToolArgsError", "INVALID_ARGS")
    assert result.text.startswith("Error: arguments do not fit typed: ")
    assert said in result.text


def test_long_values_and_many_faults_are_cut() -> None:
    raw = '{"number": "' + "x" * 10_000 + '", ' + ", ".join(f'"n{i}": 1' for i in range(50)) + "}"
    text = run(typed, raw).text
    assert len(text) < 1500
    assert "and 41 more" in text


@given(st.integers())
def test_integers_reach_the_tool_exactly(number: int) -> None:
    assert typed.bind({"number": number})["number"] == number


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["number", "flag", "ratio", "points", "other"]), json_like))
def test_any_arguments_are_taken_or_refused_and_never_crash(arguments: Any) -> None:
    from turnlog.tools import ToolArgsError

    try:
        bound = typed.bind(arguments)
    except ToolArgsError:
        return
    assert type(bound["number"]) is int
    assert type(bound["flag"]) is bool
    assert isinstance(bound["ratio"], float)
    assert 0 <= bound["ratio"] <= 1


def test_defaults_are_fresh_for_every_call() -> None:
    @tool
    def collect(into: list[int] = []) -> str:  # noqa: B006
        """Collect."""
        into.append(1)
        return str(into)

    assert [run(collect).text for _ in range(2)] == ["[1]", "[1]"]


# -- definitions ------------------------------------------------------------------------------------------------------


def test_everything_that_is_wrong_is_said_at_once() -> None:
    def bad(a, /, b, *rest: int, **more: int) -> str:  # type: ignore[no-untyped-def]
        """
        Args:
            b: The b.
            c: The c.
        """
        return ""

    with pytest.raises(ToolDefinitionError) as raised:
        tool(name="no good", timeout=-1)(bad)
    text = str(raised.value)
    assert "test_tool.py:" in text
    for said in (
        "1 to 64 letters",
        "no description",
        "timeout is -1",
        "'a' is positional only",
        "'b' has no annotation",
    ):
        assert said in text
    for said in ("takes *rest", "takes *more", "describes 'c'"):
        assert said in text
    assert len(raised.value.violations) == 8


@pytest.mark.parametrize("kind", [Tree, Callable[[], int], Rig, "Nowhere"])
def test_types_without_a_schema_are_refused(kind: Any) -> None:
    def bad(a: Any) -> str:
        """Take what has no schema."""
        return ""

    bad.__annotations__["a"] = kind
    with pytest.raises(ToolDefinitionError, match=r"parameters have no JSON Schema|annotations cannot be read"):
        tool(bad)


def test_a_function_without_docstring_may_be_described() -> None:
    def plain() -> str:
        return "x"

    with pytest.raises(ToolDefinitionError, match="write a docstring"):
        tool(plain)
    assert tool(description="Say x.")(plain).schema.description == "Say x."


# -- docstrings -------------------------------------------------------------------------------------------------------

GOOGLE = """Do it.

More words: with a colon.

Args:
    a: First,
        over two lines.
    b (int, optional): Second.

Returns:
    Nothing: really.
"""
NUMPY = """Do it.

More words: with a colon.

Parameters
----------
a : str
    First,
    over two lines.
b : int, optional
    Second.

Returns
-------
str
    Nothing.
"""
REST = """Do it.

More words: with a colon.

:param a: First,
    over two lines.
:param int b: Second.
:returns: Nothing.
:raises ValueError: never
"""


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST])
def test_docstrings_of_three_styles_say_the_same(text: str) -> None:
    assert read_docstring(text) == (
        "Do it.\n\nMore words: with a colon.",
        {"a": "First, over two lines.", "b": "Second."},
    )


@given(st.text("ab:- \nArgsParamets()*", max_size=60))
def test_no_docstring_breaks_the_reader(text: str) -> None:
    read_docstring(text)


# -- toolboxes --------------------------------------------------------------------------------------------------------


@tool(parallel=True)
def beta() -> str:
    """B."""
    return "b"


@tool(parallel=lambda arguments: arguments.get("safe"))  # type: ignore[arg-type,return-value]
def alpha(safe: Any = None) -> str:
    """A."""
    return "a"


@tool(parallel=lambda arguments: bool(1 / 0))
def gamma() -> str:
    """C."""
    return "c"


def test_schemas_are_sorted_and_the_same_until_something_changes() -> None:
    box = Toolbox([beta, alpha])
    before = box.schemas
    assert [one.name for one in before] == ["alpha", "beta"]
    assert box.schemas is before
    box.add(gamma)
    assert [one.name for one in box.schemas] == ["alpha", "beta", "gamma"]
    box.remove("alpha", "gamma")
    assert [one.name for one in box.schemas] == ["beta"]
    assert [one.name for one in Toolbox([alpha, beta, gamma], order=["gamma"]).schemas] == ["gamma", "alpha", "beta"]


def test_names_are_unique_and_a_refused_change_changes_nothing() -> None:
    box = Toolbox([beta])
    with pytest.raises(ToolDefinitionError) as raised:
        box.add(alpha, beta, print)  # type: ignore[arg-type]
    assert len(raised.value.violations) == 2
    with pytest.raises(KeyError, match="'nope'"):
        box.remove("beta", "nope")
    assert [one.name for one in box] == ["beta"]


def test_a_restricted_toolbox_has_what_is_allowed() -> None:
    box = Toolbox([alpha, beta, gamma])
    assert sorted(one.name for one in box.restrict(allow=["alpha", "beta"]).restrict(deny=["beta"])) == ["alpha"]
    assert len(box) == 3
    for wrong in ({}, {"allow": ["x"], "deny": ["y"]}, {"allow": []}):
        with pytest.raises(ValueError):
            box.restrict(**wrong)
    with pytest.raises(KeyError):
        box.restrict(deny=["nope"])


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [
        ("beta", "", True),
        ("alpha", '{"safe": true}', True),
        ("alpha", '{"safe": 1}', False),
        ("alpha", '{"safe": "yes"}', False),
        ("alpha", "{}", False),
        ("alpha", '{"safe": tru', False),
        ("gamma", "", False),
        ("nope", "", False),
    ],
)
def test_only_exactly_true_lets_calls_overlap(name: str, raw: str, expected: bool) -> None:
    box = Toolbox([alpha, beta, gamma])
    assert box.is_parallel(Call(1, 1, "c", name, raw)) is expected
    if name in box:
        box.remove(name)
    assert box.is_parallel(Call(1, 1, "c", name, raw)) is False

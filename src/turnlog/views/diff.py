"""`diff`: two sessions side by side, by what happened in them.

Turns are matched by what was asked, steps by the calls they make (tool and normalised arguments), calls by the same;
what has no match stands beside what is in the same place, while it is of the same kind. Then what is matched is
compared: text, reasoning, results, outcomes, tokens, ends. Times are told but are never a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from turnlog.log import Session

from .align import align, gaps
from .prices import Cost, PriceTable
from .runs import RunCall, RunStep, RunTurn, totals, turns_of
from .usage import usage

T = TypeVar("T")

Kind: TypeAlias = Literal[
    "turn", "step", "call", "prompt", "heard", "text", "reasoning", "arguments", "result", "outcome", "attempts",
    "tokens", "end",
]  # fmt: skip
"""What differs. ``turn``, ``step`` and ``call``: only one side has it."""


@dataclass(frozen=True)
class Difference:
    """One thing that is not the same."""

    kind: Kind
    left_address: str | None
    """None where the left side has nothing that corresponds."""
    right_address: str | None
    left: Any
    """What is said there; None where nothing is."""
    right: Any


@dataclass(frozen=True)
class Diff:
    """What :func:`diff` gives."""

    left: Session
    right: Session
    differences: tuple[Difference, ...]
    """In order; the first one is where the runs part."""
    left_totals: Mapping[str, int]
    """Counts, tokens and time."""
    right_totals: Mapping[str, int]

    @property
    def same(self) -> bool:
        """Whether the runs are the same but for their times."""
        return not self.differences

    def costs(self, prices: PriceTable | None = None) -> tuple[Cost, Cost]:
        """What the runs cost, with what a fork inherited, by the prices of a table (by default those that come with
        Turnlog); told like times, and never a difference."""
        left, right = (usage(one, whole=True).tally(prices).cost for one in (self.left, self.right))
        return left, right

    @property
    def first(self) -> Difference | None:
        """Where they part: the first difference that is more than a figure, or else the first."""
        told = [one for one in self.differences if one.kind != "tokens"]
        return next(iter(told or self.differences), None)


def diff(left: Session, right: Session) -> Diff:
    """What differs between two runs, stored or live, in whatever formats."""
    mine, theirs = left.header.cwd, right.header.cwd
    moved = mine != theirs
    lefts = turns_of(left, mine if moved and mine and len(mine) > 1 else None)
    rights = turns_of(right, theirs if moved and theirs and len(theirs) > 1 else None)
    return Diff(left, right, tuple(_turns(lefts, rights)), totals(lefts), totals(rights))


def _turns(left: Sequence[RunTurn], right: Sequence[RunTurn]) -> Iterator[Difference]:
    for one, other in _matched(left, right, lambda turn: turn.key, lambda _turn: None):
        if one is None or other is None:
            yield _alone("turn", one, other, lambda turn: turn.prompt)
            continue
        yield from _members(one, other, ("prompt",))
        yield from _steps(one.steps, other.steps)
        yield from _members(one, other, ("end",))


def _steps(left: Sequence[RunStep], right: Sequence[RunStep]) -> Iterator[Difference]:
    for one, other in _matched(left, right, lambda step: step.key, lambda step: step.tools):
        if one is None or other is None:
            yield _alone("step", one, other, _step_said)
            continue
        yield from _members(one, other, ("heard", "reasoning", "text"))
        yield from _calls(one.calls, other.calls)
        yield from _outcomes(one, other)
        mine, theirs = vars(one.tokens), vars(other.tokens)
        if mine != theirs:
            names = [name for name in mine if mine[name] != theirs[name]]
            yield Difference("tokens", one.address, other.address, {name: mine[name] for name in names},
                             {name: theirs[name] for name in names})  # fmt: skip


def _outcomes(one: RunStep, other: RunStep) -> Iterator[Difference]:
    if one.outcomes != other.outcomes:
        kind: Kind = "attempts" if len(one.outcomes) != len(other.outcomes) else "outcome"
        yield Difference(kind, one.address, other.address, one.outcomes, other.outcomes)


def _calls(left: Sequence[RunCall], right: Sequence[RunCall]) -> Iterator[Difference]:
    for one, other in _matched(left, right, lambda call: call.key, lambda call: call.name):
        if one is None or other is None:
            yield _alone("call", one, other, lambda call: {"name": call.name, "arguments": call.arguments})
            continue
        yield from _members(one, other, ("arguments", "result"))
        mine, theirs = _state(one), _state(other)
        if mine != theirs:
            yield Difference("outcome", one.address, other.address, mine, theirs)


def _state(call: RunCall) -> str:
    if call.result is None:
        return "no result"
    return "interrupted" if call.synthetic else "failed" if call.failed else "done"


def _step_said(step: RunStep) -> Any:
    calls = [f"{call.name}({call.arguments})" for call in step.calls]
    return {"text": step.text, "calls": calls} if calls else {"text": step.text}


def _members(one: Any, other: Any, names: Sequence[Kind]) -> Iterator[Difference]:
    for name in names:
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine != theirs:
            yield Difference(name, one.address, other.address, mine, theirs)


def _alone(kind: Kind, one: T | None, other: T | None, say: Callable[[T], Any]) -> Difference:
    mine, theirs = None if one is None else say(one), None if other is None else say(other)
    return Difference(kind, getattr(one, "address", None), getattr(other, "address", None), mine, theirs)


def _matched(
    left: Sequence[T], right: Sequence[T], key: Callable[[T], Hashable], kind: Callable[[T], Hashable]
) -> Iterator[tuple[T | None, T | None]]:
    """Pairs in order: by *key*; what is between two matches by *kind*, in order."""
    for one, other in gaps(align([key(each) for each in left], [key(each) for each in right])):
        if isinstance(one, int) and isinstance(other, int):
            yield left[one], right[other]
        elif isinstance(one, list) and isinstance(other, list):
            lefts, rights = [left[place] for place in one], [right[place] for place in other]
            for mine, theirs in align([kind(each) for each in lefts], [kind(each) for each in rights]):
                yield None if mine is None else lefts[mine], None if theirs is None else rights[theirs]

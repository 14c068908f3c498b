"""What an agent's own sessions tell: what a provider reported is in the log, its forks and its copies, once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest
from hypothesis import strategies as st

from tests.agent.harness import agent_of
from tests.conftest import Prove
from tests.views.logs import root
from turnlog.log import Session
from turnlog.model import call, error, text, usage
from turnlog.store import StoredSession, load
from turnlog.store.convert import convert
from turnlog.store.encode import lines_of
from turnlog.store.header import header_line
from turnlog.tools import tool
from turnlog.views.buckets import Buckets
from turnlog.views.usage import usage as usage_of


class Answer(NamedTuple):
    """One answer of the provider, and the usage that it reports."""

    ends: str
    """``done``, ``calls`` or ``breaks``: breaks off and is asked for again."""
    used: tuple[int, int, int, int]
    """Input, cache read, output, reasoning."""

    @property
    def parts(self) -> list[object]:
        given, read, output, thought = self.used
        told = usage(given, output, cache_read=read, reasoning=thought)
        match self.ends:
            case "calls":
                return [call("look", place="x"), told]
            case "breaks":
                return [text("It "), told, error("TRANSPORT")]
            case _:
                return [text("It is."), told]


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return f"{place}: nothing"


_USED = st.tuples(st.integers(0, 9000), st.integers(0, 9000), st.integers(4, 900), st.integers(0, 4))
_STEP = st.tuples(
    st.lists(st.builds(Answer, st.just("breaks"), _USED), max_size=2), st.sampled_from(("calls", "done")), _USED
)
_TURN = st.lists(_STEP, min_size=1, max_size=3)


def _answers(turn: Sequence[tuple[list[Answer], str, tuple[int, int, int, int]]]) -> list[Answer]:
    """What is answered in a turn: only the last step is done, all others call."""
    found: list[Answer] = []
    for place, (broken, _ends, used) in enumerate(turn):
        found += [*broken, Answer("done" if place == len(turn) - 1 else "calls", used)]
    return found


def _billed(answers: Sequence[Answer]) -> Buckets:
    inputs, reads, outputs, thoughts = zip(*(one.used for one in answers), strict=True) if answers else ((),) * 4
    return Buckets(sum(inputs), sum(reads), 0, sum(outputs), sum(thoughts))


def _work(session: Session, answers: Sequence[Answer]) -> None:
    async def run() -> None:
        async with agent_of(*(one.parts for one in answers), tools=[look], session=session) as agent:
            result = await agent.run("Look.")
            assert Buckets.of(result.usage)[0] == _billed(answers)

    anyio.run(run)


def _stored(session: Session, *, packed: bool) -> StoredSession:
    lines = lines_of(session.events) if packed else (event.line() for event in session.events)
    return load(b"".join(line + b"\n" for line in (header_line(session.header), *lines)))


def test_a_log_tells_the_usage_that_its_providers_reported(prove: Prove) -> None:
    """Live, stored, packed, and in a fork at any event whose agent works on."""

    def check(first: list[Answer], second: list[Answer], cut: int) -> None:
        session = Session()
        _work(session, first)
        assert usage_of(session).total.tokens == _billed(first)
        for packed in (False, True):
            assert usage_of(_stored(session, packed=packed)).charges == usage_of(session).charges
        fork = session.fork(cut % (len(session) + 1))
        inherited = [one.seq for one in usage_of(session).charges if one.seq < (fork.header.seed_length or 0)]
        assert usage_of(fork).total.requests == 0
        assert usage_of(fork).inherited >= len(inherited)
        _work(fork, second)
        both = usage_of(session) + usage_of(fork)
        assert both.total.tokens == _billed([*first, *second])
        assert both.total.requests == len(first) + len(second)

    turns = _TURN.map(_answers)
    prove("usage equals what providers reported", check, turns, turns, st.integers(0, 10_000))


def _logs(version: int) -> list[Path]:
    return sorted((root(version) / "--home-dev-project--").iterdir())


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("for_dsh", [False, True], ids=["ours", "for dsh"])
def test_conversion_keeps_every_request_with_its_time_route_and_address(
    version: int, for_dsh: bool, tmp_path: Path
) -> None:
    requests = 0
    for path in _logs(version):
        before = usage_of(load(path))
        made = convert(path, tmp_path, for_dsh=for_dsh)
        after = usage_of(load(made.path))
        requests += len(before.charges)
        assert [one._replace(seq=0, session="") for one in after.charges] == [
            one._replace(seq=0, session="") for one in before.charges
        ]
        assert after.inherited == before.inherited
    assert requests > 10

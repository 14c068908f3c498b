"""Sessions as stores keep them: resumed, broken off in the middle, forked; and what cannot be driven."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import turnlog
from tests.rerun import scenarios
from tests.rerun.scenarios import LISTENERS, Scenario
from tests.rerun.test_rerun import KINDS, recorded
from tests.views.logs import SAMPLE, root
from turnlog import Session
from turnlog.log import Session as LogSession
from turnlog.rerun import Rerun, RerunError, rerun


def run(session: Session, scenario: str = "") -> Rerun:
    return asyncio.run(rerun(session, listeners=LISTENERS.get(scenario, ()), patience=2))


def prefix(session: Session, length: int) -> Session:
    """The log of a writer that died after *length* events, gone on with."""
    from turnlog.log.lineage import inherit

    cut = LogSession(header=session.header)
    inherit(cut, session, length)
    return cut


def test_a_session_that_was_resumed(tmp_path: Path) -> None:
    async def work() -> None:
        for scenario in (scenarios.plain, scenarios.steered, scenarios.plain):
            async with turnlog.open_store(tmp_path) as store:
                session = await (store.create(cwd=tmp_path, id="s") if scenario is scenarios.plain and not made
                                 else store.resume("s"))  # fmt: skip
                made.append(session)
                await scenario(session)

    made: list[Session] = []
    asyncio.run(work())
    session = turnlog.load(next(tmp_path.rglob("session.jsonl")))
    again = run(session)
    assert again.same, str(again)
    assert len(list(again.session.select(turnlog.events.EndSeed))) == 2


@KINDS
def test_a_session_whose_writer_died_anywhere(scenario: Scenario) -> None:
    """Cut after every seventh event, left like that or gone on with."""
    session = recorded(scenario)
    for length in range(1, len(session), 7):
        left = prefix(session, length)
        again = run(left, scenario.__name__)
        assert again.same, f"cut at {length}: {again}"
        if scenario.__name__ in LISTENERS:
            continue  # what goes on would need its own
        resumed = LogSession.resumed(left)
        resumed.settle()
        asyncio.run(scenarios.steered(resumed))
        again = run(resumed, scenario.__name__)
        assert again.same, f"resumed at {length}: {again}"


def test_a_fork_begins_with_what_it_took_over() -> None:
    parent = recorded(scenarios.plain)
    for length in (0, 5, 20, 40, len(parent)):
        child = parent.fork(length)
        asyncio.run(scenarios.steered(child))
        again = run(child)
        assert again.same, f"forked at {length}: {again}"
        assert again.session.header.seed_length == length


@pytest.mark.parametrize("version", [3, 4])
def test_another_format_is_refused_with_the_way_to_convert_it(version: int) -> None:
    path = next(root(version).rglob("*.jsonl*"))
    with pytest.raises(RerunError, match=f"format {version}.*turnlog convert"):
        run(turnlog.load(path, forensic=True))


def test_the_sample_of_the_documents_is_refused() -> None:
    with pytest.raises(RerunError, match="turnlog convert"):
        run(turnlog.load(SAMPLE))


@pytest.mark.parametrize("path", sorted(root(0).rglob("session.jsonl*")), ids=lambda path: path.parent.name)
def test_what_dsh_wrote_differs_in_words_of_results_only(path: Path) -> None:
    again = run(turnlog.load(path, forensic=True))
    if again.divergence is not None:
        assert again.divergence.left is not None
        assert (again.divergence.left.type, again.divergence.path) == (
            "tool/result",
            "$.message.content[0].content[0].text",
        )

"""Nothing durable is lost and nothing is invented, wherever the machine stops and whatever the disk does.

The real storage code runs on a simulated file system (:mod:`simfs`). A state is one loss at one crash point of one
workload with one set of faults; a violation names its number, and ``tests.crash.driver.replay`` gives the state again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest

from tests.conftest import FULL

from .contend import CONTESTS, contend
from .driver import Checker, Run, State, Storage, explore, faults_of, replay
from .losses import CUT, KILLED, MIXED, Loss
from .mutants import MUTANTS, Mutant
from .recovery import Violation, stopped_clock

STATES = 300_000 if FULL else 2_500
"""States of each shard; there are four."""
SHARE = 1.0 if FULL else 0.02
"""How many of a workload's faults are tried."""
BUDGET = 48
"""Workloads in which a planted bug has to be found."""

Record = Callable[[str, object], None]


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with stopped_clock():
        yield


@pytest.mark.proof
@pytest.mark.parametrize("shard", range(4))
def test_no_durable_event_is_lost_and_none_is_invented(shard: int, record_property: Record) -> None:
    check = Checker(Storage())
    workload = shard
    while check.states < STATES:
        explore(workload, check, share=SHARE)
        workload += 4
    encoding = "zstd" if shard % 2 else "plain"
    record_property(
        "proof",
        f"crash states of a simulated file system, {encoding}, shard {shard}: {check.states:,} states "
        f"({check.images:,} different images), 0 durable events lost, 0 invented; {check.refused:,} with a hole, "
        "refused by name with all durable events readable",
    )


@pytest.mark.proof
def test_a_second_writer_and_a_fenced_one_never_write(record_property: Record) -> None:
    seeds = range(3000 if FULL else 60)
    for seed in seeds:
        contend(seed, Storage())
    record_property("proof", f"contests of two writers on a simulated file system: {len(seeds) * len(CONTESTS):,}")


def _hunt(mutant: Mutant, budget: int = BUDGET) -> str | None:
    """How the planted bug shows in the first *budget* workloads, or None."""
    with mutant.plant() as storage:
        try:
            for seed in range(budget):
                contend(seed, storage)
            for workload in range(budget):
                explore(workload, Checker(storage, 0.1), only=mutant.only, share=0.25, faultless=not mutant.only)
        except Violation as error:
            return str(error)
    return None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    assert _hunt(mutant) is not None, f"{mutant.name} is not found in {BUDGET} workloads"


def test_the_code_as_it_is_passes_what_finds_planted_bugs() -> None:
    assert _hunt(Mutant("none", lambda: nullcontext(Storage()), ()), budget=6) is None


@pytest.mark.proof
def test_at_least_twelve_planted_bugs_are_found(record_property: Record) -> None:
    record_property(
        "proof", f"planted bugs in the storage code, each found in at most {BUDGET} workloads: {len(MUTANTS)}"
    )
    assert len(MUTANTS) >= 12


def test_one_number_gives_a_state_again() -> None:
    for address in (State(workload=3, fault=0, point=12, loss=1), State(workload=2, fault=36, point=3, loss=2)):
        assert State.of(address.number) == address
        assert replay(address.number) == replay(address.number)


class Watching(Checker):
    """Checks nothing; knows the number of each loss it was shown."""

    def __init__(self) -> None:
        super().__init__(Storage())
        self.shown: dict[State, Loss] = {}
        self._at = 0, 0

    def __call__(self, loss: Loss, run: Run) -> None:
        point, number = self._at
        self._at = run._point, number + 1 if run._point == point else 0
        self.shown[run.state._replace(point=run._point, loss=self._at[1])] = loss


@pytest.mark.parametrize("workload", [2, 3])
def test_the_number_of_a_state_gives_the_very_loss_that_was_tried(workload: int) -> None:
    plain = Run(State(workload, 0, 0, 0), (), Checker(Storage()), unwatched=True)
    plain.go()
    watching = Watching()
    Run(State(workload, 5, 0, 0), faults_of(plain.fs.calls, workload)[4], watching).go()
    states = list(watching.shown)
    assert {loss.kind for loss in watching.shown.values()} == {KILLED, CUT, MIXED}
    for state in states[:: len(states) // 5]:
        assert replay(state.number) == watching.shown[state]


def test_the_same_workload_runs_the_same_way_twice() -> None:
    runs = [Run(State(7, 0, 0, 0), (), Checker(Storage(), 0.1)) for _ in range(2)]
    for run in runs:
        run.go()
    assert runs[0].fs.calls == runs[1].fs.calls
    assert runs[0].lines == runs[1].lines

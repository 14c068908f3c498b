"""What all tests share: how much is tried, and how many tries are reported.

A *proof* is a property tried on many generated inputs. ``make test`` tries few of them, ``TURNLOG_PROOF=full`` many;
either way the number is printed at the end of the run. A test reports it with
``record_property("proof", "what was proven: 1000 logs")``, which also reaches the summary from xdist's workers.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy, tuples

FULL: Final = os.environ.get("TURNLOG_PROOF") == "full"

REDUCED_EXAMPLES: Final = 60
FULL_EXAMPLES: Final = 3000
EXAMPLES: Final = FULL_EXAMPLES if FULL else REDUCED_EXAMPLES

_ALWAYS: Final[dict[str, Any]] = {
    "deadline": None,  # no time limits: a slow machine is no fault
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("reduced", max_examples=REDUCED_EXAMPLES, **_ALWAYS)
settings.register_profile("full", max_examples=FULL_EXAMPLES, **_ALWAYS)
settings.load_profile("full" if FULL else "reduced")


RECORDING: Final = re.compile(r"(^|/)tests/(agent|cli)/")
"""Tests whose sessions are run again."""
IN_CLI: Final = "tests/cli/"


class Prove(Protocol):
    """Tries *check* on generated arguments and records how often, under *name*."""

    def __call__(
        self, name: str, check: Callable[..., object], *arguments: SearchStrategy[Any], times: int = 1
    ) -> None: ...


@pytest.fixture
def prove(record_property: Callable[[str, object], None]) -> Prove:
    """Run a property and report the number of tries: ``prove("live equals naive", check, random_logs)``."""

    def run(name: str, check: Callable[..., object], *arguments: SearchStrategy[Any], times: int = 1) -> None:
        tried = 0

        @settings(max_examples=EXAMPLES * times)
        @given(tuples(*arguments))
        def once(drawn: tuple[Any, ...]) -> None:
            nonlocal tried
            tried += 1
            check(*drawn)

        once()
        record_property("proof", f"{name}: {tried:,}")

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the proofs of this run with their counts."""
    reports = [report for kind in ("passed", "failed", "xfailed") for report in terminalreporter.stats.get(kind, [])]
    proofs = sorted(
        str(value)
        for report in reports
        for key, value in getattr(report, "user_properties", ())
        if key == "proof" and report.when == "call"
    )
    if proofs:
        terminalreporter.section(f"proofs ({'full' if FULL else 'reduced'} counts)")
        for line in proofs:
            terminalreporter.write_line(line)
    again = Counter(
        f"{key}: {value}"
        for report in reports + terminalreporter.stats.get("", [])
        for key, value in getattr(report, "user_properties", ())
        if key in ("rerun", "not rerun") and report.when == "teardown"
    )
    if again:
        terminalreporter.section("sessions that tests recorded, run again")
        for line, number in sorted(again.items()):
            terminalreporter.write_line(f"{line}: {number:,}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let fixtures know how their test came out."""
    report = yield
    if report.when == "call":
        item.came_to = report.outcome  # type: ignore[attr-defined]
    return report


@pytest.fixture(scope="session", autouse=True)
def _index_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands keep the indexes of what they list; those of the tests go when the tests do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNLOG_INDEX", str(tmp_path_factory.mktemp("index")))
        yield


@pytest.fixture(autouse=True)
def _reruns(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test of the agent or of the command line records is run again (tests/reruns.py)."""
    from tests import reruns

    node = request.node
    if not RECORDING.search(node.nodeid) or not reruns.taken(node.nodeid):
        yield
        return
    in_cli = IN_CLI in node.nodeid and "tmp_path" in request.fixturenames
    kept = request.getfixturevalue("tmp_path") if in_cli else None
    with pytest.MonkeyPatch.context() as patch, reruns.Recorder().listening(patch) as recorder:
        yield
    if getattr(node, "came_to", None) != "failed":
        kept = (
            request.getfixturevalue("tmp_path")
            if "tmp_path" in request.fixturenames and IN_CLI in node.nodeid
            else None
        )
        recorder.run_again(kept, lambda what, why: node.user_properties.append((what, why)))


@pytest.fixture
def anyio_backend() -> str:
    """What async tests run on: stores and agents belong to asyncio's loop."""
    return "asyncio"

"""Fixtures of the command line's tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.cli.running import Ran, runner


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Ran]:
    """``run("show", path)`` in this process."""
    return runner(capsysbinary)


@pytest.fixture(autouse=True)
def live_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """The time zone of the machine: UTC, until a test says ``live_in("JST-9")``."""

    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    move("UTC")
    yield move
    monkeypatch.undo()
    time.tzset()

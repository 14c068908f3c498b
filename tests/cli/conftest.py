"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.running import Ran, runner


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Ran]:
    """``run("show", path)`` in this process."""
    return runner(capsysbinary)

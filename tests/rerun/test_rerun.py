"""A session that the loop wrote, run again, says the same."""

from __future__ import annotations

import asyncio

import pytest

from tests.rerun.scenarios import LISTENERS, SCENARIOS, Scenario
from turnlog import Session
from turnlog.rerun import Rerun, rerun

PATIENCE = 2.0

KINDS = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)


def recorded(scenario: Scenario) -> Session:
    session = Session(cwd="/tmp")
    asyncio.run(scenario(session))  # type: ignore[arg-type]
    return session


def again(session: Session, scenario: Scenario) -> Rerun:
    return asyncio.run(rerun(session, listeners=LISTENERS.get(scenario.__name__, ()), patience=PATIENCE))


@KINDS
def test_no_divergence(scenario: Scenario) -> None:
    session = recorded(scenario)
    made = again(session, scenario)
    assert made.same, str(made)
    assert made.how == ""
    assert len(made.session) == len(session)

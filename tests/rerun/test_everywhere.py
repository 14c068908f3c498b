"""Whatever is done to a run, at whichever of its events: it says the same again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.conftest import FULL
from tests.rerun.scenarios import agent
from turnlog import Agent, Session
from turnlog.agent import Context
from turnlog.model import call, error, reasoning, text, usage
from turnlog.rerun import rerun

Act = Callable[[Agent], object]
ACTS: dict[str, Act] = {
    "cancel": lambda one: one.cancel(),
    "cancel and a followup": lambda one: (one.cancel(), one.followup("And now?")),
    "cancel, keeping the inbox": lambda one: one.cancel(keep_inbox=True),
    "steer": lambda one: one.steer("By the way."),
    "inject": lambda one: one.inject("For later."),
    "followup": lambda one: one.followup("And then?"),
    "withdraw": lambda one: one.inbox.clear(),
}


async def busy(act: Act | None, at: int) -> Session:
    """Two turns with everything; *act* comes as soon as it can after event *at*."""
    session = Session()
    naps = [call("nap", ms=ms) for ms in (3, 0, 1)]
    answers = [
        [reasoning("Hm."), text("So, "), error("SERVER")],
        [text("Look."), *naps, call("look"), call("nobody"), call("echo", said="x"), usage(5, 5)],
        [text("Done.")],
        *(text("Again.") for _ in range(5)),
    ]
    async with agent(session, answers, contexts=[Context("place", "here")], max_parallel=2) as one:
        loop = asyncio.get_running_loop()
        if act is not None:
            done = act
            session.subscribe(lambda event: event.seq == at and loop.call_soon(lambda: done(one)))
        one.followup("Go.")
        one.followup("On.")
        await one.when_idle()
        one.followup("Last.")
        await one.when_idle()
    return session


@pytest.mark.proof
@pytest.mark.parametrize("act", ACTS)
def test_at_every_event(act: str, record_property: Callable[[str, object], None]) -> None:
    length = len(asyncio.run(busy(None, 0)))
    places = range(0, length, 1 if FULL else 8)
    for at in places:
        session = asyncio.run(busy(ACTS[act], at))
        made = asyncio.run(rerun(session, patience=3))
        assert made.same, f"{act} at @{at}: {made}"
    record_property("proof", f"rerun after {act} at an event: {len(places)} sessions")

"""Whatever is done to a run, at whichever of its events: it says the same again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.conftest import FULL
from tests.rerun.scenarios import agent
from turnlog import Agent, Session
from turnlog.agent import Context, Enter, PreStep, Reject
from turnlog.bus import Next, Outcome
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


async def look(event: PreStep, next: Next[PreStep, Enter | Reject]) -> Outcome[Enter | Reject]:
    """A listener that decides nothing; a rerun waits for what it is given listeners for."""
    return await next()


def looks(one: Agent) -> None:
    one.on(PreStep, look)


async def busy(act: Act | None, at: int, *, heard: bool = False, listens: bool = False) -> Session:
    """Two turns with everything; *act* comes as soon as it can after event *at*. *heard*: while that event is heard,
    before anything else can come. *listens*: with :func:`look`."""
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
            session.subscribe(lambda event: event.seq == at and (done(one) if heard else loop.call_soon(done, one)))
        if listens:
            looks(one)
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


@pytest.mark.proof
@pytest.mark.parametrize("listens", [False, True])
@pytest.mark.parametrize("act", ["cancel", "cancel, keeping the inbox"])
def test_a_cancel_by_whoever_hears_an_event_is_run_again_at_that_event(
    act: str, listens: bool, record_property: Callable[[str, object], None]
) -> None:
    """It comes where the loop does not wait: between an answer and its calls, between two turns."""
    events = asyncio.run(busy(None, 0)).events
    ends = {event.seq for event in events if event.type in ("tool/result", "turn/end", "assistant/message")}
    places = ends | set(range(0, len(events), 1 if FULL else 12))
    for at in sorted(places):
        session = asyncio.run(busy(ACTS[act], at, heard=True, listens=listens))
        made = asyncio.run(rerun(session, listeners=(looks,) if listens else (), patience=3))
        assert made.same, f"{act} at @{at}: {made}"
    record_property("proof", f"rerun after {act} by a subscriber: {len(places)} sessions")

"""Turnlog's side of `benchmarks.working`: each case runs in a process of its own and prints one JSON line."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from itertools import count, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from turnlog import Session
from turnlog.agent import Agent
from turnlog.agent.attempt import Attempt
from turnlog.agent.place import Turn
from turnlog.bus import Cancellation
from turnlog.events import (
    AssistantChunk,
    AssistantMessage,
    BlockEnd,
    BlockStart,
    CallConfig,
    Completed,
    Finish,
    FinishStop,
    FinishToolCalls,
    Header,
    Message,
    StepEnd,
    StepStart,
    StreamChunk,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
    TurnEnd,
    TurnStart,
    UsageChunk,
    UserMessage,
)
from turnlog.model import ModelInfo, Request, open_model
from turnlog.model.openai_stream import ChatReader
from turnlog.model.reader import Reading
from turnlog.model.scripted import text, usage
from turnlog.store import open_store
from turnlog.testing.replies import Part, openai_events
from turnlog.tools import tool

from .peers_agent import workload

QUARTERS = 4
PERIOD = 0.005
"""Seconds between two looks at the event loop."""


class Stub:
    """A model that yields prepared chunks: a text, or in every other request a call."""

    info = ModelInfo("bench", "stub")

    def __init__(self, tool: bool = False, calls: int = 0, pause: float = 0.0, pieces: Sequence[str] = ()) -> None:
        """*calls*: how many requests in a row are answered with a call before the text."""
        self._calls = 1 if tool else calls
        self._pause = pause
        self._text = text_chunks(pieces or workload.PIECES)
        self._number = count()
        self._left = self._calls
        self.times: list[float] = []
        """When each request came, in seconds of CPU time."""

    async def stream(self, _request: Request) -> AsyncGenerator[StreamChunk, None]:
        self.times.append(time.process_time())
        if self._left:
            self._left -= 1
            for chunk in call_chunks(f"call_{next(self._number)}"):
                yield chunk
            return
        self._left = self._calls
        due = time.perf_counter()
        for chunk in self._text:
            if self._pause:
                due += self._pause
                await asyncio.sleep(due - time.perf_counter())
            yield chunk

    async def aclose(self) -> None:
        pass


def text_chunks(pieces: Sequence[str]) -> list[StreamChunk]:
    """A streamed answer, as adapters give it."""
    return [
        BlockStart(0, "text"),
        *(TextDelta(0, piece) for piece in pieces),
        BlockEnd(0, TextBlock("".join(pieces))),
        UsageChunk(TokenUsage(100, len(pieces))),
        Finish(FinishStop()),
    ]


def call_chunks(id: str) -> list[StreamChunk]:
    """A streamed call of ``echo``."""
    return [
        BlockStart(0, "tool-call"),
        ToolCallDelta(0, id, workload.ARGUMENTS, "echo"),
        BlockEnd(0, ToolCallBlock(id, "echo", workload.ARGUMENTS)),
        UsageChunk(TokenUsage(100, 5)),
        Finish(FinishToolCalls()),
    ]


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


def tell(session: Session, messages: int) -> None:
    """Put a history of turns into *session*: one question and one answer each."""
    said = workload.history(messages)
    for turn, (_role, question) in enumerate(said, 1):
        session.append(TurnStart(turn=turn))
        session.append(StepStart(turn=turn, step=1))
        session.append(UserMessage.of(question))
        _role, answer = next(said)
        message = Message.from_model(TextBlock(answer), provider="bench", model="stub")
        session.append(AssistantMessage(turn=turn, step=1, message=message), sources=[])
        session.append(StepEnd(turn=turn, step=1))
        session.append(TurnEnd(turn=turn, reason=Completed()))


# -- turns --------------------------------------------------------------------------------------------------------


async def _listened(agent: Agent) -> None:
    """A turn whose every event is read, as the peers' are."""
    async for _event in agent.stream(workload.SAID):
        pass


def turns(messages: str, variant: str, conversations: str) -> dict[str, Any]:
    """Turns of a live session in memory with a stub model."""
    first: list[float] = []

    async def start(count: int, tool: bool) -> workload.Turn:
        session = Session("bench")
        tell(session, count)
        agent = Agent(session, Stub(tool), [echo])
        fresh = True

        async def turn() -> None:
            nonlocal fresh
            began = time.perf_counter()
            await _listened(agent)
            if fresh:
                first.append(time.perf_counter() - began)
                fresh = False

        return turn

    seconds = asyncio.run(workload.measure(start, int(messages), variant == "tool", int(conversations)))
    return {"seconds": seconds, "first": min(first)}


def kept_turns(base_url: str, root: str, messages: str, number: str) -> dict[str, Any]:
    """Whole turns over HTTP on a session that is kept on disk, checkpoints and all."""
    return asyncio.run(_kept_turns(base_url, Path(root), int(messages), int(number)))


async def _kept_turns(base_url: str, root: Path, messages: int, number: int) -> dict[str, Any]:
    shutil.rmtree(root, ignore_errors=True)
    seconds, barriers = [], []
    model = open_model("openai/bench", base_url=base_url, api_key="k")
    async with open_store(root) as store:
        session = await store.create(cwd="/bench")
        tell(session, messages)
        await session.durable()
        async with Agent(session, model, [echo]) as agent:
            for place in range(number + 3):
                began = time.perf_counter()
                result = await agent.run(workload.SAID)
                took = time.perf_counter() - began
                assert result.text == workload.ANSWER, result
                if place >= 3:
                    seconds.append(took)
                began = time.perf_counter()
                session.append(UserMessage.of("one event"))
                await session.durable()
                barriers.append(time.perf_counter() - began)
        await model.aclose()
    return {"seconds": seconds, "barrier": median(barriers)}


# -- streams ------------------------------------------------------------------------------------------------------


def _attempt(session: Session, number: int) -> Attempt:
    turn = Turn(number, (), Cancellation(), step=1)
    session.append(TurnStart(turn=number))
    session.append(StepStart(turn=number, step=1))
    header = Header(config=CallConfig(provider="bench", model="stub"))
    return Attempt(session, turn, Request(session.id, number, 1, 1, header, session.derive_messages()), logged=True)


def lines(pieces: str, read: str) -> dict[str, Any]:
    """From the bytes of an SSE stream to chunks in the log: the adapter's reader and what the loop does per chunk.

    *read*: bytes per network read; 0 gives every event by itself, as a provider that flushes each token does.
    """
    parts: list[Part] = [text(*(f"word{n % 1000:03d} " for n in range(int(pieces)))), usage(100, int(pieces))]
    events = [step for step in openai_events(parts) if isinstance(step, bytes)]
    size = int(read)
    whole = b"".join(events)
    reads = events if not size else [whole[at : at + size] for at in range(0, len(whole), size)]
    seconds, read_only = [], []
    for _ in range(7):
        session = Session("bench")
        attempt = _attempt(session, 1)
        reading = Reading(ChatReader({}, str))
        began = time.perf_counter()
        for data in reads:
            for chunk in reading.feed(data):
                attempt.take(chunk)
        seconds.append((time.perf_counter() - began) / len(events))
        assert len(list(session.select(AssistantChunk))) == int(pieces) + 4
        reading = Reading(ChatReader({}, str))
        began = time.perf_counter()
        for data in reads:
            reading.feed(data)
        read_only.append((time.perf_counter() - began) / len(events))
    return {"seconds": seconds, "read": min(read_only)}


def saturated(base_url: str, pieces: str, rounds: str) -> dict[str, Any]:
    """Turns over HTTP whose answer comes as fast as it is read; seconds per chunk, the turn's own cost included."""
    return asyncio.run(_saturated(base_url, int(pieces), int(rounds)))


async def _saturated(base_url: str, pieces: int, rounds: int) -> dict[str, Any]:
    seconds, cpu = [], []
    model = open_model("openai/bench", base_url=base_url, api_key="k")
    for _ in range(rounds + 1):
        session = Session("bench")
        async with Agent(session, model) as agent:
            began, used = time.perf_counter(), time.process_time()
            await agent.run(workload.SAID)
            seconds.append((time.perf_counter() - began) / pieces)
            cpu.append((time.process_time() - used) / pieces)
        assert len(list(session.select(AssistantChunk))) == pieces + 4
    await model.aclose()
    return {"seconds": seconds[1:], "cpu": cpu[1:]}


def trickle(base_url: str, pieces: str, rounds: str) -> dict[str, Any]:
    """CPU seconds per chunk of a slow stream: the agent's, and those of a loop that only reads the bytes."""
    return asyncio.run(_trickle(base_url, int(pieces), int(rounds)))


async def _trickle(base_url: str, pieces: int, rounds: int) -> dict[str, Any]:
    model = open_model("openai/bench", base_url=base_url, api_key="k")
    found: dict[str, list[float]] = {"bare": [], "ours": [], "usual": []}
    async with httpx.AsyncClient() as client:
        ways: dict[str, Callable[[], Awaitable[None]]] = {
            "bare": lambda: _bare(client, base_url),
            "ours": lambda: _one_turn(model),
            "usual": lambda: _usual(client, base_url),
        }
        for number in range(rounds + 1):
            for name, way in ways.items():
                used = time.process_time()
                await way()
                if number:
                    found[name].append((time.process_time() - used) / pieces)
    await model.aclose()
    return found


async def _warm(model: Any) -> None:
    """The first chunk of an answer, and no more."""
    header = Header(config=CallConfig(provider="openai", model="bench"))
    async with aclosing(model.stream(Request("warm-up", 1, 1, 1, header, ()))) as chunks:
        await anext(chunks)


async def _one_turn(model: Any) -> None:
    async with Agent(Session("bench"), model) as agent:
        await agent.run(workload.SAID)


_BODY = {"model": "bench", "stream": True, "messages": [{"role": "user", "content": workload.SAID}]}


async def _bare(client: httpx.AsyncClient, base_url: str) -> None:
    async with client.stream("POST", f"{base_url}/chat/completions", json=_BODY) as response:
        async for _data in response.aiter_bytes():
            pass


async def _usual(client: httpx.AsyncClient, base_url: str) -> None:
    """What one would write by hand: lines, JSON, the text."""
    shown = []
    async with client.stream("POST", f"{base_url}/chat/completions", json=_BODY) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line[6:])["choices"]
                shown.append(choices[0]["delta"].get("content", "") if choices else "")


# -- long and many ------------------------------------------------------------------------------------------------


def long(steps: str) -> dict[str, Any]:
    """One turn of so many steps, each with a call and its result: CPU seconds of each quarter."""
    return asyncio.run(_long(int(steps)))


async def _long(steps: int) -> dict[str, Any]:
    model = Stub(calls=steps)
    session = Session("bench")
    async with Agent(session, model, [echo]) as agent:
        result = await agent.run(workload.SAID)
    assert result.reason == Completed()
    assert len(model.times) == steps + 1
    marks = model.times[:: steps // QUARTERS]
    return {"quarters": [after - before for before, after in pairwise(marks)]}


def many(base_url: str, root: str, agents: str, pieces: str, pause: str) -> dict[str, Any]:
    """So many agents whose models stream at the same time, in one process; how late the event loop comes.

    With a *base_url* they stream over HTTP; with a *root* their sessions are kept on disk.
    """
    return asyncio.run(_many(base_url, root, int(agents), int(pieces), float(pause)))


async def _many(base_url: str, root: str, agents: int, pieces: int, pause: float) -> dict[str, Any]:
    texts = [f"word{n % 1000:03d} " for n in range(pieces)]
    shared = open_model("openai/bench", base_url=base_url, api_key="k") if base_url else None
    if root:
        shutil.rmtree(root, ignore_errors=True)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(root)) if root else None
        made = []
        for _ in range(agents):
            session = await store.create(cwd="/bench") if store else Session()
            model = shared or Stub(pause=pause, pieces=texts)
            made.append(await stack.enter_async_context(Agent(session, model)))
        if shared:  # httpx is imported and its client made with the first request
            await _warm(shared)
        lags: list[float] = []
        watch = asyncio.create_task(_watch(lags))
        began, used, queued = time.perf_counter(), time.process_time(), _queued()
        await asyncio.gather(*(_late(agent, number * pause / agents) for number, agent in enumerate(made)))
        seconds, cpu, queued = time.perf_counter() - began, time.process_time() - used, _queued() - queued
        watch.cancel()
        chunks = sum(len(list(agent.session.select(AssistantChunk))) for agent in made)
    if shared:
        await shared.aclose()
    return {
        "p99": sorted(lags)[int(len(lags) * 0.99)],
        "max": max(lags),
        "queued": queued / seconds,
        "rate": chunks / seconds,
        "cpu": cpu / seconds,
        "seconds": seconds,
    }


def _queued() -> float:
    """Seconds that this thread was ready and had no processor, because other programs had them; 0 where unknown."""
    told = Path("/proc/thread-self/schedstat")
    return int(told.read_text().split()[1]) / 1e9 if told.exists() else 0.0


async def _late(agent: Agent, seconds: float) -> None:
    """A turn that begins a little later than the one before it."""
    await asyncio.sleep(seconds)
    await agent.run(workload.SAID)


async def _watch(lags: list[float]) -> None:
    """How much later than asked a sleep ends, over and over."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(PERIOD)
        lags.append(time.perf_counter() - began - PERIOD)


CASES: dict[str, Callable[..., dict[str, Any]]] = {
    "turns": turns,
    "kept-turns": kept_turns,
    "lines": lines,
    "saturated": saturated,
    "trickle": trickle,
    "long": long,
    "many": many,
}

if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]](*sys.argv[2:])))

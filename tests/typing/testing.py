"""`turnlog.testing` as tests use it: every line is fine for both checkers. Nothing here runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

from turnlog.events import AssistantMessage, Completed, StepEnd, ToolCall, TurnEnd, UserMessage
from turnlog.log import Session
from turnlog.model import Model, call, error, reasoning, text, usage, wait
from turnlog.testing import (
    Cassette,
    FrozenClock,
    LoopbackServer,
    assert_log,
    chunks,
    drop,
    frozen_ids,
    hang,
    keep_alive,
    like,
    refuse,
    reply,
    sse,
)
from turnlog.testing.loopback import Script


def lists(arguments: str) -> bool:
    return "ls" in arguments


def asserting(session: Session) -> None:
    assert_log(session, ["turn/start", UserMessage, "request/*", chunks(3), ..., TurnEnd(turn=1, reason=Completed())])
    assert_log(list(session.events), [StepEnd, like(AssistantMessage, text="x"), like("hook/result", decision="block")])
    assert_log(session, [..., like(ToolCall, arguments=lists), lambda event: event.seq == 3])
    assert_log(session, [], without=("assistant/chunk",))


def clocks() -> Session:
    clock = FrozenClock(step_ms=10)
    clock.advance(5)
    with frozen_ids():
        return Session(clock=clock)


def answer(body: Any) -> str:
    return str(body["messages"])


async def serving() -> None:
    script: Script = [
        "hello",
        [text("a", "b"), call("read", path="x"), usage(1, 2)],
        error("RATE_LIMIT", retry_after_ms=20),
        reply(reasoning("Hm"), keep_alive(), wait(0.1), sse(b": x\n\n"), drop(), pieces=1, pause=0.1, cut_bytes=3),
        refuse(429, retry_after=2),
        hang(),
        answer,
        lambda body: "hello",
    ]
    async with LoopbackServer(script) as server:
        assert_type(server.base_url, str)
        assert_type([one.path for one in server.requests], list[str])
    with LoopbackServer(answer, strict=False) as server:
        server.assert_done()


def recording(cassette: Cassette, session: Session) -> Model:
    assert_type(cassette.path, Path)
    assert_type(cassette.keep(session), Session)
    return cassette.model("deepseek/deepseek-chat", context_window=1000)

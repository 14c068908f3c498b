"""What tests of tools share: a session with an open step, and a pipeline over it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from turnlog.bus import Bus, Cancellation
from turnlog.events import LogPayload, StepStart, TurnStart
from turnlog.log import Session
from turnlog.tools import AnyTool, Approvals, Call, Pipeline, Result, Toolbox


def session() -> Session:
    """A log with turn 1, step 1 open."""
    session = Session()
    session.append(TurnStart(turn=1))
    session.append(StepStart(turn=1, step=1))
    return session


class Rig:
    """A pipeline and everything around it."""

    def __init__(
        self,
        *tools: AnyTool,
        workspace: Path | str = ".",
        approvals: Approvals | None = None,
        spill: Path | None = None,
        grace: float = 2.0,
        late: Callable[[Call, Result], object] | None = None,
    ) -> None:
        self.session = session()
        self.bus = Bus()
        self.toolbox = Toolbox(tools)
        self.cancellation = Cancellation()
        self.pipeline = Pipeline(
            self.toolbox,
            self.bus,
            self.session,
            workspace=workspace,
            approvals=approvals,
            spill=spill,
            grace=grace,
            late=late,
        )
        self._calls = 0

    def call(self, name: str, raw: str | None = None, /, **arguments: object) -> Call:
        self._calls += 1
        return Call(1, 1, f"call_{self._calls}", name, json.dumps(arguments) if raw is None else raw)

    async def run(self, name: str, raw: str | None = None, /, **arguments: object) -> Result:
        return await self.through(self.call(name, raw, **arguments))

    async def through(self, call: Call) -> Result:
        prepared = await self.pipeline.prepare(call, self.cancellation)
        return await self.pipeline.finish(await self.pipeline.execute(prepared))

    def logged(self, kind: type[LogPayload]) -> list[object]:
        return [getattr(event.data, "value", event.data) for event in self.session.select(kind)]

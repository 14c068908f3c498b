"""openai-agents: a Model that yields prepared events, `run_streamed` read to its end; the history is a SQLiteSession in
memory, as its guide shows. Tracing is off: it would queue every turn for an upload.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import workload
from agents import Agent, ModelResponse, Runner, SQLiteSession, function_tool, set_tracing_disabled
from agents.models.interface import Model
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

_numbers = count()


class Stub(Model):
    """Answers with the same text, or first with a call."""

    def __init__(self, tool: bool) -> None:
        self._tool = tool
        self._deltas = [
            ResponseTextDeltaEvent(
                content_index=0, delta=piece, item_id="m", logprobs=[], output_index=0, sequence_number=number,
                type="response.output_text.delta",
            )
            for number, piece in enumerate(workload.PIECES)
        ]  # fmt: skip

    async def get_response(self, *_given: Any, **_named: Any) -> ModelResponse:
        raise NotImplementedError("it is asked for streams only")

    async def stream_response(self, _system: str | None, input: Any, *_given: Any, **_named: Any) -> AsyncIterator[Any]:
        if self._tool and input[-1].get("type") != "function_call_output":
            call = ResponseFunctionToolCall(
                arguments=workload.ARGUMENTS, call_id=f"call_{next(_numbers)}", name="echo", type="function_call"
            )
            yield _completed(call)
            return
        for event in self._deltas:
            yield event
        text = ResponseOutputText(annotations=[], text=workload.ANSWER, type="output_text")
        yield _completed(
            ResponseOutputMessage(
                id=f"msg_{next(_numbers)}", content=[text], role="assistant", status="completed", type="message"
            )
        )


def _completed(item: Any) -> ResponseCompletedEvent:
    response = Response(
        id="resp", created_at=0, model="stub", object="response", output=[item], parallel_tool_calls=False,
        tool_choice="auto", tools=[],
    )  # fmt: skip
    return ResponseCompletedEvent(response=response, sequence_number=99, type="response.completed")


@function_tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


async def start(messages: int, tool: bool) -> workload.Turn:
    agent = Agent(name="bench", model=Stub(tool), tools=[echo])
    session = SQLiteSession("bench")
    await session.add_items([{"role": role, "content": text} for role, text in workload.history(messages)])

    async def turn() -> None:
        running = Runner.run_streamed(agent, workload.SAID, session=session)
        async for _event in running.stream_events():
            pass
        assert running.final_output == workload.ANSWER

    return turn


if __name__ == "__main__":
    set_tracing_disabled(True)
    workload.main(start)

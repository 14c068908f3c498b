"""pydantic-ai: a FunctionModel that streams, every event handed to a handler; `message_history` is what the last run
gave. Included: its graph, its parts manager, its usage. Not included: instrumentation (off by default).
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator

import workload
from pydantic_ai import Agent, ModelMessage, ModelRequest, ModelResponse, TextPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel


async def start(messages: int, tool: bool) -> workload.Turn:
    async def answer(seen: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        last = seen[-1].parts[-1]
        if tool and not isinstance(last, ToolReturnPart):
            yield {0: DeltaToolCall("echo", workload.ARGUMENTS, tool_call_id=f"call_{len(seen)}")}
            return
        for piece in workload.PIECES:
            yield piece

    agent = Agent(FunctionModel(stream_function=answer))

    @agent.tool_plain
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    async def look(_context: object, events: AsyncIterable[object]) -> None:
        async for _event in events:
            pass

    said: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(text)]) if role == "user" else ModelResponse(parts=[TextPart(text)])
        for role, text in workload.history(messages)
    ]

    async def turn() -> None:
        nonlocal said
        done = await agent.run(workload.SAID, message_history=said, event_stream_handler=look)
        assert done.output == workload.ANSWER
        said = done.all_messages()

    return turn


if __name__ == "__main__":
    workload.main(start)

"""langgraph: `create_react_agent` with a chat model that streams prepared pieces, read with ``stream_mode="messages"``;
the history is the thread's state in an InMemorySaver. Included: its checkpoints. LangSmith is not configured.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import workload
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.tools import tool as as_tool
from langgraph.checkpoint.memory import InMemorySaver

warnings.simplefilter("ignore")  # create_react_agent has moved to langchain; this one is the same graph
from langgraph.prebuilt import create_react_agent  # noqa: E402

_numbers = count()


class Stub(BaseChatModel):
    """Answers with the same text, or first with a call."""

    calls: bool

    @property
    def _llm_type(self) -> str:
        return "stub"

    def bind_tools(self, _tools: Any, **_named: Any) -> Any:
        return self

    def _generate(self, *_given: Any, **_named: Any) -> ChatResult:
        raise NotImplementedError("it is asked for streams only")

    async def _astream(self, messages: list[BaseMessage], *_given: Any, **_named: Any) -> AsyncIterator[Any]:
        if self.calls and not isinstance(messages[-1], ToolMessage):
            call = {"name": "echo", "args": workload.ARGUMENTS, "id": f"call_{next(_numbers)}", "index": 0}
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[call]))
            return
        for piece in workload.PIECES:
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))


@as_tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


async def start(messages: int, tool: bool) -> workload.Turn:
    graph = create_react_agent(Stub(calls=tool), [echo], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "bench"}}
    said = [
        HumanMessage(text) if role == "user" else AIMessage(text) for role, text in workload.history(messages)
    ]  # fmt: skip
    await graph.aupdate_state(thread, {"messages": said})

    async def turn() -> None:
        shown = []
        asked = {"messages": [HumanMessage(workload.SAID)]}
        async for message, _about in graph.astream(asked, thread, stream_mode="messages"):
            if isinstance(message, AIMessageChunk):
                shown.append(message.text)
        assert "".join(shown) == workload.ANSWER

    return turn


if __name__ == "__main__":
    workload.main(start)

"""Chat-completion messages, one conversation or one message to a line.

```
{"messages": [{"role": …, "content": …}, …], "tools": …, "model": …, …}     a conversation, as request logs and
                                                                            training sets hold them
{"role": "user", "content": …}                                              one message
```

A conversation that goes on where the line before ended (all its messages, and more) continues it; any other takes its
place, because the model never saw the two together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from turnlog.events import (
    Block,
    Message,
    ModelSource,
    PluginSource,
    ReasoningBlock,
    TextBlock,
    TokenUsage,
    ToolCallBlock,
    ToolResult,
    ToolResultBlock,
    ToolSchema,
    ToolSource,
    UserMessage,
    UserSource,
)
from turnlog.events.lossless import freeze

from .builder import UNRECORDED, Builder
from .images import data_url, image_block
from .record import Object, Record, as_list, as_object, count_of, elements, json_text, text_of
from .session import About, keep_image, opaque_block
from .step import From

_CONVERSATION: Final = frozenset(
    {"messages", "tools", "functions", "model", "usage", "id", "created", "parallel_tool_calls"}
)
"""Members of a line that are mapped; others are kept with the line."""
_MESSAGE: Final = frozenset({
    "role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "reasoning_content",
    "reasoning", "id", "model", "usage", "timestamp", "created", "created_at",
})  # fmt: skip


class ChatMapper:
    """Maps the lines of one file, in order."""

    def __init__(self, builder: Builder, about: About) -> None:
        self._builder = builder
        self._about = about
        self._before: list[bytes] = []
        """The messages of the conversation so far, as they stand in the file."""
        self._model = ModelSource(UNRECORDED, UNRECORDED)
        self._calls: list[str] = []
        """Ids of calls in the old shape, which has none, that wait for a result."""

    def take(self, record: Record) -> None:
        """Map one line."""
        value = record.value
        origin = From(record.line, record.time)
        if isinstance(value.get("messages"), list):
            self._conversation(record, origin)
        elif "role" in value:
            self._message(value, record.raw, origin)
            self._keep_rest(record, origin, _MESSAGE)
        else:
            self._builder.keep("chat/record", record.raw, origin)

    def _keep_rest(self, record: Record, origin: From, known: frozenset[str]) -> None:
        if not record.value.keys() <= known:
            self._builder.keep("chat/record", record.raw, origin._replace(id=None))

    def _conversation(self, record: Record, origin: From) -> None:
        value = record.value
        raws = elements(record.kept("messages"))
        messages = value["messages"]
        same = 0
        for old, new in zip(self._before, raws, strict=False):
            if old != new:
                break
            same += 1
        goes_on = bool(raws) and same == len(self._before) and len(raws) == len(messages)
        if not goes_on:
            same = 0
            if self._before:
                self._begin_another()
        self._header(value)
        self._before = raws
        for place in range(same, len(messages)):
            raw = raws[place] if len(raws) == len(messages) else json_text(messages[place]).encode()
            self._message(as_object(messages[place]), raw, origin)
        usage = usage_of(as_object(value.get("usage")))
        if usage is not None and self._builder.step is not None:
            self._builder.step.usage = usage
        if same == len(messages):  # the line before once more, or none at all
            self._builder.keep("chat/repeated", record.raw, origin)
        else:
            self._keep_rest(record, origin, _CONVERSATION)

    def _begin_another(self) -> None:
        builder = self._builder
        builder.settle()
        builder.end_turn(None, None)
        builder.rewind(1)
        builder.system = builder.tools = None
        self._model = ModelSource(UNRECORDED, UNRECORDED)
        self._calls = []
        text = "conversations that do not go on where the line before ended; each takes the place of the one before"
        builder.remark("conversations", text, lost=False)

    def _header(self, value: Object) -> None:
        model = text_of(value.get("model"))
        if model is not None:
            self._model = ModelSource(UNRECORDED, model)
        tools = [*as_list(value.get("tools")), *({"function": one} for one in as_list(value.get("functions")))]
        schemas = [_schema(as_object(as_object(one).get("function"))) for one in tools]
        known = tuple(one for one in schemas if one is not None)
        if known or "tools" in value:
            self._builder.tools = known or None

    # -- messages -----------------------------------------------------------------------------------------------

    def _message(self, message: Object, raw: bytes, origin: From) -> None:
        role = message.get("role")
        at = origin._replace(id=text_of(message.get("id")))
        if text_of(message.get("model")):
            self._model = ModelSource(UNRECORDED, message["model"])
        if role in ("system", "developer"):
            self._instructions(message, raw, at)
        elif role == "user":
            self._builder.prompt(self._user(message, at, UserSource()), at)
        elif role == "assistant":
            self._assistant(message, at)
        elif role in ("tool", "function"):
            self._result(message, at)
        else:
            self._builder.keep("chat/message", raw, at)

    def _user(self, message: Object, origin: From, source: UserSource | PluginSource) -> UserMessage:
        blocks = tuple(self._blocks(message.get("content"), origin))
        return UserMessage(content=blocks, source=source, id=origin.id or self._id(origin))

    def _id(self, origin: From) -> str:
        return f"chat-line-{origin.line}-{self._builder.rows.length + self._builder.waiting}"

    def _instructions(self, message: Object, raw: bytes, origin: From) -> None:
        """The system prompt is part of the request; instructions in the middle are a message."""
        content = message.get("content")
        builder = self._builder
        if builder.system is None and not builder.waiting and builder.step is None and isinstance(content, str):
            builder.system = content
            builder.keep("chat/system", raw, origin)
            return
        self._builder.said(self._user(message, origin, PluginSource(plugin="chat", form="instructions")), origin)

    def _assistant(self, message: Object, origin: From) -> None:
        builder = self._builder
        key = origin.id or self._id(origin)
        if builder.step is not None and builder.step.key == key:
            key = f"{key}-again"
        step = builder.answer(key, self._model, origin)
        thought = text_of(message.get("reasoning_content")) or text_of(message.get("reasoning"))
        if thought is not None:
            builder.block(step, ReasoningBlock(thought), None, origin)
        for block in self._blocks(message.get("content"), origin):
            builder.block(step, block, None, origin)
        refusal = text_of(message.get("refusal"))
        if refusal is not None:
            builder.block(step, TextBlock(refusal), None, origin)
        for call in self._asked(message, origin):
            builder.block(step, call, None, origin)
        if not step.blocks:
            builder.block(step, TextBlock(""), None, origin)
        step.usage = usage_of(as_object(message.get("usage")))

    def _asked(self, message: Object, origin: From) -> Iterator[ToolCallBlock]:
        for place, one in enumerate(as_list(message.get("tool_calls"))):
            call = as_object(one)
            function = as_object(call.get("function")) or as_object(call.get("custom"))
            id = text_of(call.get("id")) or f"no-id-line-{origin.line}-{place}"
            name = text_of(function.get("name"))
            if name is not None:
                yield ToolCallBlock(id, name, _arguments(function))
        old = as_object(message.get("function_call"))
        name = text_of(old.get("name"))
        if name is not None:
            id = f"no-id-{self._id(origin)}"
            self._calls.append(id)
            yield ToolCallBlock(id, name, _arguments(old))

    def _result(self, message: Object, origin: From) -> None:
        call_id = text_of(message.get("tool_call_id"))
        if call_id is None:
            call_id = self._calls.pop(0) if self._calls else f"no-id-line-{origin.line}"
        blocks = tuple(self._blocks(message.get("content"), origin))
        body = ToolResultBlock(call_id, blocks, False)
        made = Message("user", (body,), ToolSource(call_id), origin.id or self._id(origin))
        self._builder.result(call_id, ToolResult(turn=0, step=0, message=made), origin)

    def _blocks(self, content: Any, origin: From) -> Iterator[Block]:
        parts = [content] if isinstance(content, str) else as_list(content)
        for one in parts:
            part = as_object(one)
            match part.get("type"):
                case _ if isinstance(one, str):
                    if one:
                        yield TextBlock(one)
                case "text" if isinstance(part.get("text"), str):
                    yield TextBlock(part["text"])
                case "image_url":
                    yield self._image(part, origin)
                case _:
                    yield opaque_block("chat", one)

    def _image(self, part: Object, origin: From) -> Block:
        url = as_object(part.get("image_url")).get("url")
        inline = data_url(url) if isinstance(url, str) else None
        made = None if inline is None else image_block(*inline)
        if made is None or inline is None:
            return opaque_block("chat", part)
        keep_image(self._builder, made, inline[1], origin)
        return made


def usage_of(usage: Object) -> TokenUsage | None:
    """A chat completion's figures; its prompt holds the cached tokens, ours does not."""
    prompt, output = count_of(usage.get("prompt_tokens")), count_of(usage.get("completion_tokens"))
    if prompt is None or output is None:
        return None
    cached = count_of(as_object(usage.get("prompt_tokens_details")).get("cached_tokens"))
    reasoning = count_of(as_object(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    if cached is not None and cached <= prompt:
        prompt -= cached
    return TokenUsage(prompt, output, cached, None, reasoning if reasoning is None or reasoning <= output else None)


def _arguments(function: Object) -> str:
    told = function.get("arguments", function.get("input"))
    return told if isinstance(told, str) else json_text(told)


def _schema(function: Object) -> ToolSchema | None:
    name = text_of(function.get("name"))
    if name is None:
        return None
    parameters = function.get("parameters")
    return ToolSchema(name, text_of(function.get("description")) or "", freeze(parameters if parameters else {}))

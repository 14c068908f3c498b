"""Codex session files ("rollouts"), with and without types.

```
{timestamp, type: session_meta, payload: {id, cwd, model_provider, base_instructions, forked_from_id, source, …}}
{timestamp, type: turn_context, payload: {turn_id, model, effort, cwd, …}}
{timestamp, type: response_item, payload: {type: message | reasoning | function_call | function_call_output | …}}
{timestamp, type: event_msg, payload: {type: task_started | token_count | turn_aborted | task_complete | …}}
{timestamp, type: compacted, payload: {message, replacement_history}}
```

The files of 2025's first versions hold the response items themselves, after a first line with id and time. Response
items are what the model saw and said; the event messages that repeat them for the screen are kept aside. One request's
items have no common id: an item of the model's that follows a result, or a count of tokens, begins the next answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from turnlog.events import (
    Aborted,
    AssistantChunk,
    Block,
    Completed,
    Errored,
    Failure,
    Finish,
    FinishError,
    Interrupted,
    Json,
    LlmRetry,
    Message,
    ModelSource,
    PluginSource,
    ReasoningBlock,
    SessionTitle,
    Source,
    TextBlock,
    TokenUsage,
    ToolCallBlock,
    ToolResult,
    ToolResultBlock,
    ToolSource,
    TurnEndReason,
    UserMessage,
    UserSource,
)
from turnlog.events.lossless import freeze
from turnlog.events.reasons import CancelledByUser

from .builder import UNRECORDED, Builder
from .images import data_url, image_block
from .places import spawned_by, title_of
from .record import NOTHING, Object, Record, as_list, as_object, count_of, json_text, text_of
from .session import About, event_name, keep_image, opaque_block
from .step import From

_FORK_BURST_MS: Final = 1000
"""Within this time of its first line a fork writes the copies of its parent's lines, with new times."""
_CONTEXT: Final = ("<", "# AGENTS.md")
"""How messages in the user's role begin that the program wrote."""
_TRIES: Final = re.compile(r"\b(\d{1,6})/(\d{1,6})\b", re.ASCII)
"""How a message says which try it is: ``Reconnecting... 2/5``."""
_RESULTS: Final = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
_SERVER: Final = frozenset({"web_search_call", "image_generation_call", "code_interpreter_call", "file_search_call"})
"""What the model's own servers did inside an answer."""
_ABOUT_ANSWERS: Final = frozenset(
    {"token_count", "agent_message", "exec_command_end", "mcp_tool_call_end", "patch_apply_end"}
)
"""Event messages about the answer before them and its calls."""
_FAILURES: Final = {
    "context_window_exceeded": "CONTEXT_WINDOW_EXCEEDED", "usage_limit_exceeded": "QUOTA", "unauthorized": "AUTH",
    "server_overloaded": "SERVER", "internal_server_error": "SERVER", "bad_request": "INVALID_REQUEST",
    "response_stream_disconnected": "STREAM_CLOSED", "http_connection_failed": "TRANSPORT",
    "response_stream_connection_failed": "TRANSPORT", "response_too_many_failed_attempts": "SERVER",
}  # fmt: skip

_Totals = tuple[int, int, int, int]
"""Input, cached input, output, reasoning output."""


class CodexMapper:
    """Maps the records of one file, in order."""

    def __init__(self, builder: Builder, about: About) -> None:
        self._builder = builder
        self._about = about
        self._provider = "openai"
        self._model = UNRECORDED
        self._totals: _Totals | None = None
        self._answers = 0
        self._counted = True
        """Whether the answer that is being put together has its tokens, or there is none: the next item begins one."""
        self._forked: int | None = None
        """Time of the first line of a fork, while its copies follow."""
        self._shown: list[int] = []
        """The turns that were not taken back, as far as they were counted."""
        self._counted_turns = 0
        self._failure: Failure | None = None
        """The failure that nothing has followed so far."""

    def take(self, record: Record) -> None:
        """Map one record."""
        value = record.value
        payload = as_object(value.get("payload"))
        type = value.get("type")
        typed = isinstance(value.get("payload"), dict)
        said = payload if typed else value
        origin = From(record.line, record.time, text_of(said.get("id")) or text_of(said.get("call_id")))
        self._inherited(value, origin)
        match type:
            case "session_meta" if typed:
                self._meta(record, payload, origin)
            case "turn_context" if typed:
                self._context(payload)
                self._keep(record, origin, "codex/turn-context")
            case "response_item" if typed:
                self._item(record, payload, origin)
            case "event_msg" if typed:
                self._event(record, payload, origin)
            case "compacted" if typed:
                self._compacted(record, payload, origin)
            case str() if not typed and "payload" not in value:
                self._item(record, value, origin)
            case None if "id" in value and "timestamp" in value and "record_type" not in value:
                self._meta(record, value, origin)
            case _:
                self._keep(record, origin, event_name("codex", type or value.get("record_type")))

    def _keep(self, record: Record, origin: From, name: str, *, of_step: bool = False) -> None:
        self._builder.keep(name, record.raw, origin, of_step=of_step)

    # -- the session --------------------------------------------------------------------------------------------

    def _meta(self, record: Record, meta: Object, origin: From) -> None:
        about = self._about
        if about.id is None:
            about.id = text_of(meta.get("id")) or text_of(meta.get("session_id"))
            about.cwd = text_of(meta.get("cwd"))
            fork, spawn = text_of(meta.get("forked_from_id")), spawned_by(meta)
            about.parent, about.subagent = spawn or fork, spawn is not None
            self._forked = record.time if fork is not None else None
            self._provider = text_of(meta.get("model_provider")) or self._provider
            self._builder.system = text_of(as_object(meta.get("base_instructions")).get("text"))
        self._keep(record, origin, "codex/session-meta")

    def _inherited(self, value: Object, origin: From) -> None:
        start = self._forked
        if start is None or origin.time is None or origin.time <= start + _FORK_BURST_MS:
            return
        self._forked = None
        if len(self._builder.rows.rows) + self._builder.waiting > 1:
            self._about.seed = self._builder.seed(origin)
            self._builder.remark("inferred-seed", "the end of what a fork copied from its parent: the file does not "
                                 "mark it, the times of its lines tell", lost=False)  # fmt: skip

    def _context(self, payload: Object) -> None:
        self._close_answer()  # some versions write one for every request, all write one for every turn
        self._model = text_of(payload.get("model")) or self._model
        self._builder.effort = text_of(payload.get("effort")) or text_of(payload.get("reasoning_effort"))
        self._about.cwd = self._about.cwd or text_of(payload.get("cwd"))

    # -- response items -----------------------------------------------------------------------------------------

    def _item(self, record: Record, item: Object, origin: From) -> None:
        kind = text_of(item.get("type"))
        if kind == "message" and isinstance(item.get("content"), list | str):
            self._message(record, item, origin)
        elif kind == "reasoning":
            self._block(ReasoningBlock(_reasoning(item)), _side(item), origin)
        elif kind in _CALLS and (block := _call(item, origin)) is not None:
            self._block(block, None, origin)
        elif kind in _RESULTS:
            self._result(item, origin)
        elif kind in _SERVER:
            self._block(opaque_block("codex", item), None, origin)
        else:
            self._keep(record, origin, event_name("codex", "response-item", kind))

    def _message(self, record: Record, item: Object, origin: From) -> None:
        role = item.get("role")
        content = item["content"]
        blocks = tuple(self._blocks([content] if isinstance(content, str) else content, origin))
        if role == "assistant":
            for block in blocks or (TextBlock(""),):
                self._block(block, None, origin)
            return
        id = origin.id or f"codex-line-{origin.line}"
        text = next((one.text for one in blocks if isinstance(one, TextBlock)), "").lstrip()
        if not blocks or role not in ("user", "system", "developer"):
            self._keep(record, origin, event_name("codex", "response-item", "message", role))
        elif role != "user":
            source: Source = PluginSource(plugin="codex", form="instructions")
            self._builder.said(UserMessage(content=blocks, source=source, id=id), origin)
        elif text.startswith(_CONTEXT):
            self._builder.said(UserMessage(content=blocks, source=PluginSource(plugin="codex"), id=id), origin)
        else:
            self._close_answer()
            self._builder.prompt(UserMessage(content=blocks, source=UserSource(), id=id), origin)

    def _blocks(self, content: Any, origin: From) -> Iterator[Block]:
        for one in content:
            part = as_object(one)
            match part.get("type"):
                case _ if isinstance(one, str):
                    yield TextBlock(one)
                case "input_text" | "output_text" | "text" if isinstance(part.get("text"), str):
                    yield TextBlock(part["text"])
                case "input_image" if isinstance(part.get("image_url"), str):
                    yield self._image(part, origin)
                case _:
                    yield opaque_block("codex", one)

    def _image(self, part: Object, origin: From) -> Block:
        inline = data_url(part["image_url"])
        made = None if inline is None else image_block(*inline)
        if made is None or inline is None:
            return opaque_block("codex", part)
        keep_image(self._builder, made, inline[1], origin)
        return made

    def _block(self, block: Block, side: Json, origin: From) -> None:
        self._failure = None
        if self._counted:
            self._answers += 1
            self._counted = False
        step = self._builder.answer(f"codex-answer-{self._answers}", ModelSource(self._provider, self._model), origin)
        self._builder.block(step, block, side, origin)

    def _result(self, item: Object, origin: From) -> None:
        call_id = text_of(item.get("call_id")) or f"no-id-line-{origin.line}"
        output = item.get("output", item.get("tools"))
        said = as_object(output)
        failed = said.get("success") is False
        content = said.get("content_items") or said.get("content") if said else output
        if isinstance(content, str | list):
            blocks = tuple(self._blocks([content] if isinstance(content, str) else content, origin))
        else:
            blocks = (TextBlock(json_text(output)),)
        body = ToolResultBlock(call_id, blocks, failed)
        message = Message("user", (body,), ToolSource(call_id), f"codex-line-{origin.line}")
        self._builder.result(call_id, ToolResult(turn=0, step=0, message=message), origin._replace(id=None))
        self._close_answer()

    def _close_answer(self) -> None:
        self._counted = True

    # -- event messages -----------------------------------------------------------------------------------------

    def _event(self, record: Record, event: Object, origin: From) -> None:
        kind = text_of(event.get("type"))
        builder = self._builder
        if kind == "token_count":
            self._tokens(as_object(event.get("info")))
        elif kind in ("task_started", "turn_started"):
            self._close_answer()
            self._failure = None
            builder.window = count_of(event.get("model_context_window")) or builder.window
            builder.begin_turn(origin._replace(id=text_of(event.get("turn_id"))), explicit=True)
        elif kind == "thread_rolled_back":
            self._rolled_back(count_of(event.get("num_turns")) or 0)
        elif kind == "thread_name_updated" and (title := title_of(record.value)) is not None:
            said = {"title": title, "messageSeqs": [], "source": {"kind": "user"}}
            builder.fact(SessionTitle(value=freeze(said)), origin)
            return
        elif kind == "stream_error" and (tried := _TRIES.search(str(event.get("message")))) is not None:
            builder.fact(LlmRetry(value=freeze(self._retry(event, tried, origin))), origin._replace(id=None))
        elif kind == "error":
            failure = self._failure = _failure(event)
            chunk = AssistantChunk(turn=0, step=0, chunk=Finish(FinishError(failure)))
            self._close_answer()
            builder.fail(chunk, origin, ModelSource(self._provider, self._model))
            builder.settle()
        name = event_name("codex", "event-msg", kind)
        reason = self._end(event)
        self._keep(record, origin, name, of_step=kind in _ABOUT_ANSWERS)
        if reason is not None:
            self._close_answer()
            builder.end_turn(reason, origin)

    def _retry(self, event: Object, tried: re.Match[str], origin: From) -> dict[str, Any]:
        failure = _failure(event)
        told: dict[str, Any] = {"message": failure.message, "code": failure.code}
        if failure.status is not None:
            told["status"] = failure.status
        return {
            "retryId": f"codex-line-{origin.line}", "provider": self._provider, "mode": "normal", "policyKey": "codex",
            "retry": int(tried[1]), "maxRetries": int(tried[2]), "delayMs": 0, "failure": told,
        }  # fmt: skip

    def _end(self, event: Object) -> TurnEndReason | None:
        match event.get("type"):
            case "task_complete" | "turn_complete":
                failed = as_object(event.get("error"))
                failure = _failure(failed) if failed else self._failure
                return Completed() if failure is None else Errored(failure)
            case "turn_aborted":
                by_user = event.get("reason") in ("interrupted", "replaced", "review_ended", None)
                return Aborted(CancelledByUser()) if by_user else Interrupted()
            case _:
                return None

    def _tokens(self, info: Object) -> None:
        window = count_of(info.get("model_context_window"))
        self._builder.window = window if window is not None else self._builder.window
        totals = _totals(as_object(info.get("total_token_usage")))
        if totals is None:
            return
        before, self._totals = self._totals, totals
        spent = totals if before is None else tuple(now - then for now, then in zip(totals, before, strict=True))
        if before is None:  # a fork or a resumed file may begin with what others spent
            last = _totals(as_object(info.get("last_token_usage")))
            spent = last if last is not None else totals
        elif min(spent) < 0:
            last = _totals(as_object(info.get("last_token_usage")))
            spent = last if last is not None else totals
            self._builder.remark("token-totals-fell", "sums of tokens that were smaller than the sum before; the last "
                                 "request's own figures count there", lost=False)  # fmt: skip
        if not any(spent):
            return  # the same sums once more
        step = self._builder.step
        if step is None or step.usage is not None or not step.blocks:
            self._builder.remark("unplaced-tokens", "counts of tokens that follow no answer: they are in no turn's "
                                 "usage, and kept in their records")  # fmt: skip
            return
        given, cached, output, reasoning = spent
        step.usage = TokenUsage(max(given - cached, 0), output, cached, None, min(reasoning, output))
        self._close_answer()

    def _rolled_back(self, turns: int) -> None:
        self._close_answer()
        builder = self._builder
        self._shown += range(self._counted_turns + 1, len(builder.turns) + 1)
        self._counted_turns = len(builder.turns)
        if turns and self._shown:
            first = self._shown[-turns:][0]
            del self._shown[-turns:]
            builder.rewind(first)
            text = "rollbacks that take back turns before them: those are shown, and replaced by the next message"
            builder.remark("rewinds", text, lost=False)

    # -- compaction ---------------------------------------------------------------------------------------------

    def _compacted(self, record: Record, payload: Object, origin: From) -> None:
        self._close_answer()
        id = f"codex-line-{origin.line}"
        source = PluginSource(plugin="compact", compaction_id=id)
        history = [as_object(one) for one in as_list(payload.get("replacement_history"))]
        listed = [(number, one) for number, one in enumerate(history) if one.get("type") == "message"]
        made = [self._replacement(one, f"{id}-{number}", source, origin) for number, one in listed]
        messages = [one for one in made if one.content]
        summary = text_of(payload.get("message"))
        if not messages:
            text = summary if summary is not None else "(the file does not hold the summary)"
            messages = [UserMessage(content=(TextBlock(text),), source=source, id=id)]
        self._builder.summary(messages[0], origin)
        for message in messages[1:]:
            self._builder.said(message, origin._replace(id=None))
        self._builder.drain()
        self._keep(record, origin, "codex/compacted")
        if len(listed) < len(history):
            self._builder.remark("compaction-items", "items of compacted histories that are no messages: they are in "
                                 "the kept record only", number=len(history) - len(listed))  # fmt: skip

    def _replacement(self, item: Object, id: str, source: PluginSource, origin: From) -> UserMessage:
        content = item.get("content")
        parts = [content] if isinstance(content, str) else as_list(content)
        return UserMessage(content=tuple(self._blocks(parts, origin)), source=source, id=id)


def _totals(usage: Object) -> _Totals | None:
    counts = [count_of(usage.get(name)) for name in ("input_tokens", "output_tokens")]
    if counts[0] is None or counts[1] is None:
        return None
    cached = count_of(usage.get("cached_input_tokens")) or 0
    return counts[0], min(cached, counts[0]), counts[1], count_of(usage.get("reasoning_output_tokens")) or 0


def _reasoning(item: Object) -> str:
    """What may be read of the reasoning: its summary, or the text itself."""
    parts = [*as_list(item.get("summary")), *as_list(item.get("content"))]
    texts = [as_object(one).get("text") for one in parts]
    return "\n\n".join(one for one in texts if isinstance(one, str))


def _side(item: Object) -> Json:
    """What the provider wants back with the reasoning."""
    encrypted = text_of(item.get("encrypted_content"))
    if encrypted is None:
        return None
    id = text_of(item.get("id"))
    return {"encrypted": encrypted, **({} if id is None else {"id": id})}


def _call(item: Object, origin: From) -> ToolCallBlock | None:
    """A call's block. Arguments that are no JSON text (a custom tool's input, a shell command) become some."""
    id = text_of(item.get("call_id")) or text_of(item.get("id")) or f"no-id-line-{origin.line}"
    name = text_of(item.get("name"))
    match item.get("type"):
        case "function_call" if name is not None:
            namespace = text_of(item.get("namespace"))
            arguments = item.get("arguments")
            told = arguments if isinstance(arguments, str) else json_text(arguments)
            return ToolCallBlock(id, name if namespace is None else f"{namespace}.{name}", told)
        case "custom_tool_call" if name is not None:
            return ToolCallBlock(id, name, json_text({"input": item.get("input")}))
        case "local_shell_call":
            return ToolCallBlock(id, "local_shell", json_text(item.get("action", {})))
        case "tool_search_call":
            return ToolCallBlock(id, "tool_search", json_text(item.get("arguments", {})))
        case _:
            return None


def _failure(event: Object) -> Failure:
    message = text_of(event.get("message")) or "the request failed"
    info = event.get("codex_error_info")
    kind = info if isinstance(info, str) else next(iter(as_object(info)), "")
    status = count_of(as_object(as_object(info).get(kind, NOTHING)).get("http_status_code"))
    known = status if status is not None and 100 <= status <= 599 else None
    return Failure(message, _FAILURES.get(kind, "UNKNOWN"), known)

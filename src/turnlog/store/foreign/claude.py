"""Claude Code session files: one record per content block, linked by ``parentUuid``.

```
{type: user,      message, parentUuid, uuid, timestamp, sessionId, cwd, …}   prompt, context, or tool result
{type: assistant, message: {id, model, content, usage}, requestId, …}        one block of the answer ``message.id``
{type: system,    subtype, …}    {type: summary | custom-title | file-history-snapshot | …}
```

Records of one ``message.id`` are one answer, and each repeats its usage as far as it was known: the largest output
counts, once. A prompt whose parent is in an earlier turn takes back what came after that. Records of sub-agents in the
same file (``isSidechain``) are kept aside: the main model never saw them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from turnlog.events import (
    Aborted,
    AssistantChunk,
    Block,
    Errored,
    Failure,
    Finish,
    FinishError,
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
    ToolError,
    ToolResult,
    ToolResultBlock,
    ToolSource,
    UserMessage,
    UserSource,
)
from turnlog.events.lossless import freeze
from turnlog.events.reasons import CancelledByUser

from .builder import Builder
from .images import image_block
from .places import title_of
from .record import Object, Record, as_list, as_object, count_of, elements, json_text, member, text_of
from .session import About, event_name, keep_image, opaque_block
from .step import From

PROVIDER: Final = "anthropic"
_SYNTHETIC: Final = "<synthetic>"
_INTERRUPTED: Final = "[Request interrupted by user"
_COMMAND: Final = ("<command-name>", "<command-message>")
"""How a slash command begins that may be answered by the model."""
_NOTICE: Final = (
    "<local-command-stdout>", "<local-command-stderr>", "<local-command-caveat>", "<bash-input>", "<bash-stdout>",
    "<bash-stderr>", "<task-notification>", "<system-reminder>", "Caveat: The messages below were generated",
)  # fmt: skip
"""How messages begin that the program wrote in the user's role."""
_CODES: Final = {401: "AUTH", 403: "AUTH", 408: "TIMEOUT", 429: "RATE_LIMIT", 400: "INVALID_REQUEST"}
_NAMED_CODES: Final = {
    "rate_limit": "RATE_LIMIT", "authentication_failed": "AUTH", "billing_error": "QUOTA", "server_error": "SERVER",
    "invalid_request": "INVALID_REQUEST", "max_output_tokens": "MAX_TOKENS",
}  # fmt: skip


class ClaudeMapper:
    """Maps the records of one file, in order."""

    def __init__(self, builder: Builder, about: About) -> None:
        self._builder = builder
        self._about = about
        self._agent: bool | None = None
        """Whether this is the file of a sub-agent; None until a record says so."""
        self._seen: dict[str, int] = {}
        self._turn_of: dict[str, int] = {}
        self._billed: set[str] = set()
        self._beside: dict[str, int] = {}
        """Answers of sub-agents in the same file, with their tokens."""
        self._kept_from: int | None = None
        self._fork: str | None = None

    def take(self, record: Record) -> None:
        """Map one record."""
        value = record.value
        origin = From(record.line, record.time, text_of(value.get("uuid")))
        self._identity(value, origin)
        if self._is_repeated(record, origin):
            self._keep(record, origin, "claude-code/repeated")
            return
        self._inherited(value, origin)
        if value.get("isSidechain") is True and not self._is_agent(value):
            self._sidechain(record, origin)
        else:
            if self._agent is None and value.get("isSidechain") is False:
                self._agent = False  # a session's own record: sidechains after it are beside it
            self._main(record, origin)
        if origin.id is not None:
            self._turn_of[origin.id] = len(self._builder.turns)

    def _main(self, record: Record, origin: From) -> None:
        match record.value.get("type"):
            case "user" if "message" in record.value:
                self._user(record, origin)
            case "assistant" if "message" in record.value:
                self._assistant(record, origin)
            case "system":
                self._system(record, origin)
            case "custom-title" | "ai-title":
                self._title(record, origin)
            case "attachment" if self._steered(record.value, origin):
                pass
            case type:
                attachment = as_object(record.value.get("attachment")).get("type") if type == "attachment" else None
                self._keep(record, origin, event_name("claude-code", type, attachment))

    # -- the session --------------------------------------------------------------------------------------------

    def _identity(self, value: Object, origin: From) -> None:
        about, said = self._about, text_of(value.get("sessionId"))
        if about.id is None:
            about.id = said
        elif said == about.named and said is not None and about.id != said and not about.subagent:
            about.parent, about.id = about.id, said  # a resumed session begins with copies of the one before
            about.seed = self._builder.seed(origin)
        about.cwd = about.cwd or text_of(value.get("cwd"))

    def _is_agent(self, value: Object) -> bool:
        if self._agent is None:
            id = text_of(value.get("agentId"))
            self._agent = id is not None or self._about.only_sidechains
            if self._agent:
                about = self._about
                about.parent, about.subagent = about.id, True
                about.id = f"agent-{id}" if id is not None else about.id
        return self._agent

    def _is_repeated(self, record: Record, origin: From) -> bool:
        """Whether the same record was there before; ids that are used twice for different records are no reason."""
        if origin.id is None:
            return False
        mark = hash(record.raw)
        return self._seen.setdefault(origin.id, mark) == mark and origin.id in self._turn_of

    def _inherited(self, value: Object, origin: From) -> None:
        """Records of a fork say which session they were copied from."""
        parent = text_of(as_object(value.get("forkedFrom")).get("sessionId"))
        if parent is not None:
            self._fork = self._about.parent = parent
        elif self._fork is not None and value.get("type") in ("user", "assistant"):
            self._fork = None
            self._about.seed = self._builder.seed(origin)

    def _sidechain(self, record: Record, origin: From) -> None:
        self._agent = False if self._agent is None and not self._about.only_sidechains else self._agent
        self._keep(record, origin, event_name("claude-code", "sidechain", record.value.get("type")))
        text = "records of sub-agents in the same file: kept as they are, and no part of the turns"
        self._builder.remark("sidechains", text)
        self._side_tokens(as_object(record.value.get("message")), record.line)

    def _side_tokens(self, message: Object, line: int) -> None:
        usage = usage_of(as_object(message.get("usage")))
        if usage is None:
            return
        key = text_of(message.get("id")) or f"line {line}"
        spent = usage.input_tokens + usage.output_tokens
        spent += (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
        known = self._beside.get(key, 0)
        self._beside[key] = max(known, spent)
        if spent > known:
            text = "tokens of sub-agents in the same file, which are in no total"
            self._builder.remark("sidechain-tokens", text, number=spent - known)

    def _title(self, record: Record, origin: From) -> None:
        title = title_of(record.value)
        if title is None:
            self._keep(record, origin, event_name("claude-code", record.value.get("type")))
            return
        kind = {"kind": "user"} if record.value.get("type") == "custom-title" else {"kind": "fallback"}
        self._builder.fact(SessionTitle(value=freeze({"title": title, "messageSeqs": [], "source": kind})), origin)

    # -- user records -------------------------------------------------------------------------------------------

    def _user(self, record: Record, origin: From) -> None:
        value = record.value
        message = as_object(value.get("message"))
        content = message.get("content")
        blocks = [content] if isinstance(content, str) else as_list(content)
        results = [as_object(one) for one in blocks if _is_result(one)]
        if not isinstance(content, str | list) or not blocks:
            self._keep(record, origin, "claude-code/user")
            return
        for block in results:
            self._result(record, block, origin, alone=len(results) == 1)
        rest = [one for one in blocks if not _is_result(one)]
        if rest:
            self._message(value, tuple(self._blocks(rest, origin)), origin, beside_results=bool(results))

    def _message(self, value: Object, blocks: tuple[Block, ...], origin: From, *, beside_results: bool) -> None:
        builder = self._builder
        text = next((one.text for one in blocks if isinstance(one, TextBlock)), "").lstrip()
        id = origin.id or f"claude-code-line-{origin.line}"
        if value.get("isCompactSummary") is True:
            source: Source = PluginSource(plugin="compact", compaction_id=text_of(value.get("parentUuid")) or id)
            builder.summary(UserMessage(content=blocks, source=source, id=id), origin, kept_from=self._kept_from)
            self._kept_from = None
        elif text.startswith(_INTERRUPTED):
            builder.said(UserMessage(content=blocks, source=_notice(), id=id), origin)
            builder.end_turn(Aborted(CancelledByUser()), origin)
        elif value.get("isMeta") is True or text.startswith(_NOTICE):
            builder.said(UserMessage(content=blocks, source=_notice(), id=id), origin)
        elif text.startswith(_COMMAND):
            builder.said(UserMessage(content=blocks, source=UserSource(), id=id), origin, opens=True)
        elif beside_results:
            builder.said(UserMessage(content=blocks, source=UserSource(), id=id), origin)
        else:
            self._branch(value)
            builder.prompt(UserMessage(content=blocks, source=UserSource(), id=id), origin)

    def _steered(self, value: Object, origin: From) -> bool:
        """A prompt that was typed while the model was at work reaches it as an attachment."""
        attachment = as_object(value.get("attachment"))
        said = attachment.get("prompt")
        if attachment.get("type") != "queued_command" or not isinstance(said, str | list) or not said:
            return False
        blocks = tuple(self._blocks([said] if isinstance(said, str) else said, origin))
        id = origin.id or f"claude-code-line-{origin.line}"
        self._builder.said(UserMessage(content=blocks, source=UserSource(), id=id), origin)
        return True

    def _branch(self, value: Object) -> None:
        """A prompt that follows on a record of an earlier turn takes back the turns after it."""
        parent = text_of(value.get("parentUuid"))
        turn = None if parent is None else self._turn_of.get(parent)
        builder = self._builder
        builder.settle()
        seq = None if parent is None else builder.seqs.get(parent)
        if seq is not None and seq not in builder.surface:
            text = "prompts that go on from what was taken back or summarised: the model saw more than is shown"
            builder.remark("other-branches", text)
        if turn is not None and turn < len(builder.turns):
            builder.rewind(turn + 1)
            builder.remark(
                "rewinds", "prompts that take back turns before them: those are shown, and replaced", lost=False
            )

    def _result(self, record: Record, block: Object, origin: From, *, alone: bool) -> None:
        call_id = text_of(block.get("tool_use_id")) or f"no-id-line-{origin.line}"
        content = block.get("content")
        listed = [content] if isinstance(content, str) else as_list(content)
        failed = block.get("is_error") is True
        blocks = tuple(self._blocks(listed, origin))
        body = ToolResultBlock(call_id, blocks, failed)
        id = origin.id or f"claude-code-line-{origin.line}"
        message = Message("user", (body,), ToolSource(call_id), id if alone else f"{id}:{call_id}")
        meta = record.kept("toolUseResult") if alone and record.value.get("toolUseResult") is not None else b""
        error = ToolError("ToolError", "TOOL_FAILED") if failed else None
        self._builder.result(call_id, ToolResult(turn=0, step=0, message=message, error=error), origin, meta=meta)

    def _blocks(self, blocks: Any, origin: From) -> Iterator[Block]:
        for block in blocks:
            said = as_object(block)
            match said.get("type"):
                case _ if isinstance(block, str):
                    yield TextBlock(block)
                case "text" if isinstance(said.get("text"), str):
                    yield TextBlock(said["text"])
                case "image":
                    yield self._image(said, origin)
                case _:
                    yield opaque_block("claude-code", block)

    def _image(self, block: Object, origin: From) -> Block:
        source = as_object(block.get("source"))
        media, data = source.get("media_type"), source.get("data")
        if source.get("type") == "base64" and isinstance(media, str) and isinstance(data, str):
            made = image_block(media, data)
            if made is not None:
                keep_image(self._builder, made, data, origin)
                return made
        return opaque_block("claude-code", block)

    # -- assistant records --------------------------------------------------------------------------------------

    def _assistant(self, record: Record, origin: From) -> None:
        value = record.value
        message = as_object(value.get("message"))
        content = as_list(message.get("content"))
        if value.get("isApiErrorMessage") is True:
            self._failed(record, message, origin)
            return
        if not content:
            self._keep(record, origin, "claude-code/assistant")
            return
        model = text_of(message.get("model")) or "unrecorded"
        key = text_of(message.get("id")) or text_of(value.get("requestId")) or f"claude-code-line-{origin.line}"
        provider = "claude-code" if model == _SYNTHETIC else PROVIDER
        step = self._builder.answer(key, ModelSource(provider, model), origin)
        raws = elements(record.kept("message", "content")) if b"tool_use" in record.raw else []
        for place, block in enumerate(content):
            made, side = _answer_block(as_object(block), raws[place] if place < len(raws) else b"", origin, place)
            self._builder.block(step, made, side, origin)
        if model == _SYNTHETIC:
            return
        step.cut = message.get("stop_reason") == "max_tokens"
        usage = usage_of(as_object(message.get("usage")))
        if usage is not None and (key not in self._billed or step.usage is not None):
            self._billed.add(key)
            if step.usage is None or usage.output_tokens >= step.usage.output_tokens:
                step.usage = usage
        elif usage is not None:
            self._builder.remark("repeated-answers", "answers that continue after another record: their usage counts "
                                 "once, where it was first", lost=False)  # fmt: skip

    def _failed(self, record: Record, message: Object, origin: From) -> None:
        texts = [one.get("text") for one in map(as_object, as_list(message.get("content")))]
        text = " ".join(one for one in texts if isinstance(one, str)) or "the request failed"
        failure = _failure(text, record.value.get("error"))
        source = ModelSource(PROVIDER, text_of(message.get("model")) or "unrecorded")
        chunk = AssistantChunk(turn=0, step=0, chunk=Finish(FinishError(failure)))
        self._builder.fail(chunk, origin, source)
        self._keep(record, origin, "claude-code/api-error")
        self._builder.end_turn(Errored(failure), origin)

    # -- system records -----------------------------------------------------------------------------------------

    def _system(self, record: Record, origin: From) -> None:
        value = record.value
        subtype = value.get("subtype")
        if subtype == "compact_boundary":
            self._boundary(value)
        elif subtype == "api_error":
            self._retry(value, origin)
        self._keep(record, origin, event_name("claude-code", "system", subtype))

    def _boundary(self, value: Object) -> None:
        meta = as_object(value.get("compactMetadata"))
        kept = as_list(as_object(meta.get("preservedMessages")).get("uuids"))
        head = text_of(as_object(meta.get("preservedSegment")).get("headUuid")) or text_of(kept[0] if kept else None)
        self._builder.settle()
        self._kept_from = None if head is None else self._builder.seqs.get(head)

    def _retry(self, value: Object, origin: From) -> None:
        number, delay = count_of(value.get("retryAttempt")), value.get("retryInMs")
        if number is None:
            return
        error = as_object(value.get("error"))
        status = count_of(error.get("status"))
        inner = as_object(as_object(error.get("error")).get("error"))
        told = text_of(inner.get("message")) or text_of(error.get("message")) or text_of(value.get("error"))
        failure: dict[str, Any] = {"message": told or "the request failed", "code": _code(status)}
        if status is not None and 100 <= status <= 599:
            failure["status"] = status
        most = count_of(value.get("maxRetries"))
        retry: dict[str, Any] = {
            "retryId": origin.id or f"claude-code-line-{origin.line}", "provider": PROVIDER, "mode": "normal",
            "policyKey": "claude-code", "retry": number, **({} if most is None else {"maxRetries": most}),
            "delayMs": delay if type(delay) in (int, float) else 0, "failure": failure,
        }  # fmt: skip
        self._builder.fact(LlmRetry(value=freeze(retry)), origin._replace(id=None))

    def _keep(self, record: Record, origin: From, name: str) -> None:
        self._builder.keep(name, record.raw, origin)


def usage_of(usage: Object) -> TokenUsage | None:
    """Disjoint counts: Claude's input, cache read and cache creation are so already."""
    given, output = count_of(usage.get("input_tokens")), count_of(usage.get("output_tokens"))
    if given is None or output is None:
        return None
    thought = count_of(as_object(usage.get("output_tokens_details")).get("thinking_tokens"))
    return TokenUsage(
        given,
        output,
        count_of(usage.get("cache_read_input_tokens")),
        count_of(usage.get("cache_creation_input_tokens")),
        thought if thought is not None and thought <= output else None,
    )


def _answer_block(block: Object, raw: bytes, origin: From, place: int) -> tuple[Block, Json]:
    """A block of an answer, and what its provider wants back with it."""
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return TextBlock(block["text"]), None
        case "thinking" if isinstance(block.get("thinking"), str):
            signature = block.get("signature")
            return ReasoningBlock(block["thinking"]), {"signature": signature} if isinstance(signature, str) else None
        case "redacted_thinking" if isinstance(block.get("data"), str):
            return ReasoningBlock(""), {"redacted": block["data"]}
        case "tool_use" if text_of(block.get("name")):
            id = text_of(block.get("id")) or f"no-id-line-{origin.line}-{place}"
            stored = member(raw, "input").decode(errors="surrogatepass")
            return ToolCallBlock(id, block["name"], stored or json_text(block.get("input", {}))), None
        case _:
            return opaque_block("claude-code", dict(block)), None


def _is_result(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _notice() -> PluginSource:
    return PluginSource(plugin="claude-code", form="notice")


def _code(status: int | None) -> str:
    if status is None:
        return "TRANSPORT"
    return _CODES.get(status) or ("SERVER" if 500 <= status <= 599 else f"HTTP_{status}")


def _failure(text: str, error: Any) -> Failure:
    """What an error message in the transcript says; its HTTP status stands in the text, if anywhere."""
    words = text.replace(":", " ").split()
    status = next((int(one) for one in words[:4] if len(one) == 3 and one.isdecimal() and one.isascii()), None)
    status = status if status is not None and 100 <= status <= 599 else None
    named = _NAMED_CODES.get(error) if isinstance(error, str) else None
    return Failure(text, named or ("UNKNOWN" if status is None else _code(status)), status)

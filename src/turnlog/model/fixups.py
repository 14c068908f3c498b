"""Wire fix-ups: what has to be different on the wire than in the log, and why.

The log keeps what was said. Some of it no provider takes: an empty call id, the same id in every step, arguments that
are no JSON, a call nobody answered. A :class:`Fixup` is a pure function with a name and a version that changes a copy;
each adapter lists the ones it applies, in order. They never touch the log, and the same history always gives the same
wire messages.

Fix-ups work on a *group*: an assistant message with calls and what follows until all its calls are answered, or any
other message alone. A fix-up that has nothing to do gives back the very group it got.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from msgspec.structs import replace

from turnlog.events import (
    Block,
    ImageBlock,
    Message,
    ModelSource,
    Opaque,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSource,
    UserSource,
)
from turnlog.events.lossless import dump, whole_text

Group: TypeAlias = tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Context:
    """What a fix-up may know besides its group."""

    provider: str
    """Who the request goes to."""
    used: Mapping[str, int]
    """Call ids of earlier groups, as logged and as sent; the number is how often an id was given a number."""
    first: bool
    """Whether nothing was sent before this group."""


@dataclass(frozen=True, slots=True)
class Fixup:
    """One named difference between log and wire."""

    name: str
    version: int
    why: str
    apply: Callable[[Group, Context], Group]

    def __str__(self) -> str:
        return f"{self.name}/{self.version}"


# ── calls and results ────────────────────────────────────────────────────────────────────────────


def calls_of(message: Message) -> list[ToolCallBlock]:
    """The calls that a message asks for."""
    return [block for block in message.content if isinstance(block, ToolCallBlock)]


def result_of(message: Message) -> ToolResultBlock | None:
    """The result that a message brings, if it brings one."""
    first = message.content[0] if message.content else None
    return first if isinstance(first, ToolResultBlock) else None


def base_id(id: str) -> str:
    """What the ids that are sent for *id* begin with."""
    return _plain(id, _LONGEST_ID) or "call_0"


def _unique_ids(group: Group, context: Context) -> Group:
    """Give every call an id of its own and its result the same; results pair with calls by id, then by order."""
    calls = calls_of(group[0])
    if all(call.id and call.id not in context.used for call in calls) and len({call.id for call in calls}) == len(
        calls
    ):
        return group
    taken: set[str] = set()
    sent: list[str] = []
    waiting: dict[str, list[str]] = {}
    for call in calls:
        unique = _unique(base_id(call.id), context.used, taken)
        taken.add(unique)
        sent.append(unique)
        waiting.setdefault(call.id, []).append(unique)
    ids = iter(sent)
    head = tuple(
        replace(block, id=next(ids)) if isinstance(block, ToolCallBlock) else block for block in group[0].content
    )
    return (replace(group[0], content=head), *(_paired(message, waiting) for message in group[1:]))


def _unique(id: str, used: Mapping[str, int], taken: set[str]) -> str:
    unique, number = id, used.get(id, 1)
    while unique in used or unique in taken:
        number += 1
        unique = f"{id}-{number}"
    return unique


def _paired(message: Message, waiting: dict[str, list[str]]) -> Message:
    result = result_of(message)
    if result is None:
        return message
    free = waiting.get(result.tool_call_id)
    return _answers(message, result, free.pop(0)) if free else _as_text(message, result)


def _answers(message: Message, result: ToolResultBlock, id: str) -> Message:
    if result.tool_call_id == id:
        return message
    return replace(message, content=(replace(result, tool_call_id=id),), source=ToolSource(id))


def _orphans(group: Group, _context: Context) -> Group:
    """A result that answers no call of its group becomes text."""
    if len(group) == 1 and result_of(group[0]) is None:
        return group
    open_ids = {call.id for call in calls_of(group[0])}
    fixed: list[Message] = []
    for message in group:
        result = result_of(message)
        if result is not None and result.tool_call_id not in open_ids:
            message = _as_text(message, result)
        elif result is not None:
            open_ids.discard(result.tool_call_id)
        fixed.append(message)
    return _same_or(group, fixed)


def _as_text(message: Message, result: ToolResultBlock) -> Message:
    said = TextBlock(f"Result of the tool call {result.tool_call_id or '(without id)'}, which is no longer shown:")
    return replace(message, content=(said, *result.content), source=UserSource())


def _results_first(group: Group, _context: Context) -> Group:
    """Results follow their calls at once; what was said in between comes after them."""
    results = [message for message in group[1:] if result_of(message) is not None]
    if not results:
        return group
    rest = [message for message in group[1:] if result_of(message) is None]
    return _same_or(group, [group[0], *results, *rest])


def _answer_all(group: Group, _context: Context) -> Group:
    """A call nobody answered gets an answer that says so."""
    answered = {result.tool_call_id for message in group if (result := result_of(message)) is not None}
    missing = [call for call in calls_of(group[0]) if call.id not in answered]
    if not missing:
        return group
    have = 1 + sum(1 for message in group[1:] if result_of(message) is not None)
    added = [
        Message("user", (ToolResultBlock(call.id, (TextBlock(NO_RESULT),), True),), ToolSource(call.id), call.id)
        for call in missing
    ]
    return (*group[:have], *added, *group[have:])


NO_RESULT: Final = "No result of this call is known. It may or may not have taken effect."
NO_OUTPUT: Final = "(no output)"


def _merge_results(group: Group, _context: Context) -> Group:
    """All results of one message in one user message."""
    results = [message for message in group if result_of(message) is not None]
    if len(results) < 2:
        return group
    blocks = tuple(block for message in results for block in message.content)
    merged = replace(results[0], content=blocks)
    rest = [message for message in group[1:] if result_of(message) is None]
    return (group[0], merged, *rest)


_ODD_ID: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_ID: Final = 40
_LONGEST_NAME: Final = 64


def _plain_ids(group: Group, _context: Context) -> Group:
    """Call ids of letters, digits, ``_`` and ``-``, at most 40 of them."""
    return _each_block(group, _plain_id_block)


def _plain_id_block(block: Block) -> Block:
    if isinstance(block, ToolCallBlock) and (id := _plain(block.id, _LONGEST_ID)) != block.id:
        return replace(block, id=id)
    if isinstance(block, ToolResultBlock) and (id := _plain(block.tool_call_id, _LONGEST_ID)) != block.tool_call_id:
        return replace(block, tool_call_id=id)
    return block


def _plain_names(group: Group, _context: Context) -> Group:
    """Tool names of letters, digits, ``_`` and ``-``, 1 to 64 of them."""
    return _each_block(group, _plain_name_block)


def _plain_name_block(block: Block) -> Block:
    if isinstance(block, ToolCallBlock) and (name := _plain(block.name, _LONGEST_NAME) or "unnamed") != block.name:
        return replace(block, name=name)
    return block


def _plain(text: str, longest: int) -> str:
    """The text where it is plain and short; otherwise a plain one that still differs where the text does."""
    if len(text) <= longest and _ODD_ID.search(text) is None:
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{_ODD_ID.sub('_', text)[: longest - 9]}_{digest}"


def _object_arguments(group: Group, _context: Context) -> Group:
    """Arguments that a server can parse: ``{}`` for none, an object that holds the text for what is no object."""
    return _each_block(group, _object_block)


def _object_block(block: Block) -> Block:
    if not isinstance(block, ToolCallBlock) or is_object(block.arguments):
        return block
    if not block.arguments.strip():
        return replace(block, arguments="{}")
    return replace(block, arguments=dump({"invalid_arguments": whole_text(block.arguments)}).decode())


def is_object(arguments: str) -> bool:
    """Whether the text is one strict JSON object."""
    if not arguments.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(arguments, parse_constant=_no_constant), dict)
    except (ValueError, RecursionError):
        return False


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


# ── blocks ───────────────────────────────────────────────────────────────────────────────────────


def _image_text(group: Group, _context: Context) -> Group:
    """Images by reference become a line that says what was there."""
    return _each_block(group, _image_block)


def _image_block(block: Block) -> Block:
    if isinstance(block, ImageBlock):
        image = block.attachment
        name = f" {image.name}" if image.name else ""
        return TextBlock(f"[image{name}: {image.media_type}, {image.width}×{image.height}]")
    if isinstance(block, ToolResultBlock):
        return _with_content(block, tuple(map(_image_block, block.content)))
    return block


def _known_blocks(group: Group, _context: Context) -> Group:
    """Blocks of a kind that this build does not know become a line that says so."""
    return _each_block(group, _known_block)


def _known_block(block: Block) -> Block:
    if isinstance(block, Opaque):
        return TextBlock(f"[content of the kind {block.kind!r} that cannot be shown here]")
    if isinstance(block, ToolResultBlock):
        return _with_content(block, tuple(map(_known_block, block.content)))
    return block


def _some_output(group: Group, _context: Context) -> Group:
    """A result without a word says so."""
    return _each_block(group, _output_block)


def _output_block(block: Block) -> Block:
    if not isinstance(block, ToolResultBlock):
        return block
    shown = tuple(one for one in block.content if not (isinstance(one, TextBlock) and not one.text))
    return _with_content(block, shown or (TextBlock(NO_OUTPUT),))


def _whole(group: Group, _context: Context) -> Group:
    """Half a surrogate pair, kept from a foreign log, is U+FFFD: no UTF-8 holds it."""
    return _each_block(group, _whole_block)


def _whole_block(block: Block) -> Block:
    match block:
        case TextBlock(text=text) | ReasoningBlock(text=text):
            return block if (whole := whole_text(text)) == text else replace(block, text=whole)
        case ToolCallBlock(arguments=arguments):
            return block if (whole := whole_text(arguments)) == arguments else replace(block, arguments=whole)
        case ToolResultBlock():
            return _with_content(block, tuple(map(_whole_block, block.content)))
        case _:
            return block


def _with_content(block: ToolResultBlock, content: tuple[Block, ...]) -> ToolResultBlock:
    same = len(content) == len(block.content) and all(a is b for a, b in zip(content, block.content, strict=True))
    return block if same else replace(block, content=content)


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


def _known_roles(group: Group, _context: Context) -> Group:
    """``system`` and ``developer`` messages of newer logs are said by the user."""
    return tuple(m if m.role in ("user", "assistant") else replace(m, role="user") for m in group)


def _own_state(group: Group, context: Context) -> Group:
    """Another provider's signatures and ids mean nothing here."""
    head = group[0]
    if not isinstance(head.source, ModelSource) or head.source.replay_state is None:
        return group
    if head.source.provider == context.provider and aligned(head):
        return group
    return (replace(head, source=replace(head.source, replay_state=None)), *group[1:])


def side_data(message: Message) -> list[Mapping[str, object] | None]:
    """What the adapter kept beside each block of its answer; None for every block where it kept nothing."""
    state = message.source.replay_state if isinstance(message.source, ModelSource) else None
    sides = state.get("blocks") if isinstance(state, Mapping) else None
    if not isinstance(sides, list | tuple) or len(sides) != len(message.content):
        return [None] * len(message.content)
    return [side if isinstance(side, Mapping) else None for side in sides]


def aligned(message: Message) -> bool:
    """Whether the side data, if there is any, has one entry for each block."""
    state = message.source.replay_state if isinstance(message.source, ModelSource) else None
    sides = state.get("blocks") if isinstance(state, Mapping) else None
    return sides is None or (isinstance(sides, list | tuple) and len(sides) == len(message.content))


def _signed_thinking(group: Group, _context: Context) -> Group:
    """Thinking that its provider did not sign is refused, so it stays out."""
    head = group[0]
    if head.role != "assistant" or not any(isinstance(block, ReasoningBlock) for block in head.content):
        return group
    both = [
        (block, side)
        for block, side in zip(head.content, side_data(head), strict=True)
        if not isinstance(block, ReasoningBlock) or (side is not None and ("signature" in side or "redacted" in side))
    ]
    if len(both) == len(head.content):
        return group
    source = head.source
    if isinstance(source, ModelSource) and source.replay_state is not None:
        source = replace(source, replay_state={"blocks": [side and dict(side) for _, side in both]})
    return (replace(head, content=tuple(block for block, _ in both), source=source), *group[1:])


def _say_something(group: Group, _context: Context) -> Group:
    """Empty text is refused: it stays out, an answer of nothing else too; a user's message says that it is empty."""
    fixed: list[Message] = []
    for message in group:
        kept = tuple(
            block for block in message.content if not (isinstance(block, TextBlock) and not block.text.strip())
        )
        if len(kept) == len(message.content) and kept:
            fixed.append(message)
        elif kept and all(side is None for side in side_data(message)):
            fixed.append(replace(message, content=kept))
        elif kept:
            fixed.append(_without(message, kept))
        elif message.role != "assistant":
            fixed.append(replace(message, content=(TextBlock("(empty)"),)))
    return _same_or(group, fixed)


def _without(message: Message, kept: tuple[Block, ...]) -> Message:
    """The message with only some of its blocks, and their side data."""
    sides = [
        side and dict(side) for block, side in zip(message.content, side_data(message), strict=True) if block in kept
    ]
    assert isinstance(message.source, ModelSource)
    return replace(message, content=kept, source=replace(message.source, replay_state={"blocks": sides}))


def _user_first(group: Group, context: Context) -> Group:
    """A history that begins with an answer begins with a word of the user."""
    if not context.first or not group or group[0].role != "assistant":
        return group
    return (Message("user", (TextBlock("(The conversation goes on.)"),), UserSource(), "begin"), *group)


def _each_block(group: Group, fix: Callable[[Block], Block]) -> Group:
    return _same_or(group, [_fixed(message, fix) for message in group])


def _fixed(message: Message, fix: Callable[[Block], Block]) -> Message:
    content = tuple(map(fix, message.content))
    if all(new is old for new, old in zip(content, message.content, strict=True)):
        return message
    return replace(message, content=content)


def _same_or(group: Group, fixed: Iterable[Message]) -> Group:
    """*group* itself where nothing changed, so that what was encoded before is found again."""
    made = tuple(fixed)
    same = len(made) == len(group) and all(new is old for new, old in zip(made, group, strict=True))
    return group if same else made


IMAGES_AS_TEXT: Final = Fixup("images-as-text", 1, "the log holds references, not pixels", _image_text)
KNOWN_BLOCKS: Final = Fixup("unknown-blocks-as-text", 1, "written by a newer build", _known_blocks)
KNOWN_ROLES: Final = Fixup("known-roles", 1, "only user and assistant talk here", _known_roles)
WHOLE_TEXT: Final = Fixup("whole-text", 1, "no UTF-8 holds half a surrogate pair", _whole)
OBJECT_ARGUMENTS: Final = Fixup("arguments-as-object", 1, "servers parse them and fail for ever", _object_arguments)
PLAIN_NAMES: Final = Fixup("plain-tool-names", 1, "a name the model made up is refused for ever", _plain_names)
PLAIN_IDS: Final = Fixup("plain-call-ids", 1, "ids of other providers are refused", _plain_ids)
UNIQUE_IDS: Final = Fixup("unique-call-ids", 1, "some providers count from 0 in every step, or give none", _unique_ids)
ORPHANS_AS_TEXT: Final = Fixup("orphan-results-as-text", 1, "a result without its call is refused", _orphans)
RESULTS_FIRST: Final = Fixup("results-first", 1, "nothing may stand between a call and its result", _results_first)
ANSWER_ALL: Final = Fixup("answer-every-call", 1, "a call without a result is refused for ever", _answer_all)
SOME_OUTPUT: Final = Fixup("empty-output-as-text", 1, "an empty result is refused or misread", _some_output)
MERGE_RESULTS: Final = Fixup("merge-results", 1, "results of one answer belong into one message", _merge_results)
OWN_STATE: Final = Fixup(
    "own-replay-state", 1, "signatures of another provider, or out of step, are refused", _own_state
)
SIGNED_THINKING: Final = Fixup("signed-thinking-only", 1, "thinking without a signature is refused", _signed_thinking)
SAY_SOMETHING: Final = Fixup("no-empty-text", 1, "empty text is refused", _say_something)
USER_FIRST: Final = Fixup("user-first", 1, "a conversation begins with the user", _user_first)

HISTORY: Final = (
    IMAGES_AS_TEXT,
    KNOWN_BLOCKS,
    WHOLE_TEXT,
    OBJECT_ARGUMENTS,
    PLAIN_NAMES,
    PLAIN_IDS,
    UNIQUE_IDS,
    ORPHANS_AS_TEXT,
    RESULTS_FIRST,
    ANSWER_ALL,
    SOME_OUTPUT,
)
"""What every adapter needs, in the order in which it is applied."""

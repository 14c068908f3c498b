"""What a tool gave, in the form the log keeps: lossless, or an error that says why not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeGuard

import msgspec
from msgspec import UNSET, UnsetType
from pydantic_core import PydanticSerializationError, to_jsonable_python

from turnlog.events import (
    Block,
    ImageBlock,
    Json,
    LosslessError,
    Opaque,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolError,
    ToolResultBlock,
    UserMessage,
    thaw,
)
from turnlog.events.lossless import check_open, dump, freeze, whole_text

from .call import Result
from .errors import ToolFailure, ToolFault, ToolOutputError
from .tool import ToolOutput

BLOCKS: Final = (TextBlock, ReasoningBlock, ImageBlock, ToolCallBlock, ToolResultBlock, Opaque)
SURROGATES: Final = "loneSurrogatesReplaced"
"""Key in ``meta``: how many characters of the output were half a pair and are now U+FFFD."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A tool's value and the result it makes."""

    result: Result
    value: Json | UnsetType = UNSET


def render(given: object) -> Rendered:
    """The result for what a tool returned. Raises :class:`ToolOutputError` when it has no lossless form."""
    if isinstance(given, ToolOutput):
        result = Result(
            _content(given.content),
            is_error=given.is_error,
            meta=given.meta,
            contexts=given.contexts,
            concludes_turn=given.concludes_turn,
        )
        return Rendered(canonical(result))
    if given is None or isinstance(given, str) or _are_blocks(given):
        return Rendered(canonical(Result(_content(given or ""))))
    value = jsonable(given)
    return Rendered(canonical(Result((TextBlock(_json_text(value)),))), freeze(value))


def canonical(result: Result) -> Result:
    """The same result, fit for the log: half surrogate pairs replaced and counted, everything else checked."""
    if not isinstance(result, Result):
        raise ToolOutputError(f"a {type(result).__name__} came in place of a Result")
    content, replaced = _whole(result.content)
    meta = _meta(result.meta, replaced)
    if not all(isinstance(one, UserMessage) for one in result.contexts):
        raise ToolOutputError("contexts hold something that is no UserMessage")
    if result.error is not None and not isinstance(result.error, ToolError):
        raise ToolOutputError("error is no ToolError")
    same = content is result.content and meta is result.meta and type(result.contexts) is tuple
    return result if same else replace(result, content=content, meta=meta, contexts=tuple(result.contexts))


def failure(error: BaseException) -> Result:
    """The error result for something that was raised."""
    if isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        return failure(error.exceptions[0])
    if isinstance(error, ToolFailure):
        name, code = error.kind or (None, None)
        failed = Result.failed(whole_text(describe(error)), name=name, code=code)
        return canonical(replace(failed, meta=error.meta)) if error.meta is not None else failed
    code = getattr(error, "code", None)
    if isinstance(error, ToolFault) and isinstance(code, str):
        return Result.failed(whole_text(describe(error)), name=type(error).__name__, code=code)
    return Result.failed(whole_text(describe(error)))


def describe(error: BaseException) -> str:
    """What an exception says; its own ``__str__`` may be hostile."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe(one) for one in error.exceptions)
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:  # whatever a foreign __str__ does, the call needs a result
        return f"{kind} (its text could not be read)"
    if isinstance(error, ToolFault):
        return text
    return f"{kind}: {text}" if text else kind


def jsonable(value: object) -> object:
    """Plain JSON of models, dataclasses, structs, dates, paths and the like."""
    try:
        plain = to_jsonable_python(value, by_alias=True, inf_nan_mode="constants", fallback=msgspec.to_builtins)
        _json_text(plain)
        return plain
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        raise ToolOutputError(f"the tool's value is not JSON: {describe(error)}") from None


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _content(given: object) -> tuple[Block, ...]:
    if isinstance(given, str):
        return (TextBlock(given),)
    if _are_blocks(given):
        return given
    raise ToolOutputError(f"content is a str or a tuple of blocks, not {type(given).__name__}")


def _are_blocks(given: object) -> TypeGuard[tuple[Block, ...]]:
    return type(given) is tuple and bool(given) and all(isinstance(one, BLOCKS) for one in given)


def _whole(content: tuple[Block, ...]) -> tuple[tuple[Block, ...], int]:
    if type(content) is not tuple or not all(isinstance(one, BLOCKS) for one in content):
        raise ToolOutputError("content is no tuple of blocks")
    replaced = 0
    blocks: list[Block] = []
    for block in content:
        if isinstance(block, TextBlock | ReasoningBlock):
            if type(block.text) is not str:
                raise ToolOutputError(f"a text block holds a {type(block.text).__name__}")
            text = whole_text(block.text)
            if text != block.text:
                replaced += sum(old != new for old, new in zip(block.text, text, strict=True))
                block = type(block)(text)
        else:
            _check_block(block)
        blocks.append(block)
    return (tuple(blocks) if replaced else content), replaced


def _check_block(block: Block) -> None:
    try:
        decoded = msgspec.json.decode(dump(block))
        check_open(decoded)
    except (LosslessError, msgspec.MsgspecError, TypeError, ValueError) as error:
        raise ToolOutputError(f"a {type(block).__name__} cannot be logged: {describe(error)}") from None


def _meta(meta: Json, replaced: int) -> Json:
    if replaced:
        plain = thaw(meta)
        meta = {
            **(plain if isinstance(plain, Mapping) else {} if plain is None else {"value": plain}),
            SURROGATES: replaced,
        }
    if meta is None:
        return None
    try:
        check_open(meta)
    except LosslessError as error:
        raise ToolOutputError(f"meta cannot be logged: {error}") from None
    return freeze(meta)

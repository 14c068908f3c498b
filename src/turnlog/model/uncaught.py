"""`uncaught`: any model, held to the protocol.

A model from elsewhere may raise where it should end with a failure, or end without saying how. The stream that comes
out here always ends with exactly one ``Finish``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from turnlog.events import Failure, Finish, FinishError, StreamChunk

from .failures import tidy
from .protocol import Model
from .request import Request
from .secret import Secret


async def uncaught(model: Model, request: Request) -> AsyncGenerator[StreamChunk, None]:
    """The answer of *model*; what it raises is a final ``UNKNOWN``, a missing end a ``STREAM_CLOSED``.

    Cancellation passes through, and closing this closes the model's stream.
    """
    ended = False
    try:
        async with aclosing(model.stream(request)) as chunks:
            async for chunk in chunks:
                ended = type(chunk) is Finish
                yield chunk
                if ended:
                    break
        failure = Failure("the stream ended without a finish", "STREAM_CLOSED")
    except Exception as error:  # a model's bug, of any kind, must not end the loop without a word in the log
        failure = Failure(tidy(Secret("").redact, error_chain(error)) or type(error).__name__, "UNKNOWN")
    if not ended:
        yield Finish(FinishError(failure))


def error_chain(error: BaseException) -> str:
    """An error and what it came from, in one line."""
    told: list[str] = []
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        told.append(_told(one))
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return "; from ".join(told)


def _told(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # an error may fail to show itself
        text = ""
    name = type(error).__name__
    if isinstance(error, BaseExceptionGroup):
        text += f" [{'; '.join(map(_told, error.exceptions))}]"
    return f"{name}: {text}" if text else name

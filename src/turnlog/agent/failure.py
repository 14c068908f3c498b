"""Failures on their way into ``turn/end``."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from turnlog.bus import HookContract, HookError, Waterfall
from turnlog.events import Failure
from turnlog.log import TurnlogError

T = TypeVar("T")
DEEPEST: Final = 32
"""Causes of causes that are told; a longer chain helps nobody and may have no end."""


class TurnFailed(TurnlogError):
    """Ends a turn with ``error``; carries what the log will say."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.code}: {failure.message}")
        self.failure = failure


class UnrecordedInput(TurnlogError):
    """A request was about to show the model something the log does not hold."""


def failed(code: str, message: str) -> TurnFailed:
    """A turn's failure with a code of our own."""
    return TurnFailed(Failure(message=message, code=code))


def failure_of(error: BaseException) -> Failure:
    """What the log says about *error*: its own failure, the code of a hook's or our own error, or ``UNKNOWN``."""
    match error:
        case TurnFailed(failure=failure):
            return failure
        case HookError(code=code):
            return Failure(message=chain(error), code=code)
        case UnrecordedInput():
            return Failure(message=chain(error), code="UNRECORDED_INPUT")
        case _:
            return Failure(message=chain(error), code="UNKNOWN")


def checked(event: type[Waterfall[Any, Any]], value: T, *kinds: type) -> T:
    """*value*, which a chain gave. Raises ``HookContract`` when it is none of the *kinds* its event has."""
    if isinstance(value, kinds):
        return value
    wanted = " or ".join(kind.__name__ for kind in kinds)
    raise HookContract(event.wire, "a listener", f"gave a {type(value).__name__}; it has to be {wanted}")


def chain(error: BaseException, seen: frozenset[int] = frozenset()) -> str:
    """An error and its causes in one line (dsh-v0 §1.8); total, also for errors that are circular or show nothing."""
    if id(error) in seen or len(seen) == DEEPEST:
        return "…"
    seen |= {id(error)}
    text = _text(error)
    if isinstance(error, BaseExceptionGroup):
        text += f" [{'; '.join(chain(one, seen) for one in error.exceptions)}]"
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is None:
        return text
    below = chain(cause, seen)
    return text if below == text else f"{text}: {below}"


def _text(error: BaseException) -> str:
    try:
        shown = error.message if isinstance(error, BaseExceptionGroup) else str(error)
        text = str.encode(shown, "utf-8", "replace").decode()
    except Exception:  # an error may fail to show itself; the turn is closed all the same
        text = ""
    return text if text.strip() else type(error).__name__

"""What an error means to somebody at a terminal: one sentence and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys

from .screen import NOTHING, UNREADABLE, USAGE

INTERNAL = 70
OUTPUT = 74


class WrongUsage(Exception):
    """The command line does not say what to do; the message says how to say it."""


def explain(error: Exception) -> tuple[str, int, list[str]]:
    """Message and exit code of an error, and what it lists."""
    from turnlog.store import SessionAmbiguous

    if isinstance(error, SessionAmbiguous):
        text, *listed = str(error).split("\n")
        return text, USAGE, [one.strip() for one in listed]
    return (*_sentence(error), [])


def _sentence(error: Exception) -> tuple[str, int]:
    from turnlog.log import TurnlogError
    from turnlog.store import SessionNotFound
    from turnlog.views import AddressAmbiguous, AddressInvalid, AddressUnknown

    match error:
        case WrongUsage() | AddressAmbiguous() | AddressInvalid():
            return str(error), USAGE
        case AddressUnknown() | SessionNotFound():
            return str(error), NOTHING
        case TurnlogError():
            return str(error), UNREADABLE
        case OSError():
            where = f"{error.filename}: " if error.filename is not None else ""
            return f"{where}{error.strerror or error}", UNREADABLE
        case MemoryError():
            return "there is not enough memory for this", UNREADABLE
        case _:
            return _internal(error), INTERNAL


def _internal(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if os.environ.get("TURNLOG_DEBUG"):
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    return f"internal error, please report it: {text} (TURNLOG_DEBUG=1 shows where)"

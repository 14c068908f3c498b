"""Which hook raised something: the bus notes it on the error."""

from __future__ import annotations

import re
from typing import Final

_NOTE: Final = re.compile(r"raised by (.+), a listener of (\S+)", re.DOTALL)


def raised_in(error: BaseException) -> str | None:
    """``event: name (file:line)`` of the listener the error came from, or None when it was none."""
    for note in getattr(error, "__notes__", ()):
        if found := _NOTE.fullmatch(str(note)):
            return f"{found[2]}: {found[1]}"
    return None

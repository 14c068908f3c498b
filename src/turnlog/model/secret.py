"""`Secret`: an API key that shows itself to nobody, and the text filter for providers that echo keys."""

from __future__ import annotations

import re
from typing import Final

REDACTED: Final = "[redacted]"

_KEY_LIKE: Final = re.compile(r"\b(?:sk|gsk|xai|nvapi)-[A-Za-z0-9_\-*.]{6,}|(?<=Bearer )[^\s\"']{6,}")
"""What looks like a key: providers echo them whole, or with stars in the middle."""

_SHORTEST: Final = 6
"""Shorter keys (``EMPTY`` for a local server) are no secrets, and hiding them would tear holes into words."""


class Secret:
    """A key. ``repr``, ``str`` and pickling do not show it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The key itself, for the request header."""
        return self._value

    @property
    def is_sendable(self) -> bool:
        """Whether a header can carry it: printable ASCII. Asked before, as HTTP errors would show the key."""
        return self._value.isascii() and self._value.isprintable()

    def redact(self, text: str) -> str:
        """*text* without this key and without anything else that looks like one."""
        if len(self._value) >= _SHORTEST:
            text = text.replace(self._value, REDACTED)
        return _KEY_LIKE.sub(REDACTED, text)

    def __repr__(self) -> str:
        return "Secret(…)"

    def __reduce__(self) -> str:
        raise TypeError("a Secret is not pickled")

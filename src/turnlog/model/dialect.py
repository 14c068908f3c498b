"""`Dialect`: one provider protocol: where requests go, what they say, and who reads the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from turnlog.events import Failure, Message

from . import failures
from .errors import ProviderFailure
from .fixups import Fixup
from .reader import Reader
from .request import Request
from .secret import Secret


class Dialect(Protocol):
    """A pure description: it holds no state, opens nothing and keeps nothing."""

    @property
    def path(self) -> str:
        """Below the base URL."""
        ...

    @property
    def fixups(self) -> tuple[Fixup, ...]:
        """What differs between log and wire, in order."""
        ...

    def headers(self, key: Secret | None) -> Mapping[str, str]:
        """The headers that authorise a request."""
        ...

    def encode(self, message: Message) -> bytes:
        """One message, after the fix-ups, as JSON objects joined by commas."""
        ...

    def body(self, request: Request, messages: Sequence[bytes], *, stream: bool) -> bytes:
        """The whole request. Raises :class:`ProviderFailure` for what the provider cannot be asked."""
        ...

    def reader(self, headers: failures.Headers, redact: failures.Redact) -> Reader:
        """What reads one answer."""
        ...


def unsupported_effort(effort: str, provider: str, known: Sequence[str]) -> ProviderFailure:
    """The failure for a reasoning effort that the provider has no word for."""
    said = f"{provider} has no reasoning effort {effort!r}; it knows {', '.join(known)}"
    return ProviderFailure(Failure(said, "UNSUPPORTED_REASONING_EFFORT"))


def members(fields: Mapping[str, object]) -> dict[str, object]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value is not None}

"""Cancellation as a value: who cancelled first, and every scope that has to hear it.

A turn owns one :class:`Cancellation`. Waits that may be cut short run inside ``with cancellation.scope():``, an anyio
scope that is cancelled when the cancellation fires. Code that must be finished (closing events, draining tools) simply
runs outside such a scope: nothing has to be shielded, and a cancel that somebody swallows is still remembered here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from turnlog.events import CancelCause
from turnlog.log import TurnlogError


class Cancelled(TurnlogError):
    """The turn was cancelled; raised by :meth:`Cancellation.check`. Carries the first cause."""

    def __init__(self, cause: CancelCause) -> None:
        super().__init__(f"cancelled: {cause!r}")
        self.cause = cause


class Cancellation:
    """One thing that can be cancelled once. The first cause wins; later calls change nothing."""

    __slots__ = ("_cause", "_scopes")

    def __init__(self) -> None:
        self._cause: CancelCause | None = None
        self._scopes: dict[anyio.CancelScope, None] = {}

    @property
    def cause(self) -> CancelCause | None:
        """Who cancelled, or None."""
        return self._cause

    def cancel(self, cause: CancelCause) -> bool:
        """Cancel every open scope and every one opened later; False when it had been cancelled before."""
        if self._cause is not None:
            return False
        self._cause = cause
        for scope in tuple(self._scopes):
            scope.cancel()
        return True

    def check(self) -> None:
        """Raise :class:`Cancelled` if it has been cancelled."""
        if self._cause is not None:
            raise Cancelled(self._cause)

    @contextmanager
    def scope(self) -> Iterator[anyio.CancelScope]:
        """Run the body so that a cancel reaches it; afterwards ask ``cause`` (or :meth:`check`) whether it did.

        The body's own cancellation, by whoever runs the task, passes through untouched.
        """
        scope = anyio.CancelScope()
        self._scopes[scope] = None
        try:
            with scope:
                if self._cause is not None:
                    scope.cancel()
                yield scope
        finally:
            del self._scopes[scope]

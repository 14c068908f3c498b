"""What can go wrong between a dispatcher and its listeners.

::

    TurnlogError
    └── HookError            names event, listener, file and line
        ├── HookContract     a listener broke the rules of its mode (code HOOK_CONTRACT)
        ├── HookTimeout      it ran longer than its deadline (code HOOK_TIMEOUT)
        └── HookMismatch     at registration: it does not fit the mode of its event
"""

from __future__ import annotations

from typing import ClassVar

from turnlog.log import TurnlogError


class HookError(TurnlogError):
    """A listener failed as a listener (what it raises itself is passed on as it is, with a note)."""

    code: ClassVar[str] = "HOOK"

    def __init__(self, event: str, listener: str, fault: str) -> None:
        super().__init__(f"{event}: {listener} {fault}")
        self.event = event
        self.listener = listener


class HookContract(HookError):
    """It broke the rules of its mode, for example returned without ``next`` or ``stop``, or called ``next`` twice."""

    code = "HOOK_CONTRACT"


class HookTimeout(HookError):
    """It was cancelled at its deadline."""

    code = "HOOK_TIMEOUT"


class HookMismatch(HookError, TypeError):
    """It cannot be called as its event's mode calls listeners."""

    code = "HOOK_MISMATCH"


def blame(error: Exception, wire: str, where: str) -> None:
    """Note on what a listener raised which listener it was; it shows in tracebacks and in ``error.__notes__``."""
    if not isinstance(error, HookError):  # which says so itself
        error.add_note(f"raised by {where}, a listener of {wire}")

"""How a turn ended, and who cancelled it (dsh-v0 §1.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from .usage import Failure
from .value import Opaque, Value


class CancelledByUser(Value, tag="user", tag_field="kind"):
    """A person cancelled."""


class CancelledByParent(Value, tag="parent", tag_field="kind"):
    """The parent agent cancelled."""


class CancelledByHook(Value, tag="hook", tag_field="kind"):
    """A hook cancelled."""

    reason: str


class CancelledByDisposal(Value, tag="disposed", tag_field="kind"):
    """The agent was shut down."""


class CancelledLegacy(Value, tag="legacy", tag_field="kind"):
    """An imported log does not say who cancelled."""


if TYPE_CHECKING:
    CancelCause: TypeAlias = (
        CancelledByUser | CancelledByParent | CancelledByHook | CancelledByDisposal | CancelledLegacy | Opaque
    )
else:
    CancelCause: TypeAlias = (
        CancelledByUser | CancelledByParent | CancelledByHook | CancelledByDisposal | CancelledLegacy
    )


class Completed(Value, tag="completed", tag_field="kind"):
    """No work was owed any more."""


class Aborted(Value, tag="aborted", tag_field="kind"):
    """Cancelled; the first cause wins."""

    reason: CancelCause


class Blocked(Value, tag="blocked", tag_field="kind"):
    """A pre-step hook refused the input."""


class Errored(Value, tag="error", tag_field="kind"):
    """A failure nothing recovered from."""

    error: Failure


class MaxTokens(Value, tag="max-tokens", tag_field="kind"):
    """Some step of the turn hit the output limit."""


class Interrupted(Value, tag="interrupted", tag_field="kind"):
    """The writer died; only closers write it."""


if TYPE_CHECKING:
    TurnEndReason: TypeAlias = Completed | Aborted | Blocked | Errored | MaxTokens | Interrupted | Opaque
else:
    TurnEndReason: TypeAlias = Completed | Aborted | Blocked | Errored | MaxTokens | Interrupted

"""Running a session again: the real loop driven by a recording, and what would have happened otherwise."""

from .effects import Effect
from .errors import NotFaithful, RerunError
from .run import Listen, Rerun, Step, rerun

__all__ = ["Effect", "Listen", "NotFaithful", "Rerun", "RerunError", "Step", "rerun"]

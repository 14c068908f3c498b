"""Running a session again: the real loop driven by a recording, and what would have happened otherwise."""

from .effects import Effect
from .errors import NotFaithful, RerunError
from .run import Listen, Rerun, Step, effects_before, rerun

__all__ = ["Effect", "Listen", "NotFaithful", "Rerun", "RerunError", "Step", "effects_before", "rerun"]

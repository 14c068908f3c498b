"""Session files of other programs, read-only: found, recognised, and shown as the same typed events.

```
dialect     which program wrote a file: decided by its content, never by its name
places      the files where those programs keep them
read        one pass over a file: each line goes to the mapper of its program
claude, codex, chat     what the records of each program mean
builder     turns, steps and calls out of that, in the order of the file
origins     the way back: from an event to line and id, and what was inferred or lost
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .dialect import DIALECTS, Dialect, Kind, detect
from .origins import Origins, Remark

if TYPE_CHECKING:
    from .places import ForeignEntry, discover, find

__all__ = ["DIALECTS", "Dialect", "ForeignEntry", "Kind", "Origins", "Remark", "detect", "discover", "find"]

_OF_PLACES: Final = frozenset({"ForeignEntry", "discover", "find"})


def __getattr__(name: str) -> Any:
    """Whoever only opens a log need not wait for what finds files."""
    if name not in _OF_PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import places

    return getattr(places, name)

"""Session files of other programs, read-only: found, recognised, and shown as the same typed events.

```
dialect     which program wrote a file: decided by its content, never by its name
discover    the files in the places where those programs keep them
read        one pass over a file: each line goes to the mapper of its program
claude, codex, chat     what the records of each program mean
builder     turns, steps and calls out of that, in the order of the file
origins     the way back: from an event to line and id, and what was inferred or lost
```
"""

from __future__ import annotations

from .dialect import DIALECTS, Dialect, Kind, detect
from .discover import ForeignEntry, discover, find
from .origins import Origins, Remark

__all__ = ["DIALECTS", "Dialect", "ForeignEntry", "Kind", "Origins", "Remark", "detect", "discover", "find"]

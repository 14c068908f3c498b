"""Session files of other programs, read-only: found, recognised, and shown as the same typed events.

```
dialect     which program wrote a file: decided by its content, never by its name
discover    the files in the places where those programs keep them
```
"""

from __future__ import annotations

from .dialect import Dialect, Kind, detect
from .discover import ForeignEntry, discover

__all__ = ["Dialect", "ForeignEntry", "Kind", "detect", "discover"]

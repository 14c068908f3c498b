"""The catalogue: which sessions there are and what each says of itself, kept in an index that may be deleted.

```
roots ──walk──▶ stale? ──facts──▶ records ──▶ listing (turnlog ls)
                                    │
                                    └──▶ full text ──▶ search (turnlog search)
```

The logs are the truth, the index is what was read out of them. A file that is still as it was (inode, size, times) is
not opened; one that only grew is read from the end of its last whole turn on, after its beginning was compared with
what was indexed; everything else is read anew. An index that is missing, damaged, of another build or of another
machine is made again; where none can be kept, the answers are computed without one and are the same.

This room is on a floor of its own because a list of ten thousand sessions is shown in less time than it takes to import
the rooms that read logs: nothing here imports them before a log has to be read.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .answers import CitedRun as CitedRun
    from .answers import IndexedCall as IndexedCall
    from .answers import IndexedTurn as IndexedTurn
    from .index import Catalogue as Catalogue
    from .index import Listed as Listed
    from .query import Query as Query
    from .query import QueryInvalid as QueryInvalid
    from .searching import Hit as Hit
    from .searching import Search as Search
    from .tally import Totals as Totals

_HOMES: Final = {
    "Catalogue": "index",
    "CitedRun": "answers",
    "Hit": "searching",
    "IndexedCall": "answers",
    "IndexedTurn": "answers",
    "Listed": "index",
    "Query": "query",
    "QueryInvalid": "query",
    "Search": "searching",
    "Totals": "tally",
}

__all__ = [
    "Catalogue",
    "CitedRun",
    "Hit",
    "IndexedCall",
    "IndexedTurn",
    "Listed",
    "Query",
    "QueryInvalid",
    "Search",
    "Totals",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'turnlog.catalogue' has no attribute {name!r}")
    value = getattr(import_module(f"turnlog.catalogue.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

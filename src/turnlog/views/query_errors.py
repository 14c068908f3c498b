"""What can be wrong with a question about sessions.

```
TurnlogError
├── QueryError               the question cannot be answered as it was put; ``code`` is dsh's word for it
│   ├── FilterInvalid        INVALID_FILTER    a condition that nothing can fulfil, or of the wrong kind
│   ├── WindowInvalid        INVALID_WINDOW    a number of neighbours that is no count, or too large
│   ├── LimitInvalid         INVALID_LIMIT     a page size that is no count, or too large
│   ├── CursorInvalid        INVALID_CURSOR    the cursor is not from this session and these conditions
│   ├── CursorStale          STALE_CURSOR      the log says something else now than when the cursor was made
│   ├── SourceConflict       SOURCE_CONFLICT   two sources say different things of one session
│   ├── SessionUnknown       SESSION_NOT_FOUND no session of this id is among those that were given
│   └── LineageInvalid       INVALID_LINEAGE   sessions that are each other's ancestors
└── AddressError             turnlog.views.address: EVENT_NOT_FOUND is `AddressUnknown`
```

A log that cannot be read at all is an error of the store that opens it (dsh: CORRUPT_SESSION, INVALID_SURFACE,
PERSISTENCE_FAILED); questions in full text have their errors in :mod:`turnlog.catalogue`.
"""

from __future__ import annotations

from typing import ClassVar

from turnlog.log import TurnlogError


class QueryError(TurnlogError, ValueError):
    """Base of what can be wrong with a question."""

    code: ClassVar[str] = "SESSION_QUERY_FAILED"
    """dsh's code for the same fault, for programs that know those."""


class FilterInvalid(QueryError):
    """A condition is of the wrong kind, or nothing can fulfil it; names the condition."""

    code = "SESSION_QUERY_INVALID_FILTER"


class WindowInvalid(QueryError):
    """A number of neighbours is no whole number from 0 to the most there may be."""

    code = "SESSION_QUERY_INVALID_WINDOW"


class LimitInvalid(QueryError):
    """A page size is no whole number from 1 to the most there may be."""

    code = "SESSION_QUERY_INVALID_LIMIT"


class CursorInvalid(QueryError):
    """A cursor is not one, or belongs to another session or to other conditions."""

    code = "SESSION_QUERY_INVALID_CURSOR"


class CursorStale(QueryError):
    """What a cursor was made from has changed in a way that its next page would depend on."""

    code = "SESSION_QUERY_STALE_CURSOR"


class SourceConflict(QueryError):
    """A live and a stored session have one id and different headers; names the field."""

    code = "SESSION_QUERY_SOURCE_CONFLICT"


class SessionUnknown(QueryError):
    """No session of this id is among those that were given."""

    code = "SESSION_QUERY_SESSION_NOT_FOUND"


class LineageInvalid(QueryError):
    """Sessions name each other as parents in a circle; lists it."""

    code = "SESSION_QUERY_INVALID_LINEAGE"

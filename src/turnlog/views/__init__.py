"""Everything derived for reading: attempts, outline, queries, addresses, playback, and projectors for people.

Views never write. They read a session once, leave packed chunks packed until their words are asked for, and mark
what is synthetic.
"""

from .address import Address, AddressAmbiguous, AddressError, AddressInvalid, AddressUnknown, parse_address
from .attempt import Attempt
from .attempts import attempts
from .bounds import Between
from .buckets import Buckets
from .call import Call
from .context import Context, context
from .corpus import Branch, Lineage, SessionRecord, filter_sessions, lineage, session_records
from .diff import Diff, Difference, diff
from .filters import EventFilter
from .normal import Divergence, NormalEvent, first_divergence, normal_events
from .outline import Outline, outline
from .playback import Frame, Playback, PlayState, playback
from .prices import Cost, PricesInvalid, PriceTable
from .projectors import TIMELINE, TRANSCRIPT, Mark, Said
from .provenance import Provenance
from .queries import TurnEvents, call, calls, sources, turn
from .query_errors import (
    CursorInvalid,
    CursorStale,
    FilterInvalid,
    LimitInvalid,
    LineageInvalid,
    QueryError,
    SessionUnknown,
    SourceConflict,
    WindowInvalid,
)
from .resolve import Target, resolve
from .streams import TimedChunk
from .structure import AttemptView, StepView, Structure, TurnView, structure
from .timing import Timing
from .trace import Trace, trace
from .usage import Charge, Tally, Usage, usage
from .windows import Page, Window, documents, event_records, page, select, surface_events, window

__all__ = [
    "TIMELINE",
    "TRANSCRIPT",
    "Address",
    "AddressAmbiguous",
    "AddressError",
    "AddressInvalid",
    "AddressUnknown",
    "Attempt",
    "AttemptView",
    "Between",
    "Branch",
    "Buckets",
    "Call",
    "Charge",
    "Context",
    "Cost",
    "CursorInvalid",
    "CursorStale",
    "Diff",
    "Difference",
    "Divergence",
    "EventFilter",
    "FilterInvalid",
    "Frame",
    "LimitInvalid",
    "Lineage",
    "LineageInvalid",
    "Mark",
    "NormalEvent",
    "Outline",
    "Page",
    "PlayState",
    "Playback",
    "PriceTable",
    "PricesInvalid",
    "Provenance",
    "QueryError",
    "Said",
    "SessionRecord",
    "SessionUnknown",
    "SourceConflict",
    "StepView",
    "Structure",
    "Tally",
    "Target",
    "TimedChunk",
    "Timing",
    "Trace",
    "TurnEvents",
    "TurnView",
    "Usage",
    "Window",
    "WindowInvalid",
    "attempts",
    "call",
    "calls",
    "context",
    "diff",
    "documents",
    "event_records",
    "filter_sessions",
    "first_divergence",
    "lineage",
    "normal_events",
    "outline",
    "page",
    "parse_address",
    "playback",
    "resolve",
    "select",
    "session_records",
    "sources",
    "structure",
    "surface_events",
    "trace",
    "turn",
    "usage",
    "window",
]

"""Everything derived for reading: attempts, outline, queries, addresses, playback, and projectors for people.

Views never write. They read a session once, leave packed chunks packed until their words are asked for, and mark
what is synthetic.
"""

from .address import Address, AddressAmbiguous, AddressError, AddressInvalid, AddressUnknown, parse_address
from .attempt import Attempt
from .attempts import attempts
from .call import Call
from .context import Context, context
from .diff import Diff, Difference, diff
from .normal import Divergence, NormalEvent, first_divergence, normal_events
from .outline import Outline, outline
from .playback import Frame, Playback, PlayState, playback
from .projectors import TIMELINE, TRANSCRIPT, Mark, Said
from .provenance import Provenance
from .queries import TurnEvents, call, calls, sources, turn
from .resolve import Target, resolve
from .streams import TimedChunk
from .structure import AttemptView, StepView, Structure, TurnView, structure
from .timing import Timing
from .trace import Trace, trace

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
    "Call",
    "Context",
    "Diff",
    "Difference",
    "Divergence",
    "Frame",
    "Mark",
    "NormalEvent",
    "Outline",
    "PlayState",
    "Playback",
    "Provenance",
    "Said",
    "StepView",
    "Structure",
    "Target",
    "TimedChunk",
    "Timing",
    "Trace",
    "TurnEvents",
    "TurnView",
    "attempts",
    "call",
    "calls",
    "context",
    "diff",
    "first_divergence",
    "normal_events",
    "outline",
    "parse_address",
    "playback",
    "resolve",
    "sources",
    "structure",
    "trace",
    "turn",
]

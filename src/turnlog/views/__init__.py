"""Everything derived for reading: attempts, outline, queries, addresses, playback, and projectors for people.

Views never write. They read a session once, leave packed chunks packed until their words are asked for, and mark
what is synthetic. Loaded lazily: importing this room costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .address import Address as Address
    from .address import AddressAmbiguous as AddressAmbiguous
    from .address import AddressError as AddressError
    from .address import AddressInvalid as AddressInvalid
    from .address import AddressUnknown as AddressUnknown
    from .address import parse_address as parse_address
    from .attempts import Attempt as Attempt
    from .attempts import attempts as attempts
    from .call import Call as Call
    from .outline import Outline as Outline
    from .outline import outline as outline
    from .playback import Frame as Frame
    from .playback import playback as playback
    from .projectors import TIMELINE as TIMELINE
    from .projectors import TRANSCRIPT as TRANSCRIPT
    from .projectors import Mark as Mark
    from .projectors import Said as Said
    from .provenance import Provenance as Provenance
    from .queries import TurnEvents as TurnEvents
    from .queries import call as call
    from .queries import calls as calls
    from .queries import sources as sources
    from .queries import turn as turn
    from .resolve import Target as Target
    from .resolve import resolve as resolve
    from .streams import TimedChunk as TimedChunk

_HOMES = {
    "Address": "address",
    "AddressAmbiguous": "address",
    "AddressError": "address",
    "AddressInvalid": "address",
    "AddressUnknown": "address",
    "Attempt": "attempts",
    "Call": "call",
    "Frame": "playback",
    "Mark": "projectors",
    "Outline": "outline",
    "Provenance": "provenance",
    "Said": "projectors",
    "TIMELINE": "projectors",
    "TRANSCRIPT": "projectors",
    "Target": "resolve",
    "TimedChunk": "streams",
    "TurnEvents": "queries",
    "attempts": "attempts",
    "call": "queries",
    "calls": "queries",
    "outline": "outline",
    "parse_address": "address",
    "playback": "playback",
    "resolve": "resolve",
    "sources": "queries",
    "turn": "queries",
}

__all__ = [
    "TIMELINE",
    "TRANSCRIPT",
    "Address",
    "AddressAmbiguous",
    "AddressError",
    "AddressInvalid",
    "AddressUnknown",
    "Attempt",
    "Call",
    "Frame",
    "Mark",
    "Outline",
    "Provenance",
    "Said",
    "Target",
    "TimedChunk",
    "TurnEvents",
    "attempts",
    "call",
    "calls",
    "outline",
    "parse_address",
    "playback",
    "resolve",
    "sources",
    "turn",
]

"""Hooks: typed events in three domains and four ways of dispatch.

===========  ==================================  ==========================================================
domain       what                                mode
===========  ==================================  ==========================================================
session      a payload class: a committed fact   told after the append; cannot change or refuse it
agent        an agent's life (`turnlog.agent`)   emit, serial or waterfall: the event's base class says
capability   a tool or model in use              waterfall around the use
===========  ==================================  ==========================================================
"""

from .bus import Bus
from .cancellation import Cancellation, Cancelled
from .errors import HookContract, HookError, HookMismatch, HookTimeout
from .events import BusEvent, Emit, Parallel, Serial, Waterfall
from .listeners import Registration
from .outcome import Next, Outcome, stop
from .trace import Dispatch, Ran, Trace

__all__ = [
    "Bus",
    "BusEvent",
    "Cancellation",
    "Cancelled",
    "Dispatch",
    "Emit",
    "HookContract",
    "HookError",
    "HookMismatch",
    "HookTimeout",
    "Next",
    "Outcome",
    "Parallel",
    "Ran",
    "Registration",
    "Serial",
    "Trace",
    "Waterfall",
    "stop",
]

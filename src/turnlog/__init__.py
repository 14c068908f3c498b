"""Turnlog: an agent harness whose whole state is one append-only, typed session log.

The public face, loaded when first used: ``import turnlog`` itself costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from turnlog import agent as agent
    from turnlog import bus as bus
    from turnlog import catalogue as catalogue
    from turnlog import events as events
    from turnlog import log as log
    from turnlog import model as model
    from turnlog import store as store
    from turnlog import testing as testing
    from turnlog import tools as tools
    from turnlog import views as views
    from turnlog.agent import Agent as Agent
    from turnlog.bus import Next as Next
    from turnlog.bus import Outcome as Outcome
    from turnlog.bus import stop as stop
    from turnlog.events import Message as Message
    from turnlog.events import Vocabulary as Vocabulary
    from turnlog.log import AnyEvent as AnyEvent
    from turnlog.log import Projector as Projector
    from turnlog.log import Session as Session
    from turnlog.log import SessionEvent as SessionEvent
    from turnlog.log import TurnlogError as TurnlogError
    from turnlog.log import View as View
    from turnlog.store import load as load
    from turnlog.store import open_store as open_store
    from turnlog.store import open_tail as open_tail
    from turnlog.store import verify as verify
    from turnlog.tools import tool as tool

_HOMES = {
    "Agent": "turnlog.agent",
    "AnyEvent": "turnlog.log",
    "Message": "turnlog.events",
    "Next": "turnlog.bus",
    "Outcome": "turnlog.bus",
    "Projector": "turnlog.log",
    "Session": "turnlog.log",
    "SessionEvent": "turnlog.log",
    "TurnlogError": "turnlog.log",
    "View": "turnlog.log",
    "Vocabulary": "turnlog.events",
    "load": "turnlog.store",
    "open_store": "turnlog.store",
    "open_tail": "turnlog.store",
    "stop": "turnlog.bus",
    "tool": "turnlog.tools",
    "verify": "turnlog.store",
}

_ROOMS = frozenset({"agent", "bus", "catalogue", "events", "log", "model", "store", "testing", "tools", "views"})

__all__ = [
    "Agent",
    "AnyEvent",
    "Message",
    "Next",
    "Outcome",
    "Projector",
    "Session",
    "SessionEvent",
    "TurnlogError",
    "View",
    "Vocabulary",
    "__version__",
    "load",
    "open_store",
    "open_tail",
    "stop",
    "tool",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"turnlog.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'turnlog' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS})

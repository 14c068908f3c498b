"""Turnlog: an agent harness whose whole state is one append-only, typed session log.

The public face, loaded when first used: ``import turnlog`` itself costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from turnlog import events as events
    from turnlog import log as log
    from turnlog import store as store
    from turnlog import views as views
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

_HOMES = {
    "AnyEvent": "turnlog.log",
    "Message": "turnlog.events",
    "Projector": "turnlog.log",
    "Session": "turnlog.log",
    "SessionEvent": "turnlog.log",
    "TurnlogError": "turnlog.log",
    "View": "turnlog.log",
    "Vocabulary": "turnlog.events",
    "load": "turnlog.store",
    "open_store": "turnlog.store",
    "open_tail": "turnlog.store",
    "verify": "turnlog.store",
}

_ROOMS = frozenset({"events", "log", "store", "views"})

__all__ = [
    "AnyEvent",
    "Message",
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

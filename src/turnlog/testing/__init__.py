"""What tests of programs built on Turnlog use, loaded when first used.

=====================  ====================================================================================
`ScriptedModel`        a model that says what a test wrote down; its parts are in `turnlog.model`
`LoopbackServer`       the same over real HTTP and server-sent events, with faults
`assert_log`           what a log has to hold, with a readable difference; `like`, `chunks` are parts of patterns
`FrozenClock`          time that stands still; `frozen_ids` for ids that are the same in every run
`RecordedModel`        a model that says what a recorded session says
`Cassette`             a session recorded once and played back after; the pytest fixture ``cassette`` makes them
`StoreContract`        what every store promises, as tests
=====================  ====================================================================================
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnlog.model import RecordedModel as RecordedModel
    from turnlog.model import ScriptedModel as ScriptedModel

    from .asserting import assert_log as assert_log
    from .asserting import chunks as chunks
    from .asserting import like as like
    from .cassette import Cassette as Cassette
    from .clock import FrozenClock as FrozenClock
    from .clock import frozen_ids as frozen_ids
    from .loopback import LoopbackServer as LoopbackServer
    from .replies import drop as drop
    from .replies import hang as hang
    from .replies import keep_alive as keep_alive
    from .replies import refuse as refuse
    from .replies import reply as reply
    from .replies import sse as sse
    from .store_contract import StoreContract as StoreContract

_HOMES = {
    "Cassette": ".cassette",
    "FrozenClock": ".clock",
    "LoopbackServer": ".loopback",
    "RecordedModel": "turnlog.model",
    "ScriptedModel": "turnlog.model",
    "StoreContract": ".store_contract",
    "frozen_ids": ".clock",
    **dict.fromkeys(("assert_log", "chunks", "like"), ".asserting"),
    **dict.fromkeys(("drop", "hang", "keep_alive", "refuse", "reply", "sse"), ".replies"),
}

__all__ = [
    "Cassette",
    "FrozenClock",
    "LoopbackServer",
    "RecordedModel",
    "ScriptedModel",
    "StoreContract",
    "assert_log",
    "chunks",
    "drop",
    "frozen_ids",
    "hang",
    "keep_alive",
    "like",
    "refuse",
    "reply",
    "sse",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'turnlog.testing' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name], __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

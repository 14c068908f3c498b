"""``turnlog replay``"""

from __future__ import annotations

import math
import time

from turnlog.events import BlockStart, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from turnlog.events.lossless import plain
from turnlog.log import AnyEvent
from turnlog.views import Frame, playback, resolve
from turnlog.views.streams import STREAMED

from .. import describe
from ..json_views import document, wire
from ..opening import Which, open_session
from ..places import address_of
from ..problems import WrongUsage
from ..screen import Screen, Style
from ..text import duration, rfc3339


def replay(
    screen: Screen, which: Which, *, speed: float, start: str | None, idle_limit: float, as_stored: bool, as_json: bool
) -> None:
    """Play a session back."""
    if not speed >= 0 or not idle_limit >= 0:
        raise WrongUsage("--speed and --idle-limit are numbers from 0 on")
    screen.unpaged()
    session = open_session(screen, which)
    target = None if start is None else resolve(session, address_of(start))
    limit = None if math.isinf(idle_limit) else idle_limit * 1000
    if not len(session.events):
        screen.nothing("the log holds no events")
    printer = _Json(screen) if as_json else _Printer(screen)
    for wait_ms, frame in playback(session, speed=speed, start=target, idle_limit_ms=limit, as_stored=as_stored):
        printer.show(wait_ms, frame)
    printer.end()


class _Json:
    """One frame per line, at once; whoever reads them waits by ``waitMs``."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def show(self, wait_ms: float, frame: Frame) -> None:
        view = document(waitMs=round(wait_ms, 3), address=frame.address, loggedAt=rfc3339(frame.time))
        if frame.cut_ms:
            view["cutMs"] = frame.cut_ms
        if frame.synthetic:
            view["synthetic"] = True
        if frame.chunk is not None:
            view["chunk"] = plain(frame.chunk)
        if frame.event is not None:
            view["event"] = wire(frame.event)
        self._screen.json(view)

    def end(self) -> None:
        pass


class _Printer:
    """Prints what a person would have seen, when they would have seen it."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._open = ""  # what is being streamed: kind and block
        self._streamed = False

    def show(self, wait_ms: float, frame: Frame) -> None:
        if wait_ms > 0:
            self._screen.flush()
            time.sleep(wait_ms / 1000)
        if frame.cut_ms:
            self._line(f"  … {duration(frame.cut_ms)} of waiting left out", "dim")
        if frame.event is not None:
            self._event(frame.event, frame.synthetic)
        elif frame.chunk is not None:
            self._chunk(frame.chunk)

    def end(self) -> None:
        self._close()

    def _chunk(self, chunk: object) -> None:
        self._streamed = True
        match chunk:
            case TextDelta(index=index, text=text):
                self._stream(f"text {index}", "  assistant: ", text, None)
            case ReasoningDelta(index=index, text=text):
                self._stream(f"reasoning {index}", "  thinking: ", text, "dim")
            case ToolCallDelta(index=index, name=name, arguments_delta=text):
                self._stream(f"call {index}", f"  asks for {name or 'a tool'}: ", text, "cyan")
            case Finish() | BlockStart():
                self._close()
            case _:
                pass

    def _stream(self, kind: str, label: str, text: str, style: Style | None) -> None:
        if self._open != kind:
            self._close()
            self._open = kind
            self._screen.write(label, "bold")
        self._screen.write(text.replace("\n", "\n    "), style)

    def _close(self) -> None:
        if self._open:
            self._open = ""
            self._screen.write("\n")

    def _event(self, event: AnyEvent, synthetic: bool) -> None:
        streamed, self._streamed = self._streamed, self._streamed and event.type not in STREAMED
        if not (synthetic or self._tells(event, streamed)):
            return
        indent = "" if event.type.startswith("turn/") else "  "
        mark = describe.SYNTHETIC if synthetic else ""
        self._line(f"{indent}{describe.anything(event)}{mark}", "yellow" if synthetic else None)

    def _tells(self, event: AnyEvent, streamed: bool) -> bool:
        """Whether an event has something to show; a message whose stream was shown has not."""
        if event.type == "assistant/message" and streamed and describe.notable(event) is None:
            return False
        return any(told is not None for told in (describe.boundary(event), event.message, describe.notable(event)))

    def _line(self, text: str, style: Style | None) -> None:
        self._close()
        self._screen.write(text.replace("\n", "\\n"), style)
        self._screen.write("\n")

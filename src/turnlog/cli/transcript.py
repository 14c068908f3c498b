"""A session as people read it while it happens: the same for a run, a replay and a tail."""

from __future__ import annotations

from collections.abc import Callable

from turnlog.events import AssistantChunk, BlockStart, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from turnlog.log import AnyEvent
from turnlog.views import Frame
from turnlog.views.streams import STREAMED, embedded

from . import describe
from .screen import Screen, Style
from .text import duration, visible


class Transcript:
    """Prints events and chunks as they come; what is streamed goes on in its line."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._open = ""  # what is being streamed: kind and block
        self._streamed = False
        self._asked: dict[int, str] = {}  # block → name of the call that is being streamed there

    def logged(self, event: AnyEvent, wanted: Callable[[object], bool] | None = None) -> None:
        """Show an event of a live session, chunks as chunks, also those inside of it. *wanted* is asked about each
        chunk and about the event, where not everything is."""
        if isinstance(event.data, AssistantChunk):
            if wanted is None or wanted(event.data.chunk):
                self.chunk(event.data.chunk)
            return
        for timed in embedded(event):
            if wanted is None or wanted(timed.chunk):
                self.chunk(timed.chunk)
        if wanted is None or wanted(event):
            self.event(event)

    def frame(self, frame: Frame) -> None:
        """Show a frame of a playback, and what is odd about the time before it."""
        cut = f"{duration(frame.cut_ms)} of waiting left out" if frame.cut_ms else ""
        if frame.stall_ms:
            self.line(f"  … stalled {duration(frame.stall_ms)}{f', {cut}' if cut else ''}", "yellow")
        elif cut:
            self.line(f"  … {cut}", "dim")
        if frame.event is not None:
            self.event(frame.event, synthetic=frame.synthetic)
        elif frame.chunk is not None:
            self.chunk(frame.chunk)

    def chunk(self, chunk: object) -> None:
        """Go on with what is being said."""
        self._streamed = True
        match chunk:
            case TextDelta(index=index, text=text):
                self._stream(f"text {index}", "  assistant: ", text, None)
            case ReasoningDelta(index=index, text=text):
                self._stream(f"reasoning {index}", "  thinking: ", text, "dim")
            case ToolCallDelta(index=index, name=name, arguments_delta=text):
                if name:
                    self._asked[index] = visible(name)
                self._stream(f"call {index}", f"  asks for {self._asked.get(index, 'a tool')}: ", text, "cyan")
            case Finish():
                self._asked.clear()
                self.end()
            case BlockStart():
                self.end()
            case _:
                pass

    def event(self, event: AnyEvent, *, synthetic: bool = False) -> None:
        """Show an event, if it has something to show."""
        streamed, self._streamed = self._streamed, self._streamed and event.type not in STREAMED
        if not (synthetic or self._tells(event, streamed)):
            return
        indent = "" if event.type.startswith("turn/") else "  "
        mark = describe.SYNTHETIC if synthetic else ""
        self.line(f"{indent}{describe.anything(event)}{mark}", "yellow" if synthetic else None)

    def line(self, text: str, style: Style | None = None) -> None:
        """Print one line, after what is being streamed."""
        self.end()
        self._screen.write(text.replace("\n", "\\n"), style)
        self._screen.write("\n")

    def lines(self, text: str, style: Style | None = None) -> None:
        """Print what a running tool says, line by line."""
        for line in text.removesuffix("\n").split("\n"):
            self.line(f"    {line}", style)

    def end(self) -> None:
        """Nothing more comes to what was being said."""
        if self._open:
            self._open = ""
            self._screen.write("\n")

    def _stream(self, kind: str, label: str, text: str, style: Style | None) -> None:
        if self._open != kind:
            self.end()
            self._open = kind
            self._screen.write(label, "bold")
        self._screen.write(text.replace("\n", "\n    "), style)

    def _tells(self, event: AnyEvent, streamed: bool) -> bool:
        """Whether an event has something to show; a message whose stream was shown has not."""
        if event.type == "assistant/message" and streamed and describe.notable(event) is None:
            return False
        return any(told is not None for told in (describe.boundary(event), event.message, describe.notable(event)))

"""From what providers send to chunks that a log may hold.

Every adapter, scripted answers too, writes its deltas through an :class:`Answer`. It is the one place that knows:

- an id or a name sticks as soon as it is not empty; every delta of a call carries both, so that runs pack into one row;
- ids are unique within the message (``call_0``, ``call_0~2``), decided before a delta with them is given out;
- a call whose id is late keeps its deltas back until the id comes or the block ends; then one is minted;
- half of a surrogate pair at the end of a delta waits for its other half; a half that nothing completes is U+FFFD;
- empty deltas say nothing and open nothing.

Blocks are numbered from 0 in the order in which they open; their ends come in the same order.
"""

from __future__ import annotations

from typing import Final, TypeAlias
from uuid import uuid4

from turnlog.events import (
    BlockEnd,
    BlockStart,
    ReasoningBlock,
    ReasoningDelta,
    StreamChunk,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
)
from turnlog.events.lossless import join_text, whole_text

UNNAMED: Final = "unnamed"
"""The name of a call that never got one: the answer to it can tell the model what is missing."""


class _Surrogates:
    """Text that is cut anywhere, also inside a surrogate pair."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def next(self, text: str) -> str:
        """As much of the text as is whole."""
        if not self._half and text.isascii():
            return text
        text = join_text(self._half, text)
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._half = text[-1]
            text = text[:-1]
        return whole_text(text)

    def rest(self) -> str:
        """What is left when nothing follows."""
        half, self._half = self._half, ""
        return whole_text(half)


class TextSlot:
    """An open block of visible text."""

    __slots__ = ("_chunks", "_pieces", "_surrogates", "closed", "index")

    def __init__(self, index: int, chunks: list[StreamChunk]) -> None:
        self.index = index
        self.closed = False
        self._chunks = chunks
        self._pieces: list[str] = []
        self._surrogates = _Surrogates()

    def add(self, text: str) -> None:
        """More of it."""
        if text and (text := self._surrogates.next(text)):
            self._emit(text)

    def close(self) -> None:
        """Its end. Idempotent."""
        if self.closed:
            return
        self.closed = True
        if rest := self._surrogates.rest():
            self._emit(rest)
        self._chunks.append(BlockEnd(self.index, self._block("".join(self._pieces))))

    def _emit(self, text: str) -> None:
        self._pieces.append(text)
        self._chunks.append(TextDelta(self.index, text))

    def _block(self, text: str) -> TextBlock | ReasoningBlock:
        return TextBlock(text)


class ReasoningSlot(TextSlot):
    """An open block of reasoning."""

    __slots__ = ()

    def _emit(self, text: str) -> None:
        self._pieces.append(text)
        self._chunks.append(ReasoningDelta(self.index, text))

    def _block(self, text: str) -> TextBlock | ReasoningBlock:
        return ReasoningBlock(text)


class CallSlot:
    """An open tool call."""

    __slots__ = ("_answer", "_pieces", "_shown", "_surrogates", "closed", "id", "index", "name", "raw_id")

    def __init__(self, index: int, answer: Answer) -> None:
        self.index = index
        self.closed = False
        self.raw_id = ""
        """The id as the provider spells it; empty while it has not said."""
        self.id = ""
        self.name = ""
        self._answer = answer
        self._pieces: list[str] = []
        self._shown = 0
        self._surrogates = _Surrogates()

    @property
    def arguments(self) -> str:
        """The raw argument text so far."""
        return "".join(self._pieces)

    def add(self, arguments: str, id: str = "", name: str = "") -> None:
        """More of it. Empty strings say nothing."""
        news = False
        if name and not self.name:
            self.name, news = whole_text(name), True
        if id and not self.raw_id:
            self._identify(id)
            news = bool(self.name)
        if arguments and (arguments := self._surrogates.next(arguments)):
            self._pieces.append(arguments)
        if self.id and (news or self._shown < len(self._pieces)):
            self._show()

    def close(self) -> None:
        """Its end. Idempotent."""
        if self.closed:
            return
        self.closed = True
        if rest := self._surrogates.rest():
            self._pieces.append(rest)
        self.name = self.name or UNNAMED
        late = not self.id
        if late:
            self._identify(mint_call_id())
        if late or self._shown < len(self._pieces):
            self._show()
        self._answer.chunks.append(BlockEnd(self.index, ToolCallBlock(self.id, self.name, self.arguments)))

    def _identify(self, id: str) -> None:
        self.raw_id = id
        self.id = self._answer.unique_id(whole_text(id))

    def _show(self) -> None:
        """Give out what was not given out yet: piece by piece, as it came."""
        chunks, name = self._answer.chunks, self.name or None
        if self._shown == len(self._pieces):
            chunks.append(ToolCallDelta(self.index, self.id, "", name))
        for piece in self._pieces[self._shown :]:
            chunks.append(ToolCallDelta(self.index, self.id, piece, name))
        self._shown = len(self._pieces)


Slot: TypeAlias = TextSlot | CallSlot


class Answer:
    """One answer while it comes. What is written to its slots appears in :attr:`chunks`."""

    __slots__ = ("_ids", "chunks", "slots")

    def __init__(self) -> None:
        self.chunks: list[StreamChunk] = []
        """Chunks not taken yet."""
        self.slots: list[Slot] = []
        """Every block, in the order in which they opened."""
        self._ids: set[str] = set()

    def take(self) -> list[StreamChunk]:
        """The chunks since the last take."""
        taken = self.chunks[:]
        self.chunks.clear()  # the slots hold this very list
        return taken

    def open_text(self) -> TextSlot:
        """A new block of text."""
        return self._open(TextSlot(len(self.slots), self.chunks), "text")

    def open_reasoning(self) -> TextSlot:
        """A new block of reasoning."""
        return self._open(ReasoningSlot(len(self.slots), self.chunks), "reasoning")

    def open_call(self) -> CallSlot:
        """A new call."""
        slot = CallSlot(len(self.slots), self)
        self.slots.append(slot)
        self.chunks.append(BlockStart(slot.index, "tool-call"))
        return slot

    def close(self) -> None:
        """The ends of all blocks that are still open."""
        for slot in self.slots:
            slot.close()

    def unique_id(self, id: str) -> str:
        """The id, or the id with a number that no call of this answer has."""
        unique, number = id, 1
        while unique in self._ids:
            number += 1
            unique = f"{id}~{number}"
        self._ids.add(unique)
        return unique

    def _open(self, slot: TextSlot, kind: str) -> TextSlot:
        self.slots.append(slot)
        self.chunks.append(BlockStart(slot.index, kind))
        return slot


def mint_call_id() -> str:
    """An id for a call that its provider gave none."""
    return f"call_{uuid4().hex[:24]}"

"""`Search`: what was said, across sessions. The full text says where to look; the log says what is there.

What the full text does not hold (yet) is read: a session that was never put in, and what a session has more than when
it was. So the hits are those of reading every log from front to back, whatever the index holds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from .fulltext import Block, FullText, FullTextLost, text_path
from .index import Catalogue, Listed
from .lines import LinesLost, pieces
from .query import Query, Span
from .said import SILENT, Spoken, spoken

_BEFORE: Final = 80
"""Characters shown before a hit, a third of what is shown."""
_SHOWN: Final = 240


class Hit(NamedTuple):
    """An event that says what was searched for."""

    session: Listed
    said: Spoken
    span: Span
    """Where in its text."""

    @property
    def address(self) -> str:
        """``@SEQ``"""
        return f"@{self.said.seq}"

    @property
    def place(self) -> str | None:
        """``t3.s2`` or ``t3``, where the event says so."""
        said = self.said
        if said.turn is None:
            return None
        return f"t{said.turn}" if said.step is None else f"t{said.turn}.s{said.step}"

    @property
    def snippet(self) -> tuple[str, str, str]:
        """What stands before it, itself, and what follows: each on one line, together not much longer than 240
        characters; an ellipsis where text was left out."""
        text, (start, end) = self.said.text, self.span
        shown_end = min(end, start + _SHOWN - _BEFORE)
        after_end = max(shown_end, start + _SHOWN - _BEFORE)
        before = ("…" if start > _BEFORE else "") + _flat(text[max(start - _BEFORE, 0) : start])
        after = _flat(text[shown_end:after_end]) + ("…" if after_end < len(text) else "")
        return before, _flat(text[start:shown_end]), after


def _flat(text: str) -> str:
    """On one line; a blank at its ends stays one."""
    words = " ".join(text.split())
    if not words:
        return " " if text else ""
    return f"{' ' if text[0].isspace() else ''}{words}{' ' if text[-1].isspace() else ''}"


@dataclass(frozen=True)
class Filters:
    """What a hit must be besides; every condition that is given has to hold."""

    types: tuple[str, ...] = ()
    """Patterns of event types."""
    tools: tuple[str, ...] = ()
    """Patterns of tool names: only calls, their results, and messages that ask for them."""
    since_ms: int | None = None
    until_ms: int | None = None
    """When the event was logged, epoch ms, both included."""
    session: Callable[[Listed], bool] = field(default=lambda _session: True)
    """Which sessions are searched."""


@dataclass
class Read:
    """What had to be read because the full text does not hold it."""

    sessions: int = 0
    """Sessions that it holds nothing of."""
    bytes: int = 0
    """Bytes of log that were read for that."""


class Search:
    """One search over the sessions of a catalogue."""

    def __init__(
        self,
        catalogue: Catalogue,
        query: Query,
        filters: Filters | None = None,
        *,
        say: Callable[[str], None] = lambda _text: None,
        use_index: bool = True,
    ) -> None:
        """*use_index* False reads every log."""
        self._catalogue = catalogue
        self._query = query
        self._filters = filters or Filters()
        self._say = say
        self._use_index = use_index
        self._plain = query.plain
        self.read: Final = Read()
        self.missing: Final[list[Path]] = []
        """Roots with sessions that the full text does not hold."""

    def hits(self, sessions: Iterable[Listed] | None = None) -> Iterator[Hit]:
        """The hits: newest session first, in the order of the log within one. *sessions* limits the search to some."""
        listed = self._catalogue.sessions() if sessions is None else list(sessions)
        texts = {root.path: self._text(root.path) for root in self._catalogue.roots} if self._use_index else {}
        try:
            finders = {root: self._finder(text) for root, text in texts.items() if text is not None}
            for session in listed:
                if self._filters.session(session):
                    yield from self._in(session, texts.get(session.root), finders.get(session.root))
        finally:
            for text in texts.values():
                if text is not None:
                    text.close()

    def _text(self, root: Path) -> FullText | None:
        if not text_path(root).exists():
            return None
        try:
            return FullText(root, self._say)
        except FullTextLost as error:
            self._lost(root, error)
            return None

    def _finder(self, text: FullText) -> Callable[[str], list[Block]]:
        try:
            return text.blocks(text.candidates(self._query))
        except FullTextLost as error:
            self._lost(text.path, error)
            text.covered.clear()
            return lambda _key: []

    def _lost(self, path: Path, error: FullTextLost) -> None:
        self._say(f"{error}; the logs are read instead")
        if error.damaged:
            for suffix in ("", "-wal", "-shm"):
                place = path if path.suffix == ".sqlite3" else text_path(path)
                Path(f"{place}{suffix}").unlink(missing_ok=True)

    def _in(self, session: Listed, text: FullText | None, finder: Callable[[str], list[Block]] | None) -> Iterator[Hit]:
        covered = text.covers(session) if text is not None and finder is not None else None
        start, seq = 0, 0
        said: Iterator[Spoken]
        if covered is not None and finder is not None and text is not None:
            try:
                blocks = finder(session.key)
            except FullTextLost as error:
                self._lost(text.path, error)
                text.covered.clear()
                covered = None
            else:
                yield from self._matching(session, self._of_blocks(session, blocks))
                start, seq = covered.offset, covered.seq
        left = session.record.identity.size - start
        if covered is None:
            self.read.sessions += 1
            if session.root not in self.missing:
                self.missing.append(session.root)
        if left > 0:
            self.read.bytes += left
            said = (one for one in self._rest(session, start) if one.seq >= seq)
            yield from self._matching(session, said)

    def _matching(self, session: Listed, said: Iterator[Spoken]) -> Iterator[Hit]:
        names: _Names | None = None
        for one in said:
            if not self._is_wanted(one):
                continue
            span = self._query.find(one.text)
            if span is None:
                continue
            if self._filters.tools:
                names = names or _Names(session)
                if not any(fnmatchcase(name, pattern) for name in names.of(one) for pattern in self._filters.tools):
                    continue
            yield Hit(session, one, span)

    def _is_wanted(self, said: Spoken) -> bool:
        filters = self._filters
        if filters.types and not any(fnmatchcase(said.type, pattern) for pattern in filters.types):
            return False
        if filters.tools and said.call_id is None and not said.tools:
            return False
        if filters.since_ms is not None and said.time < filters.since_ms:
            return False
        return filters.until_ms is None or said.time <= filters.until_ms

    def _of_blocks(self, session: Listed, blocks: Sequence[Block]) -> Iterator[Spoken]:
        """What the events of some blocks say, read from the log."""
        whole: list[Spoken] | None = None
        for block in blocks:
            if block.offset >= 0 and session.record.sound:
                try:
                    found = self._lines(session, block.offset, block.length)
                    yield from (one for one in list(found) if block.first <= one.seq <= block.last)
                    continue
                except LinesLost:
                    pass
                except OSError:
                    return
            if whole is None:
                whole = list(_whole(session))
            yield from (one for one in whole if block.first <= one.seq <= block.last)

    def _rest(self, session: Listed, start: int) -> Iterator[Spoken]:
        """What a log says from a byte on; a log whose lines are not its events is read whole."""
        if not session.record.sound:
            yield from _whole(session)
            return
        lines = self._lines(session, start, session.record.identity.size - start)
        try:
            # A frame may turn out to need the other reader after some of it was read: nothing is said twice.
            yield from list(lines) if session.record.compressed else lines
        except LinesLost:
            yield from _whole(session)
        except OSError:
            return

    def _lines(self, session: Listed, start: int, length: int) -> Iterator[Spoken]:
        plain = self._plain
        for piece in pieces(session.path, session.record.compressed, start, length):
            for line in piece.text.split(b"\n"):
                if line.startswith(SILENT) or not line:
                    continue
                if plain and line.isascii() and b"\\u" not in line and plain not in line.lower():
                    continue
                said = spoken(line)
                if said is not None:
                    yield said


def _whole(session: Listed) -> Iterator[Spoken]:
    from .whole import spoken_of

    try:
        yield from spoken_of(session.path)
    except OSError:
        return


class _Names:
    """Which tools the results of one session are of."""

    def __init__(self, session: Listed) -> None:
        self._session = session
        self._known: dict[tuple[int | None, int | None, str], str] | None = None

    def of(self, said: Spoken) -> tuple[str, ...]:
        """The tools that an event is about."""
        if said.tools or said.call_id is None:
            return said.tools
        if self._known is None:
            self._known = dict(self._calls())
        name = self._known.get((said.turn, said.step, said.call_id))
        return () if name is None else (name,)

    def _calls(self) -> Iterator[tuple[tuple[int | None, int | None, str], str]]:
        for said in self._all():
            if said.type == "tool/call" and said.tools and said.call_id is not None:
                yield (said.turn, said.step, said.call_id), said.tools[0]

    def _all(self) -> Iterator[Spoken]:
        session = self._session
        if not session.record.sound:
            yield from _whole(session)
            return
        try:
            for piece in pieces(session.path, session.record.compressed, 0, session.record.identity.size):
                for line in piece.text.split(b"\n"):
                    said = spoken(line) if b'"tool/call"' in line else None
                    if said is not None:
                        yield said
        except (LinesLost, OSError):
            yield from _whole(session)


def by_names(sessions: Sequence[Listed], names: Sequence[str]) -> list[Listed]:
    """The sessions that *names* mean: ids, beginnings of exactly one, paths. Raises ``LookupError`` with a sentence."""
    chosen: list[Listed] = []
    for name in names:
        found = _by_path(sessions, name) or _by_id(sessions, name)
        if not found:
            raise LookupError(f"no session {name!r}: it is neither a path nor the beginning of an id; turnlog ls lists "
                              "the sessions there are")  # fmt: skip
        if len(found) > 1:
            some = ", ".join(one.record.id for one in found[:5])
            raise LookupError(f"{name!r} matches {len(found)} sessions ({some}, …); give more of the id, or the path")
        chosen += [one for one in found if one not in chosen]
    return [one for one in sessions if one in chosen]


def _by_id(sessions: Sequence[Listed], name: str) -> list[Listed]:
    exact = [one for one in sessions if one.record.id == name]
    return exact or [one for one in sessions if name and one.record.id.startswith((name, f"session-{name}"))]


def _by_path(sessions: Sequence[Listed], name: str) -> list[Listed]:
    if not os.path.exists(name):
        return []
    real = os.path.realpath(name)
    return [one for one in sessions if real in (os.path.realpath(one.path), os.path.realpath(one.directory))]

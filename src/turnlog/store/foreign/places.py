"""The session files of other programs, in the places where those programs keep them.

```
<home>/.claude/projects/<project>/<uuid>.jsonl                      Claude Code ($CLAUDE_CONFIG_DIR instead of .claude)
<home>/.claude/projects/<project>/<uuid>/subagents/**/agent-<id>.jsonl   its sub-agents (older: beside the sessions)
<home>/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl         Codex ($CODEX_HOME instead of .codex)
<home>/.codex/archived_sessions/rollout-<time>-<id>.jsonl
```

Only the beginning of each file is read, and the end for a title that was given later. One bad file never hides the
others: it is listed with its problem.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import zstandard

from turnlog.events.lenient import parse

from ..frames import MAGIC
from .dialect import Kind, detect
from .moments import epoch_ms

_HEAD: Final = 128 << 10
"""Bytes of a file's beginning in which its id, directory, first time and first prompt are looked for."""
_TAIL: Final = 16 << 10
"""Bytes of its end in which later titles are."""
_TITLE: Final = 200
"""Characters of a first prompt that serve as a title."""
_WEIGHTS: Final = {"custom-title": 3, "ai-title": 2, "summary": 1}
"""What a title of Claude Code's counts; a summary may be of the session that this one goes on with."""
_SHORTEST: Final = 4
"""Characters that a beginning of an id has at least."""
_ROLLOUT: Final = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-")
"""What is before the id in the name of a Codex file."""
_ENDINGS: Final = (".jsonl", ".jsonl.zst", ".jsonl.zstd")


@dataclass(frozen=True)
class ForeignEntry:
    """One session file of another program."""

    path: Path
    kind: Kind
    """Whose it is, from its content; from its place where the content does not say."""
    id: str
    """The id that the program gave the session; the file's name where it says none."""
    title: str | None
    """The title that was given, or the beginning of the first prompt."""
    cwd: str | None
    """The working directory it says."""
    created_ms: int
    """Its first time, epoch ms; the file's own where it says none."""
    modified_ms: int
    """When the file was last written, epoch ms."""
    size: int
    """Bytes of the file."""
    parent: str | None = None
    """The session it works for or was forked from."""
    problem: str | None = None
    """Why it cannot be read, or None."""


def discover(home: Path | None = None) -> list[ForeignEntry]:
    """Every session file in the usual places under *home*, newest first.

    Without *home* it is the user's own, and ``CLAUDE_CONFIG_DIR`` and ``CODEX_HOME`` are heeded. A missing place holds
    none. Never raises for what is in the files.
    """
    found = [_entry(path, kind) for path, kind in _files(home)]
    return sorted(found, key=lambda entry: (-entry.created_ms, entry.id, str(entry.path)))


def find(text: str, home: Path | None = None) -> list[Path]:
    """The files in the usual places whose names hold the session id *text*, or its beginning: no file is opened, and
    fewer than four characters name none."""
    if len(text) < _SHORTEST:
        return []
    return [path for path, kind in _files(home) if _is_named(_stem(path), kind, text)]


def _is_named(stem: str, kind: Kind, text: str) -> bool:
    return (stem if kind == "claude-code" else _ROLLOUT.sub("", stem)).startswith(text)


def _files(home: Path | None) -> Iterator[tuple[Path, Kind]]:
    claude, codex = _roots(home)
    for root in claude:
        for project in _listed(root / "projects"):
            for path in _listed(project):
                if path.name.endswith(_ENDINGS):
                    yield path, "claude-code"
                else:
                    found = _under(path / "subagents", 4)
                    yield from ((one, "claude-code") for one in found if one.name.startswith("agent-"))
    for place, depth in (("sessions", 5), ("archived_sessions", 5)):
        yield from ((path, "codex") for path in _under(codex / place, depth))


def _roots(home: Path | None) -> tuple[list[Path], Path]:
    base = Path.home() if home is None else home
    claude = [base / ".claude", base / ".config" / "claude"]
    codex = base / ".codex"
    if home is None:
        told = os.environ.get("CLAUDE_CONFIG_DIR")
        claude = [Path(one) for one in told.split(",") if one] if told else claude
        codex = Path(os.environ.get("CODEX_HOME") or codex)
    return claude, codex


def _under(directory: Path, depth: int) -> Iterator[Path]:
    """Session files under a directory, not deeper than *depth*: a link in a circle ends there."""
    for path in _listed(directory):
        if path.name.endswith(_ENDINGS):
            yield path
        elif depth > 1:
            yield from _under(path, depth - 1)


def _listed(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:  # missing, a file, or not ours to look into
        return []


def _entry(path: Path, place: Kind) -> ForeignEntry:
    size = modified = 0
    try:
        status = path.stat()
        size, modified = status.st_size, status.st_mtime_ns // 1_000_000
        head, tail = _ends(path, size)
    except (OSError, zstandard.ZstdError) as error:
        why = f"cannot be opened: {getattr(error, 'strerror', None) or error}"
        return ForeignEntry(path, place, _stem(path), None, None, modified, modified, size, None, why)
    dialect = detect(head)
    problem = None
    if dialect is None:
        problem = "the file is empty" if not size else "its first records are of no program that is known here"
    look = _Look(dialect.kind if dialect is not None else place, _stem(path))
    for line in head.split(b"\n"):
        look.at(line)
    for line in tail.split(b"\n")[1:]:
        look.at_end(line)
    created = modified if look.created is None else look.created
    id = look.id or _stem(path)
    return ForeignEntry(path, look.kind, id, look.title, look.cwd, created, modified, size, look.parent, problem)


def _ends(path: Path, size: int) -> tuple[bytes, bytes]:
    """The beginning and the end of a file's text; a compressed file gives its beginning only."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
        if head[:4] == MAGIC:
            file.seek(0)
            with zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as text:
                return text.read(_HEAD), b""
        if size <= _HEAD:
            return head, b"\n" + head
        file.seek(max(size - _TAIL, 0))
        return head, file.read(_TAIL)


def _stem(path: Path) -> str:
    return path.name.split(".jsonl")[0]


class _Look:
    """What the records at a file's ends say about the session."""

    def __init__(self, kind: Kind, named: str) -> None:
        self.kind: Kind = kind
        self._named = named
        self.id = self.cwd = self.parent = None
        self.created: int | None = None
        self._prompt: str | None = None
        self._first_user: str | None = None  # what the model was told first may be context that nobody typed
        self._title: str | None = None
        self._weight = 0
        self._done = False

    id: str | None
    cwd: str | None
    parent: str | None

    @property
    def title(self) -> str | None:
        """The title that was given last, or else the first prompt, or else the first message in the user role."""
        return self._title or self._prompt or self._first_user

    def at(self, line: bytes) -> None:
        """Take in a line of the beginning."""
        if self._done or not line.strip():
            return
        value = _object(line)
        if value is None:
            return
        if self.created is None:
            self.created = epoch_ms(value.get("timestamp", value.get("created_at")))
        if self.kind == "codex":
            self._codex(value)
        elif self.kind == "claude-code":
            self._claude(value)
        else:
            self._chat(value)
        own = self.kind != "claude-code" or self.id in (self._named, None) or self.parent is not None
        self._done = bool(own and self.id and self.cwd and self._prompt and self.created)

    def at_end(self, line: bytes) -> None:
        """Take in a line of the end, where only titles count."""
        if b"itle" not in line and b'"summary"' not in line and b"thread_name" not in line:
            return
        value = _object(line)
        if value is not None:
            self._entitle(value)

    def _entitle(self, value: Mapping[str, Any]) -> None:
        """A title that a person gave counts more than one that a program made, and a later one more than an earlier."""
        title, weight = title_of(value), _WEIGHTS.get(str(value.get("type")), 0)
        if title is not None and weight >= self._weight:
            self._title, self._weight = title, weight

    def _claude(self, value: Mapping[str, Any]) -> None:
        agent = value.get("agentId") if value.get("isSidechain") is True else None
        session = _text(value.get("sessionId"))
        if self.id is None and session:
            self.id, self.parent = (f"agent-{agent}", session) if isinstance(agent, str) else (session, None)
        elif session == self._named and session != self.id and not isinstance(agent, str):
            self.id, self.parent = session, self.id  # it begins with copies of the session that it goes on with
        origin = value.get("forkedFrom")
        if self.parent is None and isinstance(origin, dict):
            self.parent = _text(origin.get("sessionId"))
        self.cwd = self.cwd or _text(value.get("cwd"))
        self._entitle(value)
        if value.get("type") == "user" and value.get("isMeta") is not True and self._prompt is None:
            message = value.get("message")
            self._prompt = _first_words(message.get("content")) if isinstance(message, dict) else None

    def _codex(self, value: Mapping[str, Any]) -> None:
        payload = value.get("payload")
        said = payload if isinstance(payload, dict) else value
        if value.get("type") == "session_meta" or ("type" not in value and "id" in value):
            if self.id is None:
                self.id = _text(said.get("id")) or _text(said.get("session_id"))
                self.cwd = _text(said.get("cwd"))
                self.parent = _text(said.get("forked_from_id")) or spawned_by(said)
                self.created = epoch_ms(said.get("timestamp")) or self.created
        elif value.get("type") == "turn_context":
            self.cwd = self.cwd or _text(said.get("cwd"))
        elif said.get("type") == "user_message":
            self._prompt = self._prompt or _first_words(said.get("message"))
        elif said.get("role") == "user" and self._first_user is None:
            words = _first_words(said.get("content"))
            self._first_user = None if words is None or words.startswith(("<", "#")) else words

    def _chat(self, value: Mapping[str, Any]) -> None:
        messages = value.get("messages")
        for message in messages if isinstance(messages, list) else [value]:
            if isinstance(message, dict) and message.get("role") == "user" and self._prompt is None:
                self._prompt = _first_words(message.get("content"))


def title_of(value: Mapping[str, Any]) -> str | None:
    """The title that a record gives its session, or None."""
    payload = value.get("payload")
    for said in (value, payload if isinstance(payload, dict) else {}):
        match said.get("type"):
            case "custom-title":
                return _text(said.get("customTitle"))
            case "ai-title":
                return _text(said.get("aiTitle"))
            case "summary":
                return _text(said.get("summary"))
            case "thread_name_updated":
                return _text(said.get("thread_name")) or _text(said.get("name"))
    return None


def spawned_by(meta: Mapping[str, Any]) -> str | None:
    """The session that started this one as its sub-agent, as Codex' first record says."""
    source = meta.get("source")
    agent = source.get("subagent") if isinstance(source, dict) else None
    spawn = agent.get("thread_spawn") if isinstance(agent, dict) else None
    return _text(spawn.get("parent_thread_id")) if isinstance(spawn, dict) else _text(meta.get("parent_thread_id"))


def _first_words(content: Any) -> str | None:
    """The beginning of a message, on one line."""
    if isinstance(content, list):
        texts = [one.get("text") for one in content if isinstance(one, dict)]
        content = next((one for one in texts if isinstance(one, str) and one.strip()), None)
    return " ".join(content[: 4 * _TITLE].split())[:_TITLE] or None if isinstance(content, str) else None


def _object(line: bytes) -> Mapping[str, Any] | None:
    try:
        value = parse(line.strip())
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None

"""`Cassette`: a session recorded once against a real model, and played back after.

The file is an ordinary log: ``turnlog show`` reads it, and what is in it is what the model said. While it is recorded
the model is real; afterwards `turnlog.model.RecordedModel` answers from it, as long as it is asked what was asked then.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

from turnlog.events import StreamChunk
from turnlog.log import Session
from turnlog.model import Diverged, Model, ModelInfo, RecordedModel, Request, open_model
from turnlog.store.header import header_line
from turnlog.store.load import load


class Cassette:
    """One recording. Made by the pytest fixture ``cassette``, or by hand with a path."""

    def __init__(self, path: Path, *, recording: bool, remedy: str = "record it anew") -> None:
        """*recording*: ask the real model and, in :meth:`save`, write what it said to *path*."""
        self.path: Final = path
        self.recording: Final = recording
        self._remedy = remedy
        self._session: Session | None = None
        self._played: RecordedModel | None = None

    @property
    def session(self) -> Session:
        """The session to record: a new one, unless :meth:`keep` gave another."""
        if self._session is None:
            self._session = Session(self.path.stem)
        return self._session

    def keep(self, session: Session) -> Session:
        """Record *session* instead of a new one; gives it back."""
        self._session = session
        return session

    def model(self, model: str | Model, **options: Any) -> Model:
        """The model itself while recording, its recorded answers afterwards; call it once.

        *model* is a name for `turnlog.model.open_model`, which gets the *options*, or any model. No key is needed and
        nothing is sent when it is played back.
        """
        real = open_model(model, **options) if isinstance(model, str) else model
        if self.recording:
            return real
        if self._played is not None:
            raise RuntimeError(f"{self.path} is played already; use one model for the whole session")
        self._played = RecordedModel(load(self.path))
        return _Played(self._played, real.info)

    def check(self) -> None:
        """Raise unless what was recorded was asked for: all of it, and nothing else."""
        if self._played is None:
            return
        try:
            self._played.assert_done()
        except Diverged as error:
            error.add_note(f"{self.path} answers another conversation; {self._remedy}")
            raise

    def save(self) -> None:
        """Write the recorded session to its file, whole or not at all. Without events there is nothing to write."""
        if not self.recording or self._session is None or not len(self._session):
            return
        lines = [header_line(self._session.header), *(event.line() for event in self._session.events)]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_suffix(f".{os.getpid()}.tmp")
        unfinished.write_bytes(b"".join(line + b"\n" for line in lines))
        unfinished.replace(self.path)


class _Played:
    """The recording under the name and limits of the model it was made with."""

    def __init__(self, recorded: RecordedModel, info: ModelInfo) -> None:
        self._recorded = recorded
        self._info = info

    @property
    def info(self) -> ModelInfo:
        return self._info

    def stream(self, request: Request) -> AsyncGenerator[StreamChunk, None]:
        return self._recorded.stream(request)

    async def aclose(self) -> None:
        await self._recorded.aclose()

"""The pager: long output on a terminal, one screen at a time, as git does it."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
from typing import TextIO


class Pager:
    """A running pager; write to :attr:`stream`, then :meth:`close` waits until the person is done."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        self._process = process
        self.stream: TextIO = io.TextIOWrapper(process.stdin, encoding="utf-8", errors="backslashreplace")

    @classmethod
    def start(cls) -> Pager | None:
        """Start ``$TURNLOG_PAGER``, ``$PAGER`` or less; None when there is none or none is wanted (``cat``)."""
        command = shlex.split(os.environ.get("TURNLOG_PAGER", os.environ.get("PAGER", "less")))
        if not command or command == ["cat"] or os.environ.get("TERM") == "dumb":
            return None
        environment = {"LESS": "FRX", "LESSCHARSET": "utf-8", **os.environ}
        try:
            return cls(subprocess.Popen(command, stdin=subprocess.PIPE, env=environment))
        except OSError:
            return None

    def close(self) -> None:
        """Everything is written: wait until the person leaves the pager. Ctrl-C belongs to the pager meanwhile."""
        try:
            self.stream.close()
        except OSError:
            pass  # the person left before the end
        while True:
            try:
                self._process.wait()
                return
            except KeyboardInterrupt:
                continue

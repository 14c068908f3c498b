"""`Screen`: the one way to the terminal. stdout is data only; hints and warnings go to stderr.

Every text passes through :func:`~turnlog.cli.text.visible` here, so no command can forget it.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TextIO, TypeAlias

from .pager import Pager
from .text import clip, visible, visible_json

if TYPE_CHECKING:
    from .moments import Clock

ColorChoice: TypeAlias = Literal["auto", "always", "never"]
Style: TypeAlias = Literal["bold", "dim", "red", "green", "yellow", "cyan"]

NOTHING: Final = 1
USAGE: Final = 2
UNREADABLE: Final = 3
PARTLY: Final = 4

_CODES: Final[Mapping[Style, str]] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_GONE: Final = frozenset({errno.EPIPE, errno.EIO, errno.ENXIO, errno.ECONNRESET})


class OutputGone(Exception):
    """Whoever read our output went away; there is nobody left to tell."""


class OutputFailed(Exception):
    """The output cannot be written (a full disk)."""


class Styled(NamedTuple):
    """Text with a style, which shows on terminals only."""

    text: str
    style: Style


class Screen:
    """Where a command prints, and the exit code it comes to."""

    def __init__(self, clock: Clock, color: ColorChoice = "auto", *, pager: bool = False) -> None:
        self.clock = clock
        """How moments are shown, and what typed ones mean."""
        self._out: TextIO = sys.stdout if sys.stdout is not None else open(os.devnull, "w")  # noqa: SIM115
        self._err: TextIO = sys.stderr if sys.stderr is not None else open(os.devnull, "w")  # noqa: SIM115
        if isinstance(self._out, io.TextIOWrapper):
            self._out.reconfigure(errors="backslashreplace")
        self._may_page = pager and self._out.isatty()
        self._pager: Pager | None = None
        self._held: list[str] = []
        self.code = 0
        """Exit code so far."""
        self.terminal = self._out.isatty()
        """Whether a person reads along."""
        self.colored = _colored(color, self.terminal)
        columns = os.environ.get("COLUMNS", "")
        self.width = int(columns) if columns.isdigit() and int(columns) > 0 else _terminal_width(self.terminal)
        """Columns there are; None where lines may be as long as they like."""

    # -- data ---------------------------------------------------------------------------------------------------

    def row(self, *parts: str | Styled) -> None:
        """Print one line of a list: on a terminal it is cut at the edge."""
        self._write(self._fitted(parts, self.width if self.terminal else None) + "\n")

    def line(self, *parts: str | Styled) -> None:
        """Print one line, however long it is."""
        self._write(self._fitted(parts, None) + "\n")

    def write(self, text: str, style: Style | None = None) -> None:
        """Print running text: its newlines and tabs stay."""
        self._write(self._styled(Styled(visible(text, lines=True), style)) if style else visible(text, lines=True))

    def json(self, value: object) -> None:
        """Print one JSON document on one line."""
        self.json_lines((dump_json(value),))

    def json_lines(self, lines: Iterable[bytes]) -> None:
        """Print JSON documents, one per line, byte for byte.

        On terminals hidden characters are escaped. Bytes that are no UTF-8 (in damaged logs) become U+FFFD: JSON
        readers would refuse all of it.
        """
        if self.terminal:
            for line in lines:
                self._write(visible_json(line.decode(errors="replace")) + "\n")
            return
        buffer = getattr(self._out, "buffer", None)
        if buffer is None:
            for line in lines:
                self._write(line.decode(errors="replace") + "\n")
            return
        self.flush()
        for line in lines:
            self._guard(buffer.write, _utf8(line) + b"\n")

    def flush(self) -> None:
        """Hand over what is buffered."""
        self._guard(self._out.flush)

    # -- beside the data ----------------------------------------------------------------------------------------

    def hint(self, text: str) -> None:
        """Say something that is not data."""
        self._beside(f"turnlog: {visible(text)}")

    def aside(self, text: str) -> None:
        """One more line of what was just said."""
        self._beside(f"  {visible(text)}")

    def partly(self, text: str) -> None:
        """Warn that the data is not all there is; the exit code becomes 4."""
        self.code = PARTLY
        self.hint(text)

    def nothing(self, text: str) -> None:
        """Say that nothing was found; the exit code becomes 1."""
        self.code = self.code or NOTHING
        self.hint(text)

    # -- inside -------------------------------------------------------------------------------------------------

    def _beside(self, line: str) -> None:
        if self._pager is not None:
            self._held.append(line)
            return
        self.flush()
        try:
            self._err.write(f"{line}\n")
            self._err.flush()
        except (OSError, ValueError):
            pass  # nobody listens; the exit code still tells

    def _fitted(self, parts: tuple[str | Styled, ...], room: int | None) -> str:
        shown: list[str] = []
        for part in parts:
            text = clip(visible(part if isinstance(part, str) else part.text), room)
            shown.append(text if isinstance(part, str) else self._styled(Styled(text, part.style)))
            if room is not None:
                room = max(room - _columns(text), 0)
        return "".join(shown)

    def _styled(self, styled: Styled) -> str:
        return f"\x1b[{_CODES[styled.style]}m{styled.text}\x1b[0m" if self.colored and styled.text else styled.text

    def _write(self, text: str) -> None:
        if self._may_page:
            self._may_page = False
            self._pager = Pager.start()
            self._out = self._out if self._pager is None else self._pager.stream
        self._guard(self._out.write, text)

    def _guard(self, do: Any, *arguments: object) -> None:
        try:
            do(*arguments)
        except OSError as error:
            if error.errno in _GONE:
                raise OutputGone from None
            raise OutputFailed(error.strerror or str(error)) from None

    def unpaged(self) -> None:
        """This command shows things as they come."""
        self._may_page = False

    @property
    def paged(self) -> bool:
        """Whether a pager shows the data; whoever leaves it early has seen enough."""
        return self._pager is not None

    def close(self) -> None:
        """The command is over: wait for the pager, then say what was held back for it."""
        if self._pager is None:
            self.flush()
            return
        self._pager.close()
        self._pager, held, self._out = None, self._held, sys.stdout
        for text in held:
            self._beside(text)

    def give_up(self) -> None:
        """Let what is still buffered go nowhere, so that the interpreter does not complain about it at exit."""
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._out.fileno())
            os.close(null)
        except (OSError, ValueError):
            pass  # not a real file: nothing is flushed at exit


def dump_json(value: object) -> bytes:
    """Compact UTF-8 JSON of plain, typed or raw values; halves of broken pairs are escaped."""
    from turnlog.events.lossless import encoder

    try:
        return encoder.encode(value)
    except UnicodeEncodeError:
        return encoder.encode(_escaped(value))


def _utf8(line: bytes) -> bytes:
    if line.isascii():
        return line
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode(errors="replace").encode()
    return line


def _escaped(value: Any) -> Any:
    from msgspec import Raw, Struct, to_builtins

    from turnlog.events.lossless import dump, encode_hook

    if isinstance(value, str):
        return Raw(dump(value))
    if isinstance(value, Raw):
        return value
    if isinstance(value, Struct):
        return _escaped(to_builtins(value, enc_hook=encode_hook))
    if isinstance(value, Mapping):
        return {key: _escaped(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(member) for member in value]
    return value


def _colored(color: ColorChoice, terminal: bool) -> bool:
    if color != "auto":
        return color == "always"
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _terminal_width(terminal: bool) -> int | None:
    return shutil.get_terminal_size().columns if terminal else None


def _columns(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)

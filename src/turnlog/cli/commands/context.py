"""``turnlog context``"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Raw

from turnlog.events.lossless import dump, plain
from turnlog.log import Projector
from turnlog.views.context import Context, context
from turnlog.views.context_diff import (
    Break,
    ContextDiff,
    HeaderChange,
    Row,
    Shown,
    diff_contexts,
    diff_projection,
    shown,
)
from turnlog.views.wire import body

from ..json_views import document
from ..opening import Which, open_session
from ..problems import WrongUsage
from ..screen import Screen, Style, Styled

_STYLES: Final[dict[str, Style]] = {"=": "dim", "+": "green", "-": "red", "~": "yellow"}
_SAID: Final = {
    "confirmed": "confirmed: the hash kept when it left is the hash of this",
    "contradicted": "contradicted: the hash kept when it left is another one; turnlog verify says more",
    "unattested": "nothing is attested about this request",
}


def show_context(
    screen: Screen,
    which: Which,
    step: str,
    *,
    against: str | None,
    projector: str | None,
    wire: bool,
    as_json: bool,
) -> None:
    """Print a request, or what differs from another."""
    if sum((against is not None, projector is not None, wire)) > 1:
        raise WrongUsage("give one of --diff, --projector and --wire")
    found = context(open_session(screen, which), step)
    if wire:
        _print_wire(screen, found)
    elif against is not None:
        base = context(found.session, against)
        show_diff(screen, diff_contexts(base, found), as_json=as_json)
    elif projector is not None:
        rows = diff_projection(found, load_projector(projector))
        if as_json:
            screen.json(document(address=found.address, at=found.at, projector=projector, messages=rows_view(rows)))
        else:
            print_rows(screen, rows)
    elif as_json:
        screen.json(document(**_view(found)))
    else:
        _print(screen, found)


def load_projector(name: str) -> Projector[Any] | Callable[..., Any]:
    """The projector that ``module:name`` names. Raises :class:`WrongUsage`."""
    module, colon, member = name.partition(":")
    if not (module and colon and member):
        raise WrongUsage(f"--projector {name}: expected MODULE:NAME")
    sys.path.insert(0, "")
    try:
        found = importlib.import_module(module)
        for part in member.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise WrongUsage(f"--projector {name}: {error}") from None
    finally:
        sys.path.remove("")
    if not isinstance(found, Projector) and not callable(found):
        raise WrongUsage(f"--projector {name}: it is neither a Projector nor a function")
    return found


# -- one request ----------------------------------------------------------------------------------------------------


def _print_wire(screen: Screen, found: Context) -> None:
    sent = body(found)
    if sent is not None:
        screen.json_lines((sent.body,))
    else:
        provider = "nobody knows" if found.header is None else found.header.config.provider
        screen.nothing(f"what {provider} got is not known; turnlog knows the protocols of anthropic, deepseek, openai")


def _print(screen: Screen, found: Context) -> None:
    screen.line(Styled(found.address, "bold"), f"  the request of session {found.session.id} after {found.at} events")
    header = found.header
    if header is None:
        screen.line("  header     no request header was logged before it")
    else:
        config: dict[str, Any] = plain(header.config)
        rest = "".join(f"  {name}={value}" for name, value in config.items() if name not in ("provider", "model"))
        screen.line("  model      ", f"{header.config.provider}/{header.config.model}{rest}")
        system = header.system or ""
        length = _bytes(len(system.encode(errors="surrogatepass")))
        screen.line("  system     ", f"{length}  {_short(system)}" if system else "none")
        tools = header.tools or ()
        names = ", ".join(tool.name for tool in tools)
        screen.line("  tools      ", f"{_bytes(sum(len(dump(tool)) for tool in tools))}  {names}" if tools else "none")
    screen.line("  messages   ", f"{len(found.events)}, {_bytes(found.size)}")
    for one in shown(found.events):
        _message(screen, one, " ")
    sent = body(found)
    if sent is not None:
        screen.line("  wire       ", f"{_bytes(len(sent.body))} to {sent.provider}; fix-ups: {_fixups(sent.fixups)}")
    style: Style = "red" if found.confirmation == "contradicted" else "dim"
    screen.line("  proof      ", Styled(_SAID[found.confirmation], style))


def _view(found: Context) -> dict[str, Any]:
    sent = body(found)
    wire = None if sent is None else {"provider": sent.provider, "fixups": sent.fixups, "body": Raw(sent.body)}
    return {
        "session": found.session.id,
        "address": found.address,
        "at": found.at,
        "headerSeq": found.header_seq,
        "header": None if found.header is None else plain(found.header),
        "messages": [{"seq": event.seq, "message": Raw(event.message_json)} for event in found.events],
        "proof": {
            "state": found.confirmation,
            "seq": None if found.told is None else found.told.seq,
            "chain": None if found.told is None else found.told.chain,
        },
        "wire": wire,
    }


# -- two of them ----------------------------------------------------------------------------------------------------


def show_diff(screen: Screen, found: ContextDiff, *, as_json: bool) -> None:
    """Print what differs between two requests."""
    if as_json:
        screen.json(document(**diff_view(found)))
        return
    left, right = found.left, found.right
    screen.line(Styled(f"{left.address} → {right.address}", "bold"), f"  @{left.at} → @{right.at}")
    print_header(screen, found.header)
    print_rows(screen, found.rows)
    if left.session is right.session:
        _print_break(screen, found.broken)


def print_header(screen: Screen, changes: Sequence[HeaderChange]) -> None:
    """Print the members of the header that differ."""
    for one in changes:
        screen.row("  ", Styled("~ header ", "yellow"), f" {one.path}: {_value(one.left)} → {_value(one.right)}")


def print_rows(screen: Screen, rows: Sequence[Row]) -> None:
    """Print messages with their marks; what both have in one line for a run of it."""
    run: list[Row] = []
    for row in rows:
        if row.mark == "=":
            run.append(row)
            continue
        _print_run(screen, run)
        run = []
        _print_row(screen, row)
    _print_run(screen, run)


def _print_run(screen: Screen, run: Sequence[Row]) -> None:
    if not run:
        return
    if len(run) == 1:
        _message(screen, run[0].right[0], "=")
        return
    seqs = f"@{run[0].right[0].seq} … @{run[-1].right[0].seq}"
    size = sum(row.right_size for row in run)
    screen.row("  ", Styled(f"= {len(run)} messages", "dim"), f"  {_bytes(size)}  {seqs}")


def _print_row(screen: Screen, row: Row) -> None:
    if row.mark == "~":
        was = ", ".join(f"@{one.seq}" for one in row.left)
        size = f"{_bytes(row.left_size)} → {_bytes(row.right_size)}"
        one = row.right[0]
        screen.row("  ", Styled("~", "yellow"), f" @{one.seq} {one.role}  {size}, instead of {was}  {_text(one)}")
    else:
        _message(screen, (row.left or row.right)[0], row.mark)


def _message(screen: Screen, one: Shown, mark: str) -> None:
    start = Styled(mark, _STYLES.get(mark, "dim"))
    screen.row("  ", start, f" @{one.seq} ", Styled(one.role, "bold"), f"  {_bytes(one.size)}  {_text(one)}")


def _print_break(screen: Screen, broken: Break | None) -> None:
    if broken is None:
        screen.line("  cache      ", Styled("kept: the prompt goes on where it ended", "green"))
        return
    where = "" if broken.event is None else f" (@{broken.event.seq})"
    screen.line("  cache      ", Styled(f"broke at byte {broken.offset} of the prompt, in its {broken.part}", "red"),
                f": {broken.why}{where}; {_bytes(broken.lost)} of it were lost")  # fmt: skip


def diff_view(found: ContextDiff) -> dict[str, Any]:
    """As JSON."""
    broken = found.broken
    return {
        "left": {"session": found.left.session.id, "address": found.left.address, "at": found.left.at},
        "right": {"session": found.right.session.id, "address": found.right.address, "at": found.right.at},
        "same": found.same,
        "header": header_view(found.header),
        "messages": rows_view(found.rows),
        "cache": None
        if broken is None
        else {
            "offset": broken.offset,
            "keptBytes": broken.kept,
            "lostBytes": broken.lost,
            "part": broken.part,
            "seq": None if broken.event is None else broken.event.seq,
            "type": None if broken.event is None else broken.event.type,
            "why": broken.why,
        },
    }


def header_view(changes: Sequence[HeaderChange]) -> list[dict[str, Any]]:
    """Changes of the header as JSON."""
    return [{"path": one.path, "left": one.left, "right": one.right} for one in changes]


def rows_view(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Marked messages as JSON."""
    return [
        {
            "mark": row.mark,
            "left": [{"seq": one.seq, "role": one.role, "bytes": one.size} for one in row.left],
            "right": [{"seq": one.seq, "role": one.role, "bytes": one.size} for one in row.right],
        }
        for row in rows
    ]


# -- words ----------------------------------------------------------------------------------------------------------


def _fixups(applied: Any) -> str:
    return ", ".join(f"{name} ×{number}" for name, number in applied.items()) or "none had to change anything"


def _text(one: Shown) -> str:
    said = one.json.get("content") if isinstance(one.json, dict) else one.json
    if not isinstance(said, list):
        return _short(said if isinstance(said, str) else dump(said).decode())
    return _short(" ".join(map(_block, said)))


def _block(block: Any) -> str:
    match block:
        case {"type": "text" | "reasoning", "text": str(text)}:
            return text
        case {"type": "tool-call", "name": name, "arguments": arguments}:
            return f"{name}({arguments})"
        case {"type": "tool-result", "content": list(content)}:
            return "→ " + " ".join(map(_block, content))
        case {"type": kind}:
            return f"[{kind}]"
        case _:
            return dump(block).decode()


def _value(value: Any) -> str:
    return "nothing" if value is None else _short(value if isinstance(value, str) else dump(value).decode(), 60)


def _short(text: str, length: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"


def _bytes(number: int) -> str:
    return f"{number} bytes"

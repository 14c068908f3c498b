"""``turnlog trace``"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from turnlog.views.trace import Link, Request, Seen, Trace
from turnlog.views.trace import trace as trace_of

from .. import describe
from ..json_views import chunk_view, document
from ..opening import Which, open_session
from ..places import address_of
from ..screen import Screen, Styled
from ..text import rfc3339

Direction = Literal["back", "forward", "both"]

_BACK = {"cites": "cites", "replaces": "took the place of", "stream": "assembled from", "call": "answers",
         "asked": "asked for by"}  # fmt: skip
_FORWARD = {"cites": "cites", "replaces": "took the place of", "stream": "assembled from", "call": "answers",
            "asked": "asked for by"}  # fmt: skip


def trace(screen: Screen, which: Which, address: str, direction: Direction, *, as_json: bool) -> None:
    """Print what something rests on and what came of it."""
    named = address_of(address)
    session = open_session(screen, which)
    found = trace_of(session, named, direction=direction)
    if as_json:
        screen.json(document(**_view(str(named), found, direction)))
        return
    event = found.event
    screen.line(Styled(f"@{event.seq}", "cyan"), "  ", Styled(describe.anything(event), "bold"))
    if direction != "forward":
        _print_tokens(screen, found)
        _print_back(screen, found)
    if direction != "back":
        _print_forward(screen, found)


def _print_tokens(screen: Screen, found: Trace) -> None:
    if not found.tokens:
        return
    mark = " (inferred)" if found.tokens_inferred else ""
    screen.line(f"  tokens{mark}")
    before = found.tokens[0].time
    for timed in found.tokens:
        gap = f"+{timed.time - before} ms" if timed.time >= before else f"-{before - timed.time} ms"
        before = timed.time
        screen.line("    ", Styled(f"{timed.address:10}", "cyan"),
                    f"  {screen.clock.show(timed.time)}  {gap:>9}  {describe.chunk(timed.chunk)}")  # fmt: skip


def _print_back(screen: Screen, found: Trace) -> None:
    screen.line("  rests on", "" if found.back or found.requests else "  nothing that the log states")
    _print_links(screen, found, found.back, _BACK)
    for request in found.requests[-_MOST:]:
        screen.line("    ", Styled(request.address, "cyan"), f"  {_request(request)}", _INFERRED)
    if len(found.requests) > _MOST:
        screen.line(f"    and {len(found.requests) - _MOST} earlier requests")
    if found.unknown:
        screen.line(f"  sources unknown  {_seqs(found.unknown)}")
    if found.missing:
        screen.line(f"  not in the log   {_seqs(found.missing)}")


def _print_forward(screen: Screen, found: Trace) -> None:
    screen.line("  led to", "" if found.forward or found.seen else "  nothing that the log states")
    _print_links(screen, found, found.forward, _FORWARD)
    for seen in found.seen:
        first, last = seen.addresses
        told = first if first == last else f"{first} to {last} ({seen.number} requests)"
        screen.line("    ", Styled(told, "cyan"), "  sent to the model", _INFERRED)


_INFERRED = Styled("  inferred", "yellow")
_MOST = 20
"""How many requests and seqs are listed."""


def _print_links(screen: Screen, found: Trace, links: Sequence[Link], words: dict[str, str]) -> None:
    for link in links:
        seqs = f"@{link.first}" if link.size == 1 else f"@{link.first} to @{link.last} ({link.size})"
        tied = f"  ({words[link.kind]} @{link.by})" if words is _FORWARD else f"  (@{link.by} {words[link.kind]})"
        screen.line("    " + "  " * (link.depth - 1), Styled(seqs, "cyan"), f"  {_told(found, link)}{tied}",
                    _INFERRED if link.inferred else "")  # fmt: skip


def _told(found: Trace, link: Link) -> str:
    return describe.anything(found.session.event(link.first)) if link.size == 1 else link.type


def _request(request: Request) -> str:
    messages = request.messages
    prompt = "" if request.prompt is None else f", the last prompt is @{request.prompt}"
    header = "" if request.header is None else f", header @{request.header}"
    return f"was sent {len(messages)} message{'s' if len(messages) != 1 else ''} ({_seqs(messages)}){prompt}{header}"


def _seqs(seqs: Sequence[int]) -> str:
    told = ", ".join(f"@{seq}" for seq in seqs[:_MOST])
    return told + (f" and {len(seqs) - _MOST} more" if len(seqs) > _MOST else "")


# -- JSON -----------------------------------------------------------------------------------------------------------


def _view(address: str, found: Trace, direction: Direction) -> dict[str, Any]:
    event = found.event
    view: dict[str, Any] = {
        "address": address,
        "seq": event.seq,
        "type": event.type,
        "loggedAt": rfc3339(event.time),
        "chunk": None if found.chunk is None else chunk_view(found.chunk),
        "sources": found.sources,
    }
    if direction != "forward":
        view |= {
            "tokens": [chunk_view(timed) for timed in found.tokens],
            "tokensInferred": found.tokens_inferred,
            "back": [_link(link) for link in found.back],
            "requests": [_request_view(request) for request in found.requests],
            "unknown": found.unknown,
            "missing": found.missing,
        }
    if direction != "back":
        view |= {"forward": [_link(link) for link in found.forward], "seen": [_seen(seen) for seen in found.seen]}
    return view


def _link(link: Link) -> dict[str, Any]:
    return {
        "firstSeq": link.first,
        "lastSeq": link.last,
        "type": link.type,
        "kind": link.kind,
        "inferred": link.inferred,
        "depth": link.depth,
        "by": link.by,
    }


def _request_view(request: Request) -> dict[str, Any]:
    """A request; its messages only where it is the nearest, for they are what ``turnlog messages --before`` prints."""
    view = {"address": request.address, "at": request.at, "header": request.header, "prompt": request.prompt,
            "depth": request.depth, "inferred": True}  # fmt: skip
    return {**view, "messages": request.messages} if request.depth <= 1 else view


def _seen(seen: Seen) -> dict[str, Any]:
    first, last = seen.addresses
    return {"first": first, "last": last, "requests": seen.number, "inferred": True}

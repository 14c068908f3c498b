"""``turnlog sources``"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from msgspec import UNSET

from turnlog.views import queries
from turnlog.views.foreign import origin_text, origin_view
from turnlog.views.provenance import Provenance

from .. import describe
from ..json_views import document, provenance_view
from ..opening import Which, open_session
from ..places import address_of
from ..screen import Screen, Styled

_MOST = 20
"""How many runs of seqs a line lists."""


def sources(screen: Screen, which: Which, address: str, *, as_json: bool) -> None:
    """Print where something comes from and where it went."""
    named = address_of(address)
    session = open_session(screen, which)
    found = queries.sources(session, named)
    if as_json:
        origin = origin_view(session, found.event.seq)
        where = {} if origin is None else {"origin": origin}
        screen.json(document(**provenance_view(str(named), found), **where))
        return
    event = found.event
    if found.chunk is not None:
        screen.line(Styled(found.chunk.address, "cyan"), "  ", Styled(describe.chunk(found.chunk.chunk), "bold"))
    if found.chunk is None or found.chunk.k is not None:
        inside = "" if found.chunk is None else "  inside       "
        screen.line(inside, Styled(f"@{event.seq}", "cyan"), "  ", Styled(describe.anything(event), "bold"))
    told = origin_text(session, event.seq)
    if told is not None:
        screen.line("  from         ", told)
    screen.line("  sources      ", _cited(found))
    for one in found.back:
        seqs = f"@{one.first}" if one.first == one.last else f"@{one.first} to @{one.last} ({one.last - one.first + 1})"
        screen.line("  " + "  " * one.depth, Styled(seqs, "cyan"), f"  {one.type}")
    screen.line("  cited by     ", _runs(found.cited_by) or "nothing")
    if found.replaces:
        screen.line("  replaces     ", _runs(found.replaces))
    if found.replaced_by:
        screen.line("  replaced by  ", ", then ".join(f"@{seq}" for seq in found.replaced_by))


def _cited(found: Provenance) -> str:
    event = found.event
    if found.sources:
        return _runs(found.sources)
    if found.sources is not None:
        return "none: its list of sources is empty"
    if found.stream:
        return f"not listed: its stream is inside it, @{event.seq}/0 to @{event.seq}/{found.stream - 1}"
    return "a log-only event cites nothing" if event.surface_op is UNSET else "unknown: the log does not say"


def _runs(seqs: Sequence[int]) -> str:
    """``@3 to @7, @9``"""
    runs = [list(run) for _offset, run in groupby(sorted(seqs), key=_Offset())]
    told = [f"@{run[0]}" if len(run) == 1 else f"@{run[0]} to @{run[-1]}" for run in runs[:_MOST]]
    return ", ".join(told) + (f" and {len(runs) - _MOST} more" if len(runs) > _MOST else "")


class _Offset:
    """Groups consecutive numbers: each minus its place."""

    def __init__(self) -> None:
        self._place = 0

    def __call__(self, seq: int) -> int:
        self._place += 1
        return seq - self._place

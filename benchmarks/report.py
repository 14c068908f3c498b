"""Rows of the report: what was asked, what was reached."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Row:
    """One line of the report."""

    case: str
    asked: str
    reached: str
    met: bool | None
    """None where there is nothing to compare with."""


def at_least(case: str, asked: float, reached: float) -> Row:
    """A figure that has to be high."""
    return Row(case, f"≥ {asked:,.0f}", f"{reached:,.0f}", reached >= asked)


def at_most(case: str, asked: float, reached: float) -> Row:
    """A figure that has to be low."""
    return Row(case, f"≤ {asked:g}", f"{reached:.3g}", reached <= asked)


def times(case: str, asked: float | None, ours: float, theirs: float | None, of: str) -> Row:
    """A rate against that of a named peer (None: the peer is not here); *asked* None is only shown."""
    wanted = "" if asked is None else f"≥ {asked:g}× {of}"
    if theirs is None:
        return Row(f"{case}: {ours:,.0f}/s", wanted, f"no {of} here", None)
    named = f"{case}: ours {ours:,.0f}, {of} {theirs:,.0f} /s"
    met = None if asked is None else ours >= asked * theirs
    return Row(named, wanted, f"{ours / theirs:.2f}×", met)

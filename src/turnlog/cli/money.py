"""Costs and shares as people read them; JSON has its own words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnlog.views.prices import Cost, PriceTable
    from turnlog.views.usage import Tally

    from .screen import Screen

UNKNOWN = "-"


def known_prices(screen: Screen) -> PriceTable:
    """The prices for this directory; those that come with Turnlog, and a word about it, where the user's cannot be
    read: what the command is about does not depend on them."""
    from turnlog.views.prices import PricesInvalid, PriceTable

    try:
        return PriceTable.load(workspace=Path.cwd())
    except (PricesInvalid, OSError) as error:
        screen.hint(f"{error}; costs are by the prices that come with turnlog")
        return PriceTable.builtin()


def dollars(micro: int) -> str:
    """Micro-dollars with as many decimals as such an amount needs; what is less than one shows as that."""
    if micro == 0:
        return "$0"
    decimals = 6 if micro < 10_000 else 4 if micro < 1_000_000 else 2
    unit: int = 10 ** (6 - decimals)
    rounded = (2 * micro + unit) // (2 * unit)
    whole, part = divmod(rounded, 10**decimals)
    return f"${whole:,}.{part:0{decimals}d}"


def cost_text(cost: Cost) -> str:
    """``$0.0123``; ``~`` before it when it is estimated, ``≥`` when the cost of some requests is not known."""
    micro = cost.micro_usd
    if micro is None:
        return UNKNOWN
    shown = "<$0.000001" if micro == 0 and cost.pico_usd else dollars(micro)
    return f"≥{shown}" if cost.unpriced else shown if cost.exact else f"~{shown}"


def cost_view(cost: Cost) -> dict[str, Any]:
    """A cost as JSON: whole micro-dollars, null when it is not known."""
    return {"microUsd": cost.micro_usd, "exact": cost.exact, "unpricedRequests": cost.unpriced, "why": list(cost.why)}


def tally_view(found: Tally) -> dict[str, Any]:
    """What requests come to, as JSON."""
    tokens = found.tokens
    return {
        "requests": found.requests,
        "unreportedRequests": found.unreported,
        "flawedRequests": found.flawed,
        "tokens": {
            "input": tokens.input,
            "cacheRead": tokens.cache_read,
            "cacheWrite": tokens.cache_write,
            "output": tokens.output,
            "reasoning": tokens.reasoning,
            "total": tokens.total,
        },
        "cacheHitPercent": tokens.cache_percent,
        "cost": cost_view(found.cost),
    }


def tally_line(found: Tally) -> str:
    """The same on one line."""
    tokens = found.tokens
    requests = f"{found.requests} request{'' if found.requests == 1 else 's'}"
    prompt = f"{tokens.prompt:,} in"
    if tokens.cache_read:
        prompt += f" ({tokens.cache_percent} % from cache)"
    output = f"{tokens.output:,} out"
    if tokens.reasoning:
        output += f" ({tokens.reasoning:,} reasoning)"
    cost = cost_text(found.cost)
    return ", ".join((requests, prompt, output, "cost unknown" if cost == UNKNOWN else cost))

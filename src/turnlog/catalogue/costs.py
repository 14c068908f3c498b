"""What the requests of a session cost, from the charges that the index keeps; and again, when prices change."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from turnlog.views.buckets import Buckets
from turnlog.views.prices import Cost, PricesInvalid, PriceTable
from turnlog.views.usage import Charge

from .record import unpack, unpack_rest
from .tally import Tokens, Totals


def price_table(say: Callable[[str], None]) -> PriceTable:
    """The prices that come with Turnlog and those of the user; without the latter where they cannot be read."""
    try:
        return PriceTable.load()
    except (PricesInvalid, OSError) as error:
        say(f"{error}; costs are by the prices that come with turnlog")
        return PriceTable.builtin()


def charge_row(charge: Charge) -> tuple[Any, ...]:
    """A charge as a row of the index, without its session."""
    return (charge.seq, charge.kind, charge.turn, charge.step, charge.attempt, charge.time, charge.provider,
            charge.model, charge.flawed, *(charge.tokens or (None,) * 5))  # fmt: skip


def with_charges(base: Totals, rows: Iterable[tuple[Any, ...]], prices: PriceTable) -> Totals:
    """*base* with what some charges come to."""
    sums = {(one.provider, one.model): list(one[2:]) for one in base.tokens}
    pico, priced, unpriced, estimated = base.pico_usd, base.priced, base.unpriced, base.estimated
    for seq, kind, turn, step, attempt, time, provider, model, flawed, *figures in rows:
        told = None if figures[0] is None else Buckets(*figures)
        counted = sums.setdefault((provider, model), [0] * (len(Tokens._fields) - 2))
        for place, more in enumerate((1, told is None, *(told or ()))):
            counted[place] += more
        cost = Charge(seq, time, kind, provider, model, told, bool(flawed), turn, step, attempt).cost(prices)
        pico, priced, unpriced = pico + cost.pico_usd, priced + cost.priced, unpriced + cost.unpriced
        estimated = estimated or bool(cost.why)
    tokens = tuple(Tokens(*route, *sums[route]) for route in sorted(sums))
    return base._replace(tokens=tokens, pico_usd=pico, priced=priced, unpriced=unpriced, estimated=estimated)


def cost_of(totals: Totals) -> Cost:
    """What a session cost."""
    return Cost(totals.pico_usd, totals.priced, totals.unpriced, ("estimated",) if totals.estimated else ())


def reprice(connection: sqlite3.Connection, prices: PriceTable) -> None:
    """Compute the cost of every session again from its charges."""
    found = connection.execute("SELECT number, record, rest FROM sessions JOIN rests USING(number)").fetchall()
    for number, data, rest_data in found:
        record, rest = unpack(data), unpack_rest(rest_data)
        if record is None or rest is None:
            continue
        rows = [tuple(row) for row in connection.execute(
            "SELECT seq, kind, turn, step, attempt, time, provider, model, flawed, input, cache_read, cache_write, "
            "output, reasoning FROM usage WHERE session = ? ORDER BY seq", (number,))]  # fmt: skip
        record = record._replace(totals=with_charges(_free(record.totals), rows, prices))
        if rest.mark is not None:
            before = [row for row in rows if row[0] < rest.mark.seq]
            mark = rest.mark._replace(totals=with_charges(_free(rest.mark.totals), before, prices))
            connection.execute("UPDATE rests SET rest = ? WHERE number = ?", (rest._replace(mark=mark).pack(), number))
        connection.execute("UPDATE sessions SET record = ? WHERE number = ?", (record.pack(), number))


def _free(totals: Totals) -> Totals:
    return totals._replace(tokens=(), pico_usd=0, priced=0, unpriced=0, estimated=False)

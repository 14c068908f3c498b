"""Prices: what tokens cost, by provider, model and time. Data with a date and a source, never code.

A table is a TOML file of ``[[price]]`` rows (``prices.toml`` beside this module is the one that comes with Turnlog)::

    [[price]]
    provider = "deepseek"              # or a list of names
    model = "deepseek-flash"           # or a list
    input = 0.15                       # US dollars per million tokens; also cache_read, cache_write, output
    output = 0.6
    from = 2026-09-10T04:00:00Z        # since when it holds; until = …: until when (not included)
    checked = 2026-11-15               # when the source said so
    source = "https://…"

    [[price.at]]                       # other prices at these hours (UTC), on these days, but not on these dates
    hours = ["01:00-04:00", "06:00-10:00"]
    days = ["mon", "tue", "wed", "thu", "fri"]
    except = [2026-10-01]
    input = 0.3
    output = 1.2

    [[price.above]]                    # other prices for every token of a request with a longer prompt
    tokens = 272000
    input = 10
    output = 45

Money is counted in millionths of a micro-dollar (pico-dollars per token are dollars per million tokens, times 10**6),
in integers, so that sums are the same in whatever order they are added. It is rounded once, where it is shown.

A cost is *exact* when the row names the model, held at that time, and the request says all that the price depends on.
Otherwise it is an estimate and :attr:`Cost.why` says why. What has no row has no cost: unknown is not zero.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import cache
from pathlib import Path
from re import ASCII
from re import compile as pattern
from typing import Any, Final, NamedTuple

from turnlog.log import TurnlogError

from .buckets import Buckets

BUILTIN: Final = Path(__file__).with_name("prices.toml")
"""The table that comes with Turnlog."""
NO_MODEL: Final = "the log does not say which model some requests went to"
_SCALE: Final = 1_000_000
"""Pico-dollars per token that a dollar per million tokens is; also pico-dollars in a micro-dollar."""
_DAY_MS: Final = 86_400_000
_MINUTE_MS: Final = 60_000
_SNAPSHOT: Final = pattern(r"(-|@)(\d{8}|\d{4}-\d\d-\d\d|latest)|\[1m\]", ASCII)
"""What may follow the name of a model without making it another one: the date of a snapshot."""
_HOURS: Final = pattern(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)", ASCII)
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_RATES: Final = ("input", "cache_read", "cache_write", "output")
_ROW: Final = frozenset({*_RATES, "provider", "model", "from", "until", "checked", "source", "note", "cache_write_kept",
                         "at", "above"})  # fmt: skip
_AT: Final = frozenset({*_RATES, "hours", "days", "except"})
_ABOVE: Final = frozenset({*_RATES, "tokens"})


class PricesInvalid(TurnlogError):
    """A file of prices that says something else than prices; the message names file, row and what to write."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What requests cost. ``+`` adds; :data:`NOTHING` is the cost of none."""

    pico_usd: int = 0
    """Of those that have a price, in pico-dollars (10**-12)."""
    priced: int = 0
    """Requests whose cost is in it."""
    unpriced: int = 0
    """Requests whose cost is not known."""
    why: tuple[str, ...] = ()
    """Why it is no exact figure, each reason once."""

    @property
    def known(self) -> bool:
        """Whether there is a figure: something has a price, or there was nothing to pay for."""
        return self.priced > 0 or self.unpriced == 0

    @property
    def exact(self) -> bool:
        """Whether it is the very cost, by the prices of that time. False for estimates, and where some is unknown."""
        return not self.why and not self.unpriced

    @property
    def micro_usd(self) -> int | None:
        """In micro-dollars, rounded (halves up); None when no cost is known. With :attr:`unpriced` it is the least."""
        return (2 * self.pico_usd + _SCALE) // (2 * _SCALE) if self.known else None

    def __add__(self, other: Cost) -> Cost:
        why = self.why if not other.why or other.why == self.why else tuple(dict.fromkeys((*self.why, *other.why)))
        return Cost(
            self.pico_usd + other.pico_usd, self.priced + other.priced, self.unpriced + other.unpriced, why
        )  # fmt: skip


NOTHING: Final = Cost()
"""The cost of no requests."""


class Rates(NamedTuple):
    """Pico-dollars per token; None: the price of input is taken, as an estimate."""

    input: int
    cache_read: int | None
    cache_write: int | None
    output: int

    def of(self, tokens: Buckets) -> int:
        """Pico-dollars for *tokens*; reasoning is in the output."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        return (tokens.input * self.input + tokens.cache_read * read + tokens.cache_write * write
                + tokens.output * self.output)  # fmt: skip


class At(NamedTuple):
    """Other prices at some times of the day."""

    spans: tuple[tuple[int, int], ...]
    """Minutes of the day in UTC, from and until (not included); a span may go past midnight."""
    days: frozenset[int]
    """Of the week, Monday is 0; the day on which the span begins."""
    excepted: frozenset[int]
    """Days since 1970-01-01 that are like no such day."""
    rates: Rates

    def holds(self, ms: int) -> bool:
        """Whether *ms* (epoch) is such a time."""
        day, minute = ms // _DAY_MS, ms % _DAY_MS // _MINUTE_MS
        for first, stop in self.spans:
            if first < stop:
                began = day if first <= minute < stop else None
            else:
                began = day if minute >= first else day - 1 if minute < stop else None
            if began is not None and (began + 3) % 7 in self.days and began not in self.excepted:
                return True
        return False


class Above(NamedTuple):
    """Other prices for requests with long prompts."""

    tokens: int
    rates: Rates


@dataclass(frozen=True, slots=True)
class Price:
    """One row of a table."""

    providers: tuple[str, ...]
    models: tuple[str, ...]
    rates: Rates
    since: int | None = None
    """Epoch ms; None: whoever wrote the row says that it always held."""
    until: int | None = None
    """Epoch ms, not included; None: it holds on."""
    checked: date | None = None
    """Until when it is known to hold on; None: for good."""
    source: str = ""
    at: tuple[At, ...] = ()
    above: tuple[Above, ...] = ()
    """Longest prompt first."""
    kept: str = ""
    """For how long cache writes are kept at this price, where it depends on that and requests do not say it."""

    @property
    def name(self) -> str:
        """``provider/model``, by the first names of both."""
        return f"{self.providers[0]}/{self.models[0]}"

    def rates_for(self, tokens: Buckets, ms: int) -> Rates:
        """What holds for a request of that size at that time."""
        for tier in self.above:
            if tokens.prompt > tier.tokens:
                return tier.rates
        return next((one.rates for one in self.at if one.holds(ms)), self.rates)

    def covers(self, ms: int) -> bool:
        """Whether it holds at that time, as far as the row says."""
        return (self.since is None or ms >= self.since) and (self.until is None or ms < self.until)


class Found(NamedTuple):
    """The row for a request, and why it may not be the right one."""

    price: Price
    doubts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Rows by provider and model. What a later layer says of a model replaces all that earlier ones say of it."""

    rows: Mapping[tuple[str, str], tuple[Price, ...]] = field(default_factory=dict)
    """By (provider, model) in lower case; earliest first."""

    @classmethod
    def load(cls, file: Path | None = None, *, workspace: Path | None = None) -> PriceTable:
        """Turnlog's own table under, in this order, the user's ``prices.toml`` (:func:`user_file`), the ``[prices]`` of
        the *workspace*'s ``turnlog.toml``, and *file*; each only where it is there, but *file* must be.

        Raises :class:`PricesInvalid`, and OSError where a file cannot be read.
        """
        table = cls.builtin()
        own = user_file()
        if own.is_file():
            table = table.under(cls.read(own))
        settings = None if workspace is None else workspace / "turnlog.toml"
        if settings is not None and settings.is_file():
            told = _toml(settings).get("prices", {})
            table = table.under(_table(told, f"{settings}: [prices]"))
        return table if file is None else table.under(cls.read(file))

    @classmethod
    def builtin(cls) -> PriceTable:
        """The table that comes with Turnlog."""
        return _builtin()

    @classmethod
    def read(cls, file: Path) -> PriceTable:
        """The table of one file alone."""
        return _table(_toml(file), str(file))

    @classmethod
    def of(cls, prices: Iterable[Price]) -> PriceTable:
        """A table of some rows."""
        rows: dict[tuple[str, str], list[Price]] = {}
        for price in prices:
            for provider in price.providers:
                for model in price.models:
                    rows.setdefault((provider.lower(), model.lower()), []).append(price)
        return cls({key: tuple(sorted(found, key=_begin)) for key, found in rows.items()})

    def under(self, other: PriceTable) -> PriceTable:
        """This table with *other* laid over it."""
        return PriceTable({**self.rows, **other.rows})

    def find(self, provider: str, model: str, ms: int) -> Found | None:
        """The row for a request of that time (epoch ms), or None. Names are compared in any case; the name of a
        snapshot (``…-20250929``, ``…-latest``) is priced as its model, as an estimate; no other beginning is taken for
        the model, for ``gpt-5-mini`` is no ``gpt-5``."""
        rows = self.rows.get((provider.lower(), model.lower()))
        doubts: tuple[str, ...] = ()
        if rows is None and (cut := _SNAPSHOT.search(model.lower())) is not None and _SNAPSHOT.fullmatch(cut[0]):
            stem = model[: cut.start()]
            rows = self.rows.get((provider.lower(), stem.lower())) if model[cut.end() :] == "" else None
            doubts = (f"{provider}/{model} is priced as {stem}",)
        if rows is None:
            return None
        price = next((one for one in reversed(rows) if one.covers(ms)), None)
        if price is None:
            price = _nearest(rows, ms)
            doubts = (*doubts, f"the table has no price of {price.name} for that time, the nearest one is taken")
        elif price.until is None and price.checked is not None and ms >= _ms(price.checked) + _DAY_MS:
            doubts = (*doubts, f"the price of {price.name} was last checked on {price.checked}, before some requests")
        return Found(price, doubts)

    def cost(self, tokens: Buckets, *, provider: str, model: str, ms: int) -> Cost:
        """What one request of *tokens* costs that was answered at *ms* (epoch)."""
        found = self.find(provider, model, ms)
        if found is None:
            return Cost(unpriced=1, why=(f"no price for {provider}/{model}" if model else NO_MODEL,))
        price, doubts = found
        rates = price.rates_for(tokens, ms)
        if tokens.cache_read and rates.cache_read is None:
            doubts = (*doubts, f"cache reads of {price.name} have no price of their own, that of input is taken")
        if tokens.cache_write and rates.cache_write is None:
            doubts = (*doubts, f"cache writes of {price.name} have no price of their own, that of input is taken")
        elif tokens.cache_write and price.kept:
            doubts = (*doubts, f"cache writes of {price.name} are priced as kept for {price.kept}")
        return Cost(rates.of(tokens), priced=1, why=doubts)


def user_file() -> Path:
    """Where a user's own prices are: ``$XDG_CONFIG_HOME/turnlog/prices.toml``, by default under ``~/.config``."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".config") / "turnlog" / "prices.toml"


@cache  # the file is part of the program
def _builtin() -> PriceTable:
    return PriceTable.read(BUILTIN)


def _begin(price: Price) -> int:
    return -(1 << 62) if price.since is None else price.since


def _nearest(rows: Sequence[Price], ms: int) -> Price:
    """The row whose time is nearest: all of them lie before or after *ms*."""
    before = [one for one in rows if one.since is None or one.since <= ms]
    return before[-1] if before else rows[0]


# -- reading --------------------------------------------------------------------------------------------------------


def _toml(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(file.read_bytes().decode(), parse_float=Decimal)
    except (ValueError, RecursionError) as error:  # TOML's errors and those of UTF-8 are ValueErrors
        raise PricesInvalid(f"{file}: no TOML file: {error}") from None


def _table(told: Any, where: str) -> PriceTable:
    if not isinstance(told, dict):
        raise PricesInvalid(f"{where}: expected a table with [[price]] rows, not {told!r:.60}")
    others = sorted(told.keys() - {"price"})
    if others:
        raise PricesInvalid(f"{where}: {others[0]!r} is nothing that a table of prices has; rows begin with [[price]]")
    rows = told.get("price", [])
    if not isinstance(rows, list):
        raise PricesInvalid(f"{where}: price: write [[price]] with two brackets, once for every row")
    return PriceTable.of(_Row(row, f"{where}: price {number}").price() for number, row in enumerate(rows, 1))


class _Row:
    """Reads one row; every fault is told with its place."""

    def __init__(self, told: Any, where: str) -> None:
        if not isinstance(told, dict):
            raise PricesInvalid(f"{where}: expected a table, not {told!r:.60}")
        self._told, self._where = told, where

    def price(self) -> Price:
        self._only(self._told, _ROW, self._where)
        providers, models = self._names("provider"), self._names("model")
        self._where = f"{self._where} ({providers[0]}/{models[0]})"
        since, until = self._moment("from"), self._moment("until")
        if since is not None and until is not None and since >= until:
            raise self._fault("until", "is not later than from")
        above = sorted((self._above(one, place) for one, place in self._tables("above")), reverse=True)
        at = tuple(self._at(one, place) for one, place in self._tables("at"))
        if above and at:
            raise self._fault("above", "cannot be combined with at; write two rows, or ask for it")
        return Price(providers, models, self._rates(self._told, self._where), since, until, self._date("checked"),
                     self._text("source"), at, tuple(above), self._text("cache_write_kept"))  # fmt: skip

    def _at(self, told: Any, where: str) -> At:
        self._only(told, _AT, where)
        hours, days = told.get("hours", []), told.get("days", list(_DAYS))
        matches = [_HOURS.fullmatch(one) if isinstance(one, str) else None for one in hours] if hours else []
        spans = [(int(one[1]) * 60 + int(one[2]), int(one[3]) * 60 + int(one[4])) for one in matches if one is not None]
        if not spans or len(spans) < len(matches) or any(first == stop or stop > 1440 for first, stop in spans):
            raise PricesInvalid(f'{where}: hours: expected a list like ["01:00-04:00"] (UTC), not {hours!r:.60}')
        if not isinstance(days, list) or not days or any(day not in _DAYS for day in days):
            raise PricesInvalid(f"{where}: days: expected a list of {', '.join(_DAYS)}, not {days!r:.60}")
        excepted = told.get("except", [])
        if not isinstance(excepted, list) or any(type(one) is not date for one in excepted):
            raise PricesInvalid(f"{where}: except: expected a list of dates like 2026-10-01, not {excepted!r:.60}")
        return At(tuple(spans), frozenset(map(_DAYS.index, days)),
                  frozenset(_ms(one) // _DAY_MS for one in excepted), self._rates(told, where))  # fmt: skip

    def _above(self, told: Any, where: str) -> Above:
        self._only(told, _ABOVE, where)
        tokens = told.get("tokens")
        if type(tokens) is not int or tokens < 0:
            raise PricesInvalid(f"{where}: tokens: expected how long a prompt may be at the usual price, "
                                f"not {tokens!r:.60}")  # fmt: skip
        return Above(tokens, self._rates(told, where))

    def _rates(self, told: Mapping[str, Any], where: str) -> Rates:
        amounts = {name: _pico(told[name], f"{where}: {name}") for name in _RATES if name in told}
        for name in ("input", "output"):
            if name not in amounts:
                raise PricesInvalid(f"{where}: {name} is missing; it is in US dollars per million tokens")
        return Rates(amounts["input"], amounts.get("cache_read"), amounts.get("cache_write"), amounts["output"])

    def _tables(self, name: str) -> list[tuple[Any, str]]:
        told = self._told.get(name, [])
        if not isinstance(told, list) or any(not isinstance(one, dict) for one in told):
            raise self._fault(name, f"write [[price.{name}]] with two brackets")
        return [(one, f"{self._where}: {name} {number}") for number, one in enumerate(told, 1)]

    def _names(self, name: str) -> tuple[str, ...]:
        told = self._told.get(name)
        listed = told if isinstance(told, list) else [told]
        if not listed or any(not isinstance(one, str) or not one for one in listed):
            raise self._fault(name, f"expected a name or a list of names, not {told!r:.60}")
        return tuple(listed)

    def _moment(self, name: str) -> int | None:
        told = self._told.get(name)
        if told is None:
            return None
        if type(told) is date:
            return _ms(told)
        if isinstance(told, datetime) and told.tzinfo is not None:
            return (told - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        raise self._fault(name, f"expected a date or a time with its offset (2026-09-10T04:00:00Z), not {told!r:.60}")

    def _date(self, name: str) -> date | None:
        told = self._told.get(name)
        if told is not None and type(told) is not date:
            raise self._fault(name, f"expected a date like 2026-11-15, not {told!r:.60}")
        return told

    def _text(self, name: str) -> str:
        told = self._told.get(name, "")
        if not isinstance(told, str):
            raise self._fault(name, f"expected text, not {told!r:.60}")
        return told

    def _only(self, told: Mapping[str, Any], names: frozenset[str], where: str) -> None:
        others = sorted(told.keys() - names)
        if others:
            raise PricesInvalid(f"{where}: {others[0]!r} is no member; there are {', '.join(sorted(names))}")

    def _fault(self, name: str, text: str) -> PricesInvalid:
        return PricesInvalid(f"{self._where}: {name}: {text}")


def _pico(told: Any, where: str) -> int:
    """Dollars per million tokens as pico-dollars per token."""
    try:
        amount = Decimal(told) if type(told) in (int, str, Decimal) else None
    except InvalidOperation:
        amount = None
    if amount is None or not amount.is_finite() or not 0 <= amount <= _SCALE:
        raise PricesInvalid(f"{where}: expected US dollars per million tokens, like 0.15, not {told!r:.60}")
    pico = amount * _SCALE
    if pico != int(pico):
        raise PricesInvalid(f"{where}: {told} has more than six decimals, which no provider's prices have")
    return int(pico)


def _ms(day: date) -> int:
    return (day - date(1970, 1, 1)).days * _DAY_MS

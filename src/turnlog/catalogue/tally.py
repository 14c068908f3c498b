"""`Totals`: what a session comes to, as a list of sessions shows it."""

from __future__ import annotations

from typing import Any, NamedTuple


class Tokens(NamedTuple):
    """Tokens of requests to one model. Input, cache read and cache write are disjoint; reasoning is inside output."""

    provider: str
    model: str
    requests: int = 0
    unreported: int = 0
    """Requests, of these, that answered and reported nothing."""
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        """All tokens, each once."""
        return self.input + self.output + self.cache_read + self.cache_write

    def plus(self, other: Tokens) -> Tokens:
        """The sum of two, of the same model."""
        sums = (mine + theirs for mine, theirs in zip(self[2:], other[2:], strict=True))
        return Tokens(self.provider, self.model, *sums)


class Totals(NamedTuple):
    """What a log comes to, up to some event."""

    events: int = 0
    """Events of the log: one more than its last seq."""
    turns: int = 0
    """How many turns began."""
    failed: int = 0
    """How many of them ended with an error."""
    end: str = ""
    """How the last turn ended (``completed``, ``error``, …), ``open`` if it did not, nothing without any."""
    title: str = ""
    """The title that was given last."""
    prompt: str = ""
    """The beginning of the first prompt, on one line: the title of a session that has none."""
    provider: str = ""
    model: str = ""
    """The model that was used last."""
    route: tuple[str, str] = ("", "")
    """Provider and model that the last request header asked for."""
    last_ms: int = 0
    """Time of the last event, epoch ms; 0 without any."""
    pico_usd: int = 0
    """What its requests cost as far as they have a price, in pico-dollars (10**-12)."""
    priced: int = 0
    """Requests whose cost is in it."""
    unpriced: int = 0
    """Requests whose cost is not known."""
    estimated: bool = False
    """Whether any of the cost is an estimate."""
    tokens: tuple[Tokens, ...] = ()
    """What its own requests used, by provider and model; what it inherited from its parent is not in it."""

    @property
    def shown_title(self) -> str:
        """The title, or the beginning of the first prompt."""
        return self.title or self.prompt

    @property
    def used(self) -> Tokens:
        """All tokens together."""
        found = Tokens("", "")
        for one in self.tokens:
            found = found.plus(one)
        return found

    @property
    def micro_usd(self) -> int | None:
        """The cost in micro-dollars, rounded; None when none is known. With :attr:`unpriced` it is the least."""
        known = self.priced > 0 or self.unpriced == 0
        return (2 * self.pico_usd + 1_000_000) // 2_000_000 if known else None

    @property
    def exact(self) -> bool:
        """Whether the cost is exact: no estimate in it, and nothing missing."""
        return not self.estimated and not self.unpriced

    def spent(self, other: Totals) -> Totals:
        """*other* with what these requests used and cost."""
        return other._replace(tokens=self.tokens, pico_usd=self.pico_usd, priced=self.priced, unpriced=self.unpriced,
                              estimated=self.estimated)  # fmt: skip

    def packed(self) -> tuple[Any, ...]:
        """As plain values."""
        return (*self[:-1], tuple(tuple(one) for one in self.tokens))

    @classmethod
    def unpacked(cls, values: tuple[Any, ...]) -> Totals:
        """From plain values."""
        tokens = values[-1]
        if tokens:
            return cls(*values[:-1], tuple(map(Tokens._make, tokens)))  # type: ignore[call-arg]
        return cls(*values)

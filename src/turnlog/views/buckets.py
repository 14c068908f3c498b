"""`Buckets`: tokens of requests, each token in one bucket.

::

    |----------- prompt -----------|
    | input | cache read | cache write |  output ( reasoning )
    '----------------- total ------------------'

Input is what no cache knew. Reasoning is part of output and never added to it.
"""

from __future__ import annotations

from typing import NamedTuple

from turnlog.events import TokenUsage


class Buckets(NamedTuple):
    """Tokens by what they are billed as. ``+`` adds them bucket by bucket."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    """Of which: already counted in ``output``."""

    @property
    def prompt(self) -> int:
        """What was sent, from a cache or not."""
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        """Every token once."""
        return self.prompt + self.output

    @property
    def cache_percent(self) -> int | None:
        """How much of the prompt came from a cache, as :func:`whole_percent`; None without a prompt."""
        return whole_percent(self.cache_read, self.prompt)

    def __add__(self, other: object) -> Buckets:
        if not isinstance(other, Buckets):  # a sum of tuples would be a longer tuple
            return NotImplemented
        return Buckets(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    @classmethod
    def of(cls, usage: TokenUsage) -> tuple[Buckets, bool]:
        """The buckets of a reported usage, and whether it is *flawed*.

        Logs of other programs hold figures that cannot be: negative ones count as 0 and not against what others used,
        reasoning beyond the output counts as the output.
        """
        told = (usage.input_tokens, usage.cache_read_tokens or 0, usage.cache_write_tokens or 0, usage.output_tokens)
        given, read, write, output = (max(one, 0) for one in told)
        reasoning = usage.reasoning_tokens or 0
        inside = min(max(reasoning, 0), output)
        return cls(given, read, write, output, inside), (given, read, write, output, inside) != (*told, reasoning)


def whole_percent(part: int, whole: int) -> int | None:
    """*part* in percent of *whole*, rounded; but 100 only when it is all of it, and 0 only when it is none."""
    if whole <= 0:
        return None
    rounded = (200 * part + whole) // (2 * whole)
    if part >= whole:
        return 100
    return 0 if part <= 0 else min(max(rounded, 1), 99)

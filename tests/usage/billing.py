"""Logs made from what was billed: whoever writes down the requests knows what they used, without reading the log."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from hypothesis import strategies as st

from tests.views import logs

Figure: TypeAlias = dict[str, int]
"""A reported usage as it stands in a log."""
Carrier: TypeAlias = Literal["chunk", "message", "both", "twice", "late", "afterwards", "nothing"]
"""Which records say what an answered request used. ``twice``: a first figure and a final one. ``late``: the final one
comes after the finish. ``afterwards``: after the message."""
End: TypeAlias = Literal["answered", "failed", "refused", "cancelled", "interrupted"]
"""``failed`` and ``refused`` are retried; a refused request never showed anything of an answer."""

HEADER: Final = {"config": {"provider": "p", "model": "m"}}


class Request(NamedTuple):
    """One request, as it was billed."""

    end: End
    carrier: Carrier
    figure: Figure
    sourced: bool = True
    """Whether the message says what it rests on."""
    deltas: int = 2
    asks: tuple[str, ...] = ()
    """Ids of the calls that the answer asks for."""


@dataclass
class Script:
    """Writes a log request by request, and down what each was billed for."""

    events: list[dict[str, Any]] = field(default_factory=list)
    billed: list[tuple[int, Figure | None]] = field(default_factory=list)
    """Seq of the record with the figure, and the figure; None for one that answered and reported nothing."""
    turns: int = 0
    steps: int = 0

    @property
    def seq(self) -> int:
        """Of the next event."""
        return len(self.events)

    def add(self, event: dict[str, Any]) -> int:
        self.events.append(event)
        return self.seq - 1

    def turn(self, steps: list[list[Request]]) -> None:
        """A turn: each step is its attempts, of which all but the last are retried."""
        self.turns += 1
        self.steps = 0
        self.add(logs.turn(self.turns))
        last: Request | None = None
        for attempts in steps:
            self.steps += 1
            self.add(logs.step(self.steps, self.turns))
            if self.turns == self.steps == 1:
                self.add(logs.event("request/header", {"header": HEADER, "reason": "initial"}))
            for number, last in enumerate(attempts, 1):
                self.request(last, number)
            self.add(logs.step_end(self.steps, self.turns))
        reason = {"kind": "aborted", "cause": {"kind": "user"}} if last and last.end == "cancelled" else None
        self.add(logs.end(self.turns, reason))

    def request(self, request: Request, number: int) -> None:
        """One attempt."""
        if request.end == "refused":
            self.chunk(logs.finish("error", "RATE_LIMIT"))
            self.add(logs.retry(number, self.turns, self.steps))
            return
        first = self.seq
        figure, carrier = request.figure, request.carrier
        said: int | None = None
        self.chunk({"type": "block-start", "index": 0, "blockType": "text"})
        for place in range(request.deltas):
            self.chunk(logs.text(f"w{place} "))
        self.chunk({"type": "block-end", "index": 0, "block": {"type": "text", "text": "w"}})
        if carrier in ("twice", "late", "afterwards"):
            said = self.usage({"inputTokens": 1, "outputTokens": 1})
        if carrier in ("chunk", "both", "twice"):
            said = self.usage(figure)
        if request.end == "failed":
            self.chunk(logs.finish("error", "TRANSPORT"))
            self.add(logs.retry(number, self.turns, self.steps))
        elif request.end != "cancelled":
            self.chunk(logs.finish())
        if carrier == "late":
            said = self.usage(figure)
        if request.end in ("answered", "interrupted"):
            said = self.message(request, first, said)
        if carrier == "afterwards":
            said = self.usage(figure)
        told = carrier != "nothing" and not (carrier == "message" and said is None)
        self.billed.append((self.seq - 1 if said is None else said, figure if told else None))

    def message(self, request: Request, first: int, said: int | None) -> int | None:
        usage = {"usage": request.figure} if request.carrier in ("message", "both") else {}
        cut = {"interrupted": True} if request.end == "interrupted" else {}
        sources = range(first, self.seq) if request.sourced else None
        blocks = [logs.asks(id) for id in request.asks]
        text = {"type": "text", "text": "w"}
        seq = self.add(logs.message(text, *blocks, turn=self.turns, step=self.steps, sources=sources, **usage, **cut))
        return seq if said is None and usage else said

    def chunk(self, chunk: dict[str, Any]) -> int:
        return self.add(logs.chunk(chunk, self.turns, self.steps))

    def usage(self, figure: Figure) -> int:
        return self.chunk({"type": "usage", "usage": figure})

    def log(self, id: str = "s", *, seed: int = 0, parent: str | None = None) -> bytes:
        """The log as a file; of *seed* events it is a fork."""
        header, *lines = [json.loads(line) for line in logs.log(*self.events, id=id).splitlines()]
        if parent is not None:
            header |= {"parentSession": parent, "seedLength": seed}
        compact = [json.dumps(line, separators=(",", ":")) for line in (header, *lines)]  # as writers that pack write
        return "".join(f"{line}\n" for line in compact).encode()


def total(figures: list[Figure | None]) -> tuple[int, int, int, int, int]:
    """The naive sum: input, cache read, cache write, output, reasoning."""
    names = ("inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens", "reasoningTokens")
    known = [one for one in figures if one is not None]
    return tuple(sum(one.get(name, 0) for one in known) for name in names)  # type: ignore[return-value]


@st.composite
def figures(draw: st.DrawFn) -> Figure:
    output = draw(st.integers(0, 5000))
    figure = {"inputTokens": draw(st.integers(0, 200_000)), "outputTokens": output}
    for name, most in (("cacheReadTokens", 200_000), ("cacheWriteTokens", 9000), ("reasoningTokens", output)):
        if draw(st.booleans()):
            figure[name] = draw(st.integers(0, most))
    return figure


def _requests(ends: tuple[End, ...], carriers: tuple[Carrier, ...]) -> st.SearchStrategy[Request]:
    parts = (st.sampled_from(ends), st.sampled_from(carriers), figures(), st.booleans(), st.integers(0, 4))
    return st.tuples(*parts).map(lambda told: Request(*told))


_RETRIED: Final = _requests(("failed", "refused"), ("chunk", "twice", "nothing"))
_LAST: Final = st.one_of(
    _requests(("answered",), ("chunk", "message", "both", "twice", "late", "afterwards", "nothing")),
    _requests(("interrupted",), ("chunk", "both", "nothing")),
    _requests(("cancelled",), ("chunk", "twice", "nothing")),
)
steps: Final = st.builds(lambda retried, last: [*retried, last], st.lists(_RETRIED, max_size=2), _LAST)
"""The attempts of a step."""
turns: Final = st.lists(steps, min_size=1, max_size=3)
"""The steps of a turn."""

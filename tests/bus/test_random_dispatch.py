"""Random registrations, removals and dispatches, against the simplest bus one could write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from hypothesis import strategies as st

from tests.bus.hooks import Flush, PreStep, Status, Stopping, shout
from tests.conftest import Prove
from turnlog.bus import Bus, Next, Outcome, Registration, stop

pytestmark = pytest.mark.proof


@dataclass
class Naive:
    """A list of registrations; a dispatch walks a copy of it and skips who has gone since.

    A name that went and came back is another registration: the dispatch that is under way does not call it.
    """

    registered: list[tuple[int, int]] = field(default_factory=list)
    """Names, each with the number of its registration."""
    count: int = 0
    acts: dict[int, tuple[str, int]] = field(default_factory=dict)
    """What a listener does when called: close or add another, or end the chain."""

    @property
    def names(self) -> list[int]:
        return [name for name, _ in self.registered]

    def add(self, name: int, prepend: bool) -> None:
        self.count += 1
        self.registered.insert(0 if prepend else len(self.registered), (name, self.count))

    def remove(self, name: int) -> None:
        self.registered = [one for one in self.registered if one[0] != name]

    def dispatch(self, ends: bool) -> list[int]:
        called: list[int] = []
        for one in list(self.registered):
            if one not in self.registered:
                continue
            name, _ = one
            called.append(name)
            act, other = self.acts.get(name, ("", 0))
            if act == "close":
                self.remove(other)
            elif act == "add" and other not in self.names:
                self.add(other, prepend=other % 2 == 0)
            elif act == "end" and ends:
                break
        return called


class Real:
    """The bus, with the same names and acts."""

    def __init__(self, mode: str, acts: dict[int, tuple[str, int]]) -> None:
        self.mode, self.acts, self.bus = mode, acts, Bus()
        self.registrations: dict[int, Registration] = {}
        self.called: list[int] = []

    def add(self, name: int, prepend: bool) -> None:
        def called() -> bool:
            self.called.append(name)
            act, other = self.acts.get(name, ("", 0))
            if act == "close":
                self.remove(other)
            elif act == "add" and other not in self.registrations:
                self.add(other, prepend=other % 2 == 0)
            return act == "end"

        async def around(event: PreStep, next: Next[PreStep, str]) -> Outcome[str]:
            return stop("", reason="its act") if called() else await next()

        async def asked(event: object) -> str | None:
            return "answer" if called() else None

        async def at_once(event: object) -> None:
            called()

        def told(event: object) -> None:
            called()

        on: Any = self.bus.on
        kinds = {"emit": (Status, told), "parallel": (Flush, at_once), "serial": (Stopping, asked)}
        event, listener = kinds.get(self.mode, (PreStep, around))
        self.registrations[name] = on(event, listener, prepend=prepend)

    def remove(self, name: int) -> None:
        if registration := self.registrations.pop(name, None):
            registration.close()

    async def dispatch(self) -> list[int]:
        self.called.clear()
        match self.mode:
            case "emit":
                self.bus.emit(Status())
            case "parallel":
                await self.bus.parallel(Flush())
            case "serial":
                await self.bus.serial(Stopping())
            case _:
                await self.bus.waterfall(PreStep(), shout)
        return list(self.called)


NAMES = st.integers(0, 7)
ACTS = st.dictionaries(NAMES, st.tuples(st.sampled_from(("close", "add", "end")), NAMES), max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), NAMES, st.booleans()),
        st.tuples(st.just("remove"), NAMES, st.booleans()),
        st.tuples(st.just("dispatch"), NAMES, st.booleans()),
    ),
    max_size=40,
)


@pytest.mark.parametrize("mode", ["emit", "parallel", "serial", "waterfall"])
def test_a_listener_that_went_and_came_back_during_a_dispatch_is_not_called_by_it(mode: str) -> None:
    """The case that a first naive bus got wrong: 0 closes 2, 1 adds it again."""

    async def main() -> None:
        acts = {0: ("close", 2), 1: ("add", 2)}
        real = Real(mode, acts)
        for name in (0, 1, 2, 3):
            real.add(name, prepend=False)
        assert await real.dispatch() == [0, 1, 3]

    anyio.run(main)


@pytest.mark.parametrize("mode", ["emit", "parallel", "serial", "waterfall"])
def test_a_bus_calls_whom_the_naive_one_calls_in_its_order(mode: str, prove: Prove) -> None:
    def check(acts: dict[int, tuple[str, int]], steps: list[tuple[str, int, bool]]) -> None:
        async def main() -> None:
            naive, real = Naive(acts=acts), Real(mode, acts)
            for step, name, prepend in (*steps, ("dispatch", 0, False)):
                if step == "dispatch":
                    assert await real.dispatch() == naive.dispatch(ends=mode in ("serial", "waterfall"))
                elif step == "remove":
                    naive.remove(name)
                    real.remove(name)
                elif name not in naive.names:
                    naive.add(name, prepend)
                    real.add(name, prepend)

        anyio.run(main)

    prove(f"{mode}: order and removal equal naive", check, ACTS, STEPS)

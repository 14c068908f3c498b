"""What may be on disk after a crash: every loss that is tried at one crash point.

An *image* is what a session's directory holds when the machine is up again. The losses: none (the process was killed),
all that was not synced, all but a prefix, the first unfinished write torn at some byte (with or without NUL up to its
size), any subset of the writes in any order (with NUL where nothing was written), and any subset of the names.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Final, NamedTuple

from .simfs import Directory, File, Name, SimFs, Write, apply, put

KILLED: Final = 0
"""Nothing was lost: only the process is gone."""
CUT: Final = 1
"""Power loss; what survived of each file is a prefix of what was done to it."""
MIXED: Final = 2
"""Power loss; later writes survived and earlier ones did not, or a size survived and its data did not."""

ATTEST: Final = "attest.jsonl"


class Image(NamedTuple):
    """The files of the session's directory; None where there is none."""

    log: bytes | None
    attest: bytes | None
    temporary: bool
    """Whether a file under a temporary name was left."""


class Loss(NamedTuple):
    """One way to come out of a crash."""

    kind: int
    image: Image


def losses(fs: SimFs, place: tuple[str, ...], name: str, random: Random) -> Iterator[Loss]:
    """What a crash now may leave in the directory at *place* (from the top) of the log *name*."""
    chain = _chain(fs, place)
    kept = _survivors([directory.names for directory in chain], place)
    scarred = any(file.scarred for file in _files(kept))
    yield Loss(MIXED if scarred else KILLED, _image(kept, name))
    for number, survivors in enumerate(_namings(chain, place, random)):
        yield from _contents(survivors, name, random, few=number > 0)


def _contents(names: dict[str, File], name: str, random: Random, *, few: bool) -> Iterator[Loss]:
    """Every loss of contents, given the names that survive."""
    log, attest = names.get(name), names.get(ATTEST)
    temporary = any(one.endswith(".tmp") for one in names)
    logs = [(CUT, None)] if log is None else list(tails(log, random))
    sides = [(CUT, None)] if attest is None else list(tails(attest, random))
    if few:
        logs, sides = random.sample(logs, min(3, len(logs))), random.sample(sides, min(2, len(sides)))
    for index, (kind, content) in enumerate(logs):
        if index < 2 or len(sides) == 1:
            chosen = sides
        else:
            chosen = [random.choice(sides)]
        for _kind, side in chosen:  # a mixed side file excuses nothing
            yield Loss(kind, Image(content, side, temporary))


def tails(file: File, random: Random) -> Iterator[tuple[int, bytes]]:
    """What may be left of a file's content: all, nothing, prefixes, torn writes, subsets."""
    clean = MIXED if file.scarred else CUT
    steps = [file.disk]
    for one in file.pending:
        steps.append(apply(steps[-1], one))
    yield clean, steps[-1]
    if len(steps) == 1:
        return
    for step in steps[:-1]:
        yield clean, step
    last = len(file.pending) - 1
    for index, one in enumerate(file.pending):
        if one.data is not None:
            for cut in _cuts(one.data, random, 5 if index == last else 1):
                yield clean, apply(steps[index], Write(one.at, one.data[:cut]))
                if random.random() < 0.3:
                    yield MIXED, apply(steps[index], Write(one.at, one.data[:cut] + bytes(len(one.data) - cut)))
    yield MIXED, steps[0] + bytes(max(0, len(steps[-1]) - len(steps[0])))
    if last:
        for _ in range(min(2 ** len(steps) - len(steps), 6)):
            yield MIXED, _mixed(file, random)


def _mixed(file: File, random: Random) -> bytes:
    content = file.disk
    for one in file.pending:
        fate = random.random()
        if fate < 0.5:
            content = apply(content, one)
        elif fate < 0.6 and one.data is not None:
            content = apply(content, Write(one.at, one.data[: random.randrange(len(one.data))]))
    return content


def _cuts(data: bytes, random: Random, count: int) -> list[int]:
    """Places to tear a write at; the ends of lines and the last byte are the interesting ones."""
    size = len(data)
    if size < 2:
        return [0]
    places = {random.randrange(1, size) for _ in range(count)}
    if count > 1:
        places |= {1, size - 1}
        ends = data.find(b"\n") + 1
        places |= {ends, ends - 1} if 1 < ends < size else set()
    return sorted(places)


# -- names ------------------------------------------------------------------------------------------------------


def _chain(fs: SimFs, place: tuple[str, ...]) -> list[Directory]:
    """The directories that lead to *place*, as far as they were ever made."""
    chain = [fs.top]
    for name in place:
        found = chain[-1].names.get(name) or chain[-1].disk.get(name)
        if not isinstance(found, Directory):
            break
        chain.append(found)
    return chain


def _namings(chain: list[Directory], place: tuple[str, ...], random: Random) -> Iterator[dict[str, File]]:
    """The files that can be reached, for subsets of what was done to names; first with all of it."""
    done: list[tuple[Directory, Name]] = [(directory, one) for directory in chain for one in directory.pending]
    choices = list(product((True, False), repeat=len(done))) if len(done) <= 4 else _sampled(len(done), random)
    for choice in choices:
        surviving = []
        for directory in chain:
            names = dict(directory.disk)
            for (owner, one), keep in zip(done, choice, strict=True):
                if keep and owner is directory:
                    put(names, one)
            surviving.append(names)
        yield _survivors(surviving, place)


def _sampled(count: int, random: Random) -> list[tuple[bool, ...]]:
    picked = [tuple(random.random() < 0.5 for _ in range(count)) for _ in range(14)]
    return [(True,) * count, (False,) * count, *picked]


def _survivors(names: list[dict[str, File | Directory]], place: tuple[str, ...]) -> dict[str, File]:
    """The files at *place*, if every name that leads there survived."""
    if len(names) <= len(place) or any(name not in above for name, above in zip(place, names, strict=False)):
        return {}
    return {name: what for name, what in names[-1].items() if isinstance(what, File)}


def _files(names: dict[str, File]) -> Iterator[File]:
    yield from names.values()


def _image(names: dict[str, File], name: str) -> Image:
    log, attest = names.get(name), names.get(ATTEST)
    return Image(
        None if log is None else log.cache,
        None if attest is None else attest.cache,
        any(one.endswith(".tmp") for one in names),
    )

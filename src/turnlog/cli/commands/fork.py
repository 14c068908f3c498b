"""``turnlog fork``"""

from __future__ import annotations

from pathlib import Path

from turnlog.log import ForkError
from turnlog.store.fork import fork
from turnlog.store.load import load
from turnlog.views import resolve

from ..json_views import document
from ..opening import Which
from ..places import address_of
from ..problems import WrongUsage
from ..screen import Screen


def fork_session(
    screen: Screen, which: Which, address: str, *, before: bool, id: str | None, out: Path | None, as_json: bool
) -> None:
    """Make a fork and print its id."""
    if id == "":
        raise WrongUsage("--id needs an id")
    file = which.file()
    parent = load(file)
    target = resolve(parent, address_of(address))
    if target.k is not None:
        raise ForkError(f"{address} is inside an event; a session is forked between events. turnlog convert makes a "
                        "format-0 session of this one, in which every chunk is an event")  # fmt: skip
    done = fork(file, target.first if before else target.last + 1, id=id, root=out)
    if as_json:
        screen.json(document(id=done.header.id, path=str(done.path), parent=parent.id, at=done.at,
                             events=done.events, copiedBytes=done.copied))  # fmt: skip
    else:
        screen.line(done.header.id)
        added = done.events - done.at
        screen.hint(f"it inherits {done.at} events of {parent.id}; {added} were added to close what the cut left open")

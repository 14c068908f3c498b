"""``turnlog messages``"""

from __future__ import annotations

from msgspec import Raw

from turnlog.events.lenient import parse
from turnlog.log import Session
from turnlog.views import resolve

from .. import describe
from ..json_views import document
from ..opening import Which, open_session
from ..places import address_of
from ..problems import WrongUsage
from ..screen import Screen, Styled


def messages(
    screen: Screen, which: Which, *, before: str | None, after: str | None, as_stored: bool, as_json: bool
) -> None:
    """Print the derived messages."""
    if before is not None and after is not None:
        raise WrongUsage("give --before or --after, not both")
    session = open_session(screen, which)
    found = session.message_events(_length(session, before, after), as_stored=as_stored)
    synthetic = [place for place, event in enumerate(found) if event.seq >= len(session)]
    if as_json:
        members: dict[str, object] = {"messages": [Raw(event.message_json) for event in found]}
        screen.json(document(**members, **({"synthetic": synthetic} if synthetic else {})))
    else:
        for place, event in enumerate(found):
            message = parse(event.message_json)  # not event.message: unknown members are shown as well
            mark = describe.SYNTHETIC if place in synthetic else ""
            role = Styled(f"[{message.get('role')}]", "bold")
            screen.line("  ", role, f" {message.get('content')}", Styled(mark, "yellow"))
    if not found:
        screen.nothing("no messages: nothing on the surface yet")


def _length(session: Session, before: str | None, after: str | None) -> int | None:
    """How many events the log held at that moment; None for now."""
    if before is not None:
        return resolve(session, address_of(before)).first
    return None if after is None else resolve(session, address_of(after)).last + 1

"""Calls: the whole life of a tool call, from the model asking for it to everything that came of it.

Providers reuse call ids, some in every step. A call is therefore looked for by its step as well: within one step the
k-th block with an id belongs to the k-th ``tool/call`` and the k-th result with it. Results that replaced an earlier
one (pruning) are no further call.
"""

from __future__ import annotations

from turnlog.log import Session

from .address import AddressAmbiguous, AddressUnknown, CallAddress, listed
from .call import Call
from .call_scan import CallScan
from .naming import naming_of


def calls(session: Session, *, as_stored: bool = False) -> tuple[Call, ...]:
    """Every call of the session, in the order in which the model asked for them."""
    return CallScan(session, None, as_stored).calls()


def calls_between(session: Session, first: int, stop: int, *, as_stored: bool = False) -> tuple[Call, ...]:
    """The calls whose events lie from *first* up to *stop*, as :func:`calls` gives them, at the cost of these events.

    What names a call from elsewhere (a question, a job) belongs to the last call with that id that had begun; where
    there is such an event, the whole log is searched for the id.
    """
    scan = CallScan(session, None, as_stored, first, stop)
    found = scan.calls()
    named = {id for id in scan.ids if id in naming_of(session).by_id}
    if not named:
        return found
    places = {(one.turn, one.step) for one in found if one.id in named}
    exact = {
        one.address_key: one
        for id in sorted(named)
        for one in CallScan(session, id, as_stored).calls()
        if (one.turn, one.step) in places
    }
    return tuple(exact.get(one.address_key, one) for one in found)


def call(session: Session, address: CallAddress | str, *, as_stored: bool = False) -> tuple[Call, ...]:
    """Every call with an id, or those of one step. Raises :class:`AddressUnknown`, naming the calls there are."""
    if isinstance(address, str):
        address = CallAddress(address)
    found = CallScan(session, address.id, as_stored).calls()
    chosen = tuple(one for one in found if address.turn is None or (one.turn, one.step) == (address.turn, address.step))
    if chosen:
        return chosen
    if found:
        raise AddressUnknown(
            f"session {session.id} has no {address}; there is {listed([one.address for one in found])}"
        )
    known = dict.fromkeys(f"call:{one.id}" for one in calls(session, as_stored=as_stored))
    there = f"the calls are {listed(list(known))}" if known else "it has no calls"
    raise AddressUnknown(f"session {session.id} has no {address}; {there}")


def one_call(session: Session, address: CallAddress) -> Call:
    """The call that *address* names. Raises :class:`AddressUnknown`, or :class:`AddressAmbiguous` with the choices."""
    found = call(session, address)
    if len(found) == 1:
        return found[0]
    same_step = len({(one.turn, one.step) for one in found}) < len(found)
    choices = [f"{one.address} (@{one.seq})" if same_step else one.address for one in found]
    advice = "name the event instead" if same_step else "name the step as well"
    raise AddressAmbiguous(f"{address} is used by {len(found)} calls: {listed(choices)}; {advice}")

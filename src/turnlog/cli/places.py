"""Addresses as people type them: a bare number is a seq, or where a turn is meant, a turn."""

from __future__ import annotations

from turnlog.views import Address, parse_address
from turnlog.views.address import TurnAddress

from .problems import WrongUsage


def address_of(text: str) -> Address:
    """What *text* names; ``12`` is ``@12``."""
    return parse_address(f"@{text}" if text.isascii() and text.isdigit() else text)


def turn_number(text: str) -> int:
    """The turn that *text* names; ``3`` is ``t3``. Raises :class:`WrongUsage`."""
    if text.isascii() and text.isdigit():
        return int(text)
    address = parse_address(text)
    if not isinstance(address, TurnAddress):
        raise WrongUsage(f"{text} is no turn; give a number, or t3")
    return address.turn

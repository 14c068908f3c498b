"""Addresses as people type them: a bare number is a seq."""

from __future__ import annotations

from turnlog.views import Address, parse_address


def address_of(text: str) -> Address:
    """What *text* names; ``12`` is ``@12``."""
    return parse_address(f"@{text}" if text.isascii() and text.isdigit() else text)

"""The base of every error Turnlog raises on purpose; the tree is drawn in ``turnlog.log.errors``."""

from __future__ import annotations


class TurnlogError(Exception):
    """Base of every error Turnlog raises on purpose."""

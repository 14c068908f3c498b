"""The formats that Turnlog reads: one module per codec, one table of what each version allows.

A format says which event types it has, which of them are surface types, how a replace is spelled, and how stored data
becomes the canonical payload (format 0's shape). Bytes are never rewritten: a format is a way of looking.
"""

from __future__ import annotations

from .base import FORMATS, NEWEST, SAMPLE, Format

__all__ = ["FORMATS", "NEWEST", "SAMPLE", "Format"]

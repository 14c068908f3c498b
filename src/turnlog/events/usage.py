"""What a request cost and how it failed (dsh-v0 §1.6)."""

from __future__ import annotations

from .value import SafeInt, Value


class TokenUsage(Value):
    """Tokens of one request. Input, cache read and cache write are disjoint; reasoning is inside output.

    Readers accept negative figures of foreign logs (``verify`` reports them); append refuses them.
    """

    input_tokens: SafeInt
    output_tokens: SafeInt
    cache_read_tokens: SafeInt | None = None
    cache_write_tokens: SafeInt | None = None
    reasoning_tokens: SafeInt | None = None
    """Of which: already counted in ``output_tokens``."""


class Failure(Value):
    """Why a request failed."""

    message: str
    code: str
    """Upper-case vocabulary: ``RATE_LIMIT``, ``TIMEOUT``, ``STREAM_CLOSED``, ``HTTP_402``, …"""
    status: SafeInt | None = None
    """HTTP status, 100 to 599."""
    provider_retry_after_ms: float | None = None
    """How long the provider asks to wait, in milliseconds."""
    request_id: str | None = None

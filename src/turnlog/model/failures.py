"""What a provider's refusal means: from statuses, headers and error bodies to a `Failure`.

======================  ====================================================================
code                    when
======================  ====================================================================
CONTEXT_WINDOW_EXCEEDED the request is longer than the model can read, however it is said
AUTH                    401, 403
QUOTA                   402, or a 429 that says that no money is left
RATE_LIMIT              429
TIMEOUT                 408, 504, our own watchdogs
SERVER                  other 5xx (529 too), overload, an error inside a stream without a known kind
INVALID_REQUEST         400, 422
HTTP_404, …             any other status
======================  ====================================================================
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Final, TypeAlias

from turnlog.events import Failure

Redact: TypeAlias = Callable[[str], str]
Headers: TypeAlias = Mapping[str, str]

_CONTEXT: Final = re.compile(
    r"context[_ ]length|context[_ ]window|context[_ ]size|maximum context|context limit|prompt is too long"
    r"|input is too long|too many (?:input )?tokens|reduce the length of the messages|request_too_large",
    re.IGNORECASE,
)
_QUOTA: Final = re.compile(
    r"insufficient[_ ](?:quota|balance|credits?|funds)|billing|exceeded your current quota|credit balance",
    re.IGNORECASE,
)
_RATE: Final = re.compile(r"rate.?limit|too_many_requests", re.IGNORECASE)
_KINDS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"authentication|permission|invalid_api_key|unauthorized|forbidden", re.IGNORECASE), "AUTH"),
    (re.compile(r"timeout|timed.?out", re.IGNORECASE), "TIMEOUT"),
    (re.compile(r"overloaded|server|api_error|unavailable", re.IGNORECASE), "SERVER"),
    (re.compile(r"invalid_request|bad_request|BadRequest", re.IGNORECASE), "INVALID_REQUEST"),
)
_STATUSES: Final[Mapping[int, str]] = {
    400: "INVALID_REQUEST",
    401: "AUTH",
    402: "QUOTA",
    403: "AUTH",
    408: "TIMEOUT",
    422: "INVALID_REQUEST",
    429: "RATE_LIMIT",
    504: "TIMEOUT",
}
_REQUEST_IDS: Final = ("x-request-id", "request-id", "x-ds-trace-id", "x-amzn-requestid", "x-amzn-request-id", "cf-ray")

MAX_MESSAGE: Final = 2000
"""Characters of a provider's message that are kept: some send whole HTML pages."""


def of_response(status: int, headers: Headers, body: bytes, redact: Redact) -> Failure:
    """The failure that an HTTP response other than 2xx stands for."""
    said = _Said.of(_parse(body), body)
    code = said.code_for(status) or _STATUSES.get(status) or ("SERVER" if status >= 500 else f"HTTP_{status}")
    return Failure(
        message=tidy(redact, said.message or f"HTTP {status}"),
        code=code,
        status=status if 100 <= status <= 599 else None,
        provider_retry_after_ms=retry_after_ms(headers),
        request_id=request_id(headers) or said.request_id,
    )


def of_event(error: object, headers: Headers, redact: Redact) -> Failure:
    """The failure that an error inside a 200 stream stands for."""
    said = _Said.of(error, b"")
    status = said.status
    code = said.code_for(status) or (_STATUSES.get(status) if status is not None else None) or "SERVER"
    return Failure(
        message=tidy(redact, said.message or "the provider reported an error inside the stream"),
        code=code,
        status=status,
        provider_retry_after_ms=retry_after_ms(headers),
        request_id=said.request_id or request_id(headers),
    )


def retry_after_ms(headers: Headers, now: float | None = None) -> float | None:
    """How long the provider asks to wait; None where it does not say, or says a time that is over."""
    exact = _number(headers.get("retry-after-ms"))
    if exact is not None:
        return exact
    said = headers.get("retry-after")
    seconds = _number(said)
    if seconds is not None:
        return seconds * 1000
    try:
        at = parsedate_to_datetime(said or "").timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    left = (at - (time.time() if now is None else now)) * 1000
    return left if left > 0 else None


def request_id(headers: Headers) -> str | None:
    """The provider's id of the request, for its support."""
    return next((value for name in _REQUEST_IDS if (value := headers.get(name))), None)


class _Said:
    """An error body, read as far as it can be."""

    __slots__ = ("kind", "message", "request_id", "status")

    def __init__(self, message: str, kind: str, status: int | None, request_id: str | None) -> None:
        self.message = message
        self.kind = kind
        self.status = status
        self.request_id = request_id

    @classmethod
    def of(cls, value: object, body: bytes) -> _Said:
        outer = value if isinstance(value, dict) else {}
        inner = outer.get("error", outer)
        if not isinstance(inner, dict):
            inner = {"message": inner}
        message = _text(inner.get("message")) or _text(outer.get("message")) or _text(outer.get("detail"))
        message = message or _text(value) or body.decode(errors="replace").strip()
        kinds = [_text(inner.get(key)) for key in ("code", "type", "status", "error_type")]
        named = _text(outer.get("request_id"))
        return cls(message, " ".join(filter(None, kinds)), _status(inner) or _status(outer), named or None)

    def code_for(self, status: int | None) -> str | None:
        """What its words say, where they say more than the status."""
        words = f"{self.kind} {self.message}"
        if _RATE.search(self.kind) and not _QUOTA.search(words) and status in (None, 413, 429):
            return "RATE_LIMIT"  # also of tokens per minute, which reads like a context that is too long
        if (status is None or status in (400, 413, 422, 500)) and _CONTEXT.search(words):
            return "CONTEXT_WINDOW_EXCEEDED"
        if (status is None or status in (400, 403, 429)) and _QUOTA.search(words):
            return "QUOTA"
        if status is None:
            return next((code for pattern, code in _KINDS if pattern.search(self.kind)), None)
        return None


def _status(value: Mapping[str, object]) -> int | None:
    for key in ("status", "status_code", "code", "http_code"):
        found = value.get(key)
        if isinstance(found, str) and found.isdecimal():
            found = int(found)
        if type(found) is int and 400 <= found <= 599:
            return found
    return None


def _text(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    return "" if value is None or isinstance(value, bool) else json.dumps(value, ensure_ascii=False, default=str)


def _parse(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def tidy(redact: Redact, message: str) -> str:
    """A provider's words as a failure may keep them: without keys, and not too many."""
    message = redact(message).encode(errors="replace").decode()  # no lone surrogates: the log refuses them
    return message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…"


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number > 0 else None

"""Model-visible means recorded: a request is compared with the log right before it leaves."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any

from turnlog.events import Message
from turnlog.events.lossless import plain
from turnlog.log import Session
from turnlog.log.proof import HEADERS
from turnlog.model import Request


def difference(session: Session, request: Request) -> str | None:
    """None when *request* is exactly what the log projects to; otherwise what differs, readably.

    Messages that share storage with the projection are compared by identity and length; only others are walked.
    """
    headers = session.project(HEADERS)
    header = headers[-1] if headers else None
    if header is not request.header and header != request.header:
        return _told("request header", "the log's request/header", plain(header), plain(request.header))
    logged = session.derive_messages()
    if request.messages == logged:
        return None
    return _first_message(logged, request.messages)


def _first_message(logged: Sequence[Message], sent: Sequence[Message]) -> str:
    for index, (mine, theirs) in enumerate(zip(logged, sent, strict=False)):
        if mine != theirs:
            return _told(f"message {index}", "the log's", plain(mine), plain(theirs))
    index = min(len(logged), len(sent))
    if len(sent) > len(logged):
        what = _told(f"message {index}", "no such message in the log", None, plain(sent[index]))
    else:
        what = _told(f"message {index}", "the log's, which was left out", plain(logged[index]), None)
    return f"{what}\nthe log shows {len(logged)} messages, the request has {len(sent)}"


def _told(what: str, which: str, logged: Any, sent: Any) -> str:
    lines = difflib.unified_diff(_lines(logged), _lines(sent), which, "the request's", lineterm="", n=1)
    return (
        f"{what} of the request is not what the log shows; what a model sees has to be logged first "
        "(add messages in agent/pre-step, settings in agent/request):\n" + "\n".join(lines)
    )


def _lines(value: Any) -> list[str]:
    return [] if value is None else json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True).splitlines()

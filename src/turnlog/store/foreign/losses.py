"""What the files of each program never hold, whatever is in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .dialect import Kind

_NO_STREAM: Final = (
    "no-stream",
    "answers stand in the file when they are over: no chunks, so no first token's time and nothing of an answer that "
    "was cut off",
)
_NO_STARTS: Final = (
    "no-call-starts",
    "when a call began is not in the file: the time of its block in the answer stands for it",
)
_MEMBERS: Final = (
    "other-members",
    "members of mapped records that no event has a place for (version, git branch, request id and the like) are in the "
    "file only, at the line that an event names",
)

LOSSES: Final[Mapping[Kind, tuple[tuple[str, str], ...]]] = {
    "claude-code": (
        _NO_STREAM,
        _NO_STARTS,
        _MEMBERS,
        ("no-request", "system prompt, tools and settings of the requests are not in the file, the model's name is"),
        ("no-approvals", "what a person was asked before a call, and what they answered, is not in the file"),
    ),
    "codex": (
        _NO_STREAM,
        _NO_STARTS,
        _MEMBERS,
        ("no-tools", "the tools that requests carried are not in the file"),
        ("inferred-answers", "which items one request gave is not in the file: results and token counts divide them"),
        ("hidden-reasoning", "reasoning is in the file as a summary and in encrypted form"),
        ("no-approvals", "what a person was asked before a call, and what they answered, is not in the file"),
    ),
    "chat": (
        _NO_STREAM,
        _NO_STARTS,
        ("no-failures", "failed requests, retries and which results were errors are not in the file"),
    ),
}
"""(code, text) for each."""

"""The first line of a log: which session it is, and of which format (dsh-v0 §7.2, dsh-formats §3)."""

from __future__ import annotations

from typing import Any, Final

from turnlog.events.lossless import MAX_SAFE, dump
from turnlog.log import SessionHeader
from turnlog.log.header import is_absolute

from .formats import FORMATS, NEWEST

_KEYS: Final = frozenset(
    {"type", "version", "id", "createdAt", "delegationDepth", "cwd", "parentSession", "origin", "agentPreset"}
)


class HeaderRefused(ValueError):
    """Why a first line is no header that this build reads; *newer* says that its format is from a newer dsh."""

    def __init__(self, text: str, *, newer: bool = False) -> None:
        super().__init__(text)
        self.newer = newer


def read_header(value: Any) -> tuple[SessionHeader, list[str]]:
    """The header of a decoded first line, and what a stricter reader would refuse about it.

    The version is looked at before anything else, so that a future format is named as such whatever its header holds.
    """
    if not isinstance(value, dict) or value.get("type") != "session":
        raise HeaderRefused("the first line is no session header.")
    version = value.get("version")
    if type(version) is not int or version < 0:
        raise HeaderRefused(f"the header's version is {version!r}, not a format number.")
    if version not in FORMATS:
        raise HeaderRefused(
            f"format {version} was written by a newer dsh; this build reads formats 0 to {NEWEST}.", newer=True
        )
    _require(value, version)
    header = SessionHeader(
        version=version,
        id=value["id"],
        created_at=int(value["createdAt"]),
        cwd=value.get("cwd"),
        parent_session=value.get("parentSession"),
        seed_length=int(value["seedLength"]) if "seedLength" in value else None,
        origin=value.get("origin"),
        delegation_depth=int(value.get("delegationDepth", 0)),
        agent_preset=value.get("agentPreset"),
    )
    return header, _oddities(value, version)


def header_line(header: SessionHeader) -> bytes:
    """The first line of a format-0 log, without the newline: ``delegationDepth`` is always written."""
    members: dict[str, Any] = {
        "type": "session",
        "version": header.version,
        "id": header.id,
        "createdAt": header.created_at,
        "cwd": header.cwd,
        "parentSession": header.parent_session,
        "seedLength": header.seed_length,
        "origin": header.origin,
        "delegationDepth": header.delegation_depth,
        "agentPreset": header.agent_preset,
    }
    return dump({name: value for name, value in members.items() if value is not None})


def _require(value: dict[str, Any], version: int) -> None:
    if not isinstance(value.get("id"), str) or not value["id"]:
        raise HeaderRefused("the header has no session id.")
    for name in ("createdAt", "delegationDepth", "seedLength"):
        count: Any = value.get(name, 0 if name != "createdAt" else None)
        if type(count) not in (int, float) or not 0 <= count <= MAX_SAFE or count != int(count):
            raise HeaderRefused(f"the header's {name} is {count!r}, not an integer from 0 to 2**53 - 1.")
    for name in ("cwd", "parentSession", "agentPreset"):
        if name in value and not isinstance(value[name], str):
            raise HeaderRefused(f"the header's {name} is no string.")
    if value.get("origin", "subagent") != "subagent":
        raise HeaderRefused(f"the header's origin is {value['origin']!r}; only 'subagent' exists.")
    if version >= 2 and not isinstance(value.get("isSeeded"), bool):
        raise HeaderRefused("the header does not say isSeeded, which formats 2 and later must.")


def _oddities(value: dict[str, Any], version: int) -> list[str]:
    odd = []
    if "delegationDepth" not in value:
        odd.append("the header has no delegationDepth")
    if "cwd" in value and not is_absolute(value["cwd"]):
        odd.append(f"the header's cwd {value['cwd']!r} is not absolute")
    allowed = _KEYS | ({"isSeeded"} if version >= 2 else {"seedLength"})
    odd += [f"the header has a member {name!r} that format {version} does not" for name in value if name not in allowed]
    return odd

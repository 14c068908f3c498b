"""What a docstring says about a tool and its parameters: Google, NumPy and reST sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_HEADS: Final = frozenset({"args", "arguments", "parameters", "params"})
_OTHER_HEADS: Final = frozenset(
    {"returns", "return", "yields", "raises", "examples", "example", "notes", "note", "see also", "attributes"}
)
_REST: Final = re.compile(r":param(?:\s+[^:\s]+)*?\s+\*{0,2}(\w+)\s*:\s*(.*)")
_REST_OTHER: Final = re.compile(r":(?:returns?|rtype|raises?|type|yields?)\b.*:")
_GOOGLE: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY: Final = re.compile(r"\*{0,2}(\w+)\s*(?::.*)?")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """The description, and what is said of each parameter on one line, from what ``inspect.getdoc`` gives."""
    lines = (text or "").split("\n")
    description: list[str] = []
    parameters: dict[str, str] = {}
    at = 0
    while at < len(lines):
        style = _section(lines, at)
        if style is None and not (_REST.match(lines[at]) or _REST_OTHER.match(lines[at])):
            description.append(lines[at])
            at += 1
            continue
        end = _end_of(lines, at, style)
        if style in ("google", "numpy") and _head(lines[at]) in _HEADS:
            start = at + (2 if style == "numpy" else 1)
            parameters |= dict(_entries(lines[start:end], _NUMPY if style == "numpy" else _GOOGLE, style))
        elif found := _REST.match(lines[at]):
            parameters[found[1]] = _join([found[2], *lines[at + 1 : end]])
        at = end
    return "\n".join(description).strip(), parameters


def _head(line: str) -> str:
    return line.strip().removesuffix(":").lower()


def _section(lines: list[str], at: int) -> str | None:
    line = lines[at]
    if line[:1].isspace() or _head(line) not in _HEADS | _OTHER_HEADS:
        return None
    if at + 1 < len(lines) and re.fullmatch(r"-{3,}\s*", lines[at + 1]):
        return "numpy"
    return "google" if line.rstrip().endswith(":") else None


def _end_of(lines: list[str], at: int, style: str | None) -> int:
    end = at + (2 if style == "numpy" else 1)
    while end < len(lines):
        line = lines[end]
        if style == "numpy":
            if _section(lines, end):
                break
        elif (line and not line[0].isspace()) or (style is None and not line.strip()):
            break
        end += 1
    return end


def _entries(lines: list[str], entry: re.Pattern[str], style: str) -> Iterator[tuple[str, str]]:
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    if not indents:
        return
    name, said = "", list[str]()
    for line in lines:
        begins = line.strip() and len(line) - len(line.lstrip()) == min(indents)
        if begins and (found := entry.fullmatch(line.strip())):
            if name:
                yield name, _join(said)
            name, said = found[1], [found[2]] if style == "google" else []
        else:
            said.append(line)
    if name:
        yield name, _join(said)


def _join(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())

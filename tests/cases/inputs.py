"""Where the inputs of the reported faults lie."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CASES: Final = Path(__file__).parent.parent / "data" / "cases"


def case(number: int, name: str = "session.jsonl") -> Path:
    """An input of case BC-*number*."""
    path = CASES / f"BC-{number:03}" / name
    assert path.exists(), path
    return path

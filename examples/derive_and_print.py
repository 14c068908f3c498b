"""Derive and print: the model's messages, the moment before each answer, and another projection of the same events.

Nothing here is stored anywhere but in the events. Usage: python examples/derive_and_print.py [LOG]
"""

import sys
from pathlib import Path

import turnlog
from turnlog import Projector
from turnlog.events import AssistantMessage, Payload, ToolCallBlock, ToolResultBlock

SAMPLE = Path(__file__).parent / "data" / "sample.jsonl"


def spoken(event: turnlog.SessionEvent[Payload]) -> str | None:
    """One line for people: who said what; results are told by their size."""
    message = event.message
    if message is None:
        return None
    parts = []
    for block in message.content:
        match block:
            case ToolCallBlock(name=name):
                parts.append(f"(calls {name})")
            case ToolResultBlock(content=content):
                parts.append(f"(result with {len(content)} block)")
            case _:
                parts.append(getattr(block, "text", ""))
    return f"{message.role}: {' '.join(parts)}"


def main(log: Path) -> None:
    session = turnlog.load(log)
    for line in session.project(Projector("spoken", spoken)):
        print(line)
    for event in session.select(AssistantMessage):
        seen = session.derive_messages(at=event.seq)
        cited = "unknown" if event.sources is None else len(event.sources)
        print(f"answer @{event.seq} was given after {len(seen)} message(s) and rests on {cited} chunks")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE)

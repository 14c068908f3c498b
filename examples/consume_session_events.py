"""Consume a session's event stream: keep every event, collect the boundaries, derive the messages on the way.

A consumer that wants to replay later keeps the events, not the messages: boundaries, chunks and raw arguments are
only there. Usage: python examples/consume_session_events.py [LOG]
"""

import sys
from pathlib import Path

import turnlog
from turnlog import Message, SessionEvent
from turnlog.events import Payload, StepEnd, StepStart, TurnEnd, TurnStart

SAMPLE = Path(__file__).parent / "data" / "sample.jsonl"


class Consumer:
    """Gets every event once and in order, history first."""

    def __init__(self) -> None:
        self.events: list[SessionEvent[Payload]] = []
        self.boundaries: list[tuple[str, int]] = []
        self.messages: list[Message] = []

    def __call__(self, event: SessionEvent[Payload]) -> None:
        self.events.append(event)
        match event.data:
            case TurnStart() | TurnEnd() | StepStart() | StepEnd():
                self.boundaries.append((event.type, event.seq))
            case _ if (message := event.message) is not None:
                self.messages.append(message)
            case _:
                pass


def main(log: Path) -> None:
    session = turnlog.load(log)
    consumer = Consumer()
    session.subscribe(consumer, from_seq=0)
    print("events:", len(consumer.events))
    print("boundaries:", len(consumer.boundaries))
    print("messages:", len(consumer.messages))
    last = consumer.events[-1]
    print("last event: seq", last.seq, "time", last.time)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE)

"""Parse a session log: mark its turn and step boundaries, then rebuild what the model sees.

Usage: python examples/parse_session_log.py [LOG]
"""

import sys
from pathlib import Path

import turnlog
from turnlog.events import AssistantChunk, StepEnd, StepStart, ToolCall, TurnEnd, TurnStart, thaw
from turnlog.events.lossless import plain

SAMPLE = Path(__file__).parent / "data" / "sample.jsonl"


def main(log: Path) -> None:
    session = turnlog.load(log)

    for event in session.events:
        match event.data:
            case TurnStart(turn=turn):
                print(f"[turn/start] turn={turn}")
            case TurnEnd(turn=turn, reason=reason):
                print(f"[turn/end] turn={turn} reason={plain(reason)}")
            case StepStart(turn=turn, step=step):
                print(f"  [step/start] turn={turn} step={step}")
            case StepEnd(turn=turn, step=step):
                print(f"  [step/end] turn={turn} step={step}")
            case AssistantChunk(chunk=chunk):
                print(f"  chunk: {plain(chunk)['type']}")
            case ToolCall(name=name, arguments=arguments):
                print(f"  tool/call: {name} args={arguments}")
            case _:
                pass

    print("\nWhat the model sees:")
    for message in session.derive_messages():
        print(f"  [{message.role}] {thaw(plain(message.content))}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE)

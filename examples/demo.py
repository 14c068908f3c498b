"""`make demo`: replay a real session at four times its speed, then ask it the questions a log can answer.

The session was recorded by dsh against a scripted model. No key, no server, nothing is written.
"""

import sys
from pathlib import Path

from turnlog.cli import main as turnlog

SESSION = str(Path(__file__).parent / "data" / "session.jsonl.zstd")


def show(title: str, *arguments: str) -> int:
    """Print a command and run it."""
    print(f"\n── {title}\n$ turnlog {' '.join(arguments).replace(SESSION, 'session.jsonl.zstd')}", flush=True)
    return turnlog(["--no-pager", *arguments])


def main() -> int:
    results = [
        show("The session again, at four times its recorded speed", "replay", SESSION, "--speed", "4"),
        show("Its outline", "show", SESSION),
        show("What the model sees, derived from the log", "messages", SESSION),
        show("By turn: every event of turn 1", "turn", SESSION, "1"),
        show("By call: the life of one tool call", "call", SESSION, "call_52_0"),
        show("By sources: what an answer rests on, and what rests on it", "sources", SESSION, "@25"),
        show("Every rule, checked", "verify", SESSION),
    ]
    return max(results)


if __name__ == "__main__":
    sys.exit(main())

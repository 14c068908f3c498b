"""`make demo`: an agent fixes a typo in a small project, then its session is asked what a log can answer.

The model is scripted, and served over real HTTP and server-sent events on loopback: no key, no network. Everything else
is what `turnlog run` always does, with the built-in tools on real files.
"""

import os
import sys
import tempfile
from pathlib import Path

import turnlog
from turnlog.cli import main as command
from turnlog.events import AssistantMessage
from turnlog.model import call, reasoning, text, usage
from turnlog.store.discover import latest, own_root
from turnlog.testing import LoopbackServer, reply

TASK = "There is a typo in the greeting. Find it and fix it."
PROJECT = {
    "README.md": "# Greeter\n\nSays hello. Run `python greeter.py NAME`.\n",
    "greeter.py": 'import sys\n\n\ndef greet(name):\n    return f"Helo, {name}!"\n\n\nprint(greet(sys.argv[1]))\n',
    "test_greeter.py": 'from greeter import greet\n\nassert greet("Ada") == "Hello, Ada!"\n',
}
PAUSE = 0.03
"""Seconds between two pieces of an answer."""

SCRIPT = [
    reply(
        reasoning("The greeting ", "must be in ", "the Python file."),
        text("I will ", "look for ", "the greeting."),
        call("grep", id="call_grep", pattern="Hel+o"),
        usage(412, 38),
        pause=PAUSE,
    ),
    reply(
        text("There it is, in greeter.py."),
        call("read", id="call_read", path="greeter.py"),
        usage(498, 24),
        pause=PAUSE,
    ),
    reply(call("edit", id="call_edit", path="greeter.py", old='"Helo, ', new='"Hello, '), usage(560, 41), pause=PAUSE),
    reply(
        text("`greeter.py` ", "said “Helo”. ", "It says “Hello” now, ", "which is what the test expects."),
        usage(640, 29),
        pause=PAUSE,
    ),
]


def show(title: str, *arguments: str) -> int:
    """Print a command and run it."""
    words = " ".join(f"'{one}'" if " " in one else one for one in arguments)
    print(f"\n── {title}\n$ turnlog {words}", flush=True)
    return command(["--no-pager", *arguments])


def work(project: Path) -> int:
    """Let the agent do its task, and show what changed."""
    before = (project / "greeter.py").read_text().splitlines()
    with LoopbackServer(SCRIPT) as server:
        os.environ["TURNLOG_MODEL"], os.environ["OPENAI_BASE_URL"] = "openai/scripted", server.base_url
        code = show("An agent at work", "run", TASK, "--workspace", str(project))
    after = (project / "greeter.py").read_text().splitlines()
    changed = [f"- {old}\n+ {new}" for old, new in zip(before, after, strict=True) if old != new]
    print("\n── What it changed in greeter.py\n" + "\n".join(changed), flush=True)
    return code if changed else 1


def ask() -> int:
    """Everything else is read from the log."""
    session = turnlog.load(latest([own_root()]))
    answer = next(event.seq for event in session.select(AssistantMessage))
    return max(
        show("The session's outline", "show", "--latest"),
        show("What the model sees, derived from the log", "messages", "--latest"),
        show("By turn: every event of turn 1", "turn", "--latest", "1"),
        show("By call: the life of the edit", "call", "--latest", "call_edit"),
        show("By sources: what an answer rests on, and what rests on it", "sources", "--latest", f"@{answer}"),
        show("Every rule checked, every byte sealed, every request proven", "verify", "--latest"),
        show("The session again, at four times its speed", "replay", "--latest", "--speed", "4"),
    )


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="turnlog-demo-") as directory:
        project = Path(directory) / "greeter"
        project.mkdir()
        for name, content in PROJECT.items():
            (project / name).write_text(content)
        os.environ["TURNLOG_HOME"] = str(Path(directory) / "home")
        return max(work(project), ask())


if __name__ == "__main__":
    sys.exit(main())

"""On the documents' sample every command prints what their own script prints, or what is written down beside it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from tests.cli.running import Ran, golden, spawn
from tests.views.logs import SAMPLE

SCRIPT = """
import json
import sys

def derive_messages(events):
    messages = []
    for ev in events:
        t = ev["type"]
        d = ev["data"]
        if t == "user/message":
            messages.append({"role": "user", "content": d["content"]})
        elif t == "assistant/message":
            if d["message"].get("content"):
                messages.append({"role": "assistant", "content": d["message"]["content"]})
        elif t == "tool/result":
            messages.append({"role": "tool", "name": d["message"]["toolName"], "content": d["message"]["content"]})
    return messages

with open(sys.argv[1], encoding="utf-8") as f:
    events = [json.loads(line) for line in f if line.strip()]
for ev in events:
    d = ev["data"]
    if ev["type"] == "turn/start":
        print(f"[turn/start] turn={d['turn']}")
    elif ev["type"] == "turn/end":
        print(f"[turn/end] turn={d['turn']} reason={d['reason']}")
    elif ev["type"] == "step/start":
        print(f"  [step/start] turn={d['turn']} step={d['step']}")
    elif ev["type"] == "step/end":
        print(f"  [step/end] turn={d['turn']} step={d['step']}")
    elif ev["type"] == "assistant/chunk":
        print(f"  chunk: {d['chunk']['type']}")
    elif ev["type"] == "tool/call":
        print(f"  tool/call: {d['name']} args={d['arguments']}")
print("----")
for m in derive_messages(events):
    if m["role"] == "tool":
        print(f"  [tool] {m['name']}: {m['content']}")
    else:
        print(f"  [{m['role']}] {m['content']}")
"""
"""The script that the documents print, word for word where it prints something."""


@pytest.fixture(scope="module")
def script_output() -> tuple[list[str], list[str]]:
    """What the documents' script prints: outline and messages."""
    import subprocess

    done = subprocess.run([sys.executable, "-c", SCRIPT, SAMPLE], capture_output=True, check=True, text=True)
    outline, messages = done.stdout.split("----\n")
    return outline.splitlines(), messages.splitlines()


def test_show_prints_exactly_what_the_documents_script_prints(
    run: Callable[..., Ran], script_output: tuple[list[str], list[str]]
) -> None:
    shown = run("show", SAMPLE)
    assert shown == Ran(0, golden("show"), "")
    assert shown.out.splitlines() == script_output[0]


def test_messages_prints_the_three_messages_of_the_script_in_the_canonical_shape(
    run: Callable[..., Ran], script_output: tuple[list[str], list[str]]
) -> None:
    shown = run("messages", SAMPLE)
    assert shown == Ran(0, golden("messages"), "")
    user, assistant, result = shown.out.splitlines()
    assert user == script_output[1][0]
    assert assistant.startswith(script_output[1][1].partition(", {'type': 'tool_use'")[0])
    assert script_output[1][2] == "  [tool] bash: runoob"
    assert "'tool-result'" in result
    assert "'text': 'runoob'" in result


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("turn", ("turn", SAMPLE, "1")),
        ("turn", ("turn", SAMPLE, "t1")),
        ("call", ("call", SAMPLE, "call_1")),
        ("call", ("call", SAMPLE, "t1.s1.call:call_1")),
        ("sources", ("sources", SAMPLE, "@5")),
        ("sources", ("sources", SAMPLE, "5")),
        ("replay", ("replay", SAMPLE, "--speed", "0")),
    ],
)
def test_the_other_commands_print_what_is_written_down(
    run: Callable[..., Ran], name: str, command: tuple[object, ...]
) -> None:
    assert run(*command) == Ran(0, golden(name), "")


def test_messages_json_is_canonical(run: Callable[..., Ran]) -> None:
    document = run("messages", SAMPLE, "--json").json
    assert document.keys() == {"schemaVersion", "messages"}
    assert document["schemaVersion"] == 1
    assert [message["role"] for message in document["messages"]] == ["user", "assistant", "user"]
    assert document["messages"][2]["content"] == [
        {
            "type": "tool-result",
            "toolCallId": "call_1",
            "content": [{"type": "text", "text": "runoob"}],
            "isError": False,
        }
    ]


def test_events_json_is_the_log_line_by_line(run: Callable[..., Ran]) -> None:
    stored = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    assert run("events", SAMPLE, "--json").json_lines == stored


def test_the_sample_read_from_standard_input_is_the_same() -> None:
    done = spawn("show", "-", stdin=SAMPLE.read_bytes())
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, golden("show"), b"")

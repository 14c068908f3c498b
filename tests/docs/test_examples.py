"""The three programs of the documents print what they say, on the documents' own sample."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SAMPLE = Path(__file__).parents[1] / "data" / "sample.jsonl"

PRINTED = {
    "parse_session_log.py": """\
[turn/start] turn=1
  [step/start] turn=1 step=1
  chunk: text-delta
  chunk: tool-call-delta
  tool/call: bash args={"command":"grep runoob README.md"}
  [step/end] turn=1 step=1
[turn/end] turn=1 reason={'kind': 'completed'}

What the model sees:
  [user] [{'type': 'text', 'text': 'Fix the typo in the runoob README.'}]
  [assistant] [{'type': 'text', 'text': "I'll search"}, {'type': 'tool-call', 'id': 'call_1', 'name': 'bash', \
'arguments': '{"command":"grep runoob README.md"}'}]
  [user] [{'type': 'tool-result', 'toolCallId': 'call_1', 'content': [{'type': 'text', 'text': 'runoob'}], \
'isError': False}]
""",
    "consume_session_events.py": """\
events: 10
boundaries: 4
messages: 3
last event: seq 9 time 1755000000090
""",
    "derive_and_print.py": """\
user: Fix the typo in the runoob README.
assistant: I'll search (calls bash)
user: (result with 1 block)
answer @5 was given after 1 message(s) and rests on 2 chunks
""",
}


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_says_about_the_sample(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, str(SAMPLE)])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert capsys.readouterr().out == PRINTED[name]


def test_the_bundled_sample_is_the_tested_one() -> None:
    assert (EXAMPLES / "data" / "sample.jsonl").read_bytes() == SAMPLE.read_bytes()

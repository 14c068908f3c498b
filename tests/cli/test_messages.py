"""``messages``: what the model sees, now and at any moment before."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Ran
from tests.views.logs import SAMPLE, TOOLS, asks, call, end, log, message, result, root, step, step_end, turn, user


def roles(shown: Ran) -> list[str]:
    return [one["role"] for one in shown.json["messages"]]


def test_before_an_event_is_what_the_model_saw_when_it_was_appended(run: Callable[..., Ran]) -> None:
    assert roles(run("messages", SAMPLE, "--json", "--before", "5")) == ["user"]
    assert roles(run("messages", SAMPLE, "--json", "--after", "5")) == ["user", "assistant"]
    assert roles(run("messages", SAMPLE, "--json", "--before", "@2")) == []
    assert roles(run("messages", SAMPLE, "--json", "--after", "call:call_1")) == ["user", "assistant", "user"]


def test_before_and_after_a_replace_show_what_it_replaced(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    cut = result("c", "cut", surfaceOp={"op": "replace", "start": 5, "end": 5}, sourceEventSeqs=[5])
    path.write_bytes(
        log(turn(), step(), user(), message(asks("c")), call("c"), result("c", "long"), cut, step_end(), end())
    )

    def shown(*options: str) -> str:
        found: str = run("messages", path, "--json", *options).json["messages"][-1]["content"][0]["content"][0]["text"]
        return found

    assert shown("--before", "6") == "long"
    assert shown("--after", "6") == shown() == "cut"


def test_both_or_a_moment_that_is_not_there_are_errors(run: Callable[..., Ran]) -> None:
    assert run("messages", SAMPLE, "--before", "1", "--after", "2").code == 2
    assert run("messages", SAMPLE, "--before", "x").code == 2
    shown = run("messages", SAMPLE, "--after", "10")
    assert (shown.code, shown.out) == (1, "")
    assert "there are @0 to @9" in shown.err


def test_messages_of_closers_are_marked_and_left_out_as_stored(run: Callable[..., Ran]) -> None:
    lines = run("messages", "crashed", "--root", root(0)).out.splitlines()
    assert lines[-1].endswith("(synthetic: interrupted, not repaired)")
    assert not any("synthetic" in line for line in lines[:-1])
    document = run("messages", "crashed", "--root", root(0), "--json").json
    assert document["synthetic"] == [5]
    assert len(document["messages"]) == 6
    stored = run("messages", "crashed", "--root", root(0), "--json", "--as-stored").json
    assert (len(stored["messages"]), "synthetic" in stored) == (5, False)


def test_format_4_results_are_user_messages_with_a_result_block(run: Callable[..., Ran]) -> None:
    document = run("messages", TOOLS[4], "--root", root(4), "--json").json
    (found,) = [one for one in document["messages"] if one["content"][0]["type"] == "tool-result"]
    assert (found["role"], found["content"][0]["toolCallId"]) == ("user", "call_3_0")


def test_unknown_members_and_blocks_are_kept(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    novel = {"type": "novel", "deep": {"x": [1, 2.5, None]}}
    path.write_bytes(log(turn(), step(), message({"type": "text", "text": "a", "extra": 1}, novel), step_end(), end()))
    (found,) = run("messages", path, "--json").json["messages"]
    assert found["content"] == [{"type": "text", "text": "a", "extra": 1}, novel]
    assert "'extra': 1" in run("messages", path).out
    assert "'novel'" in run("messages", path).out


@pytest.mark.parametrize("name", sorted(path.stem for path in (root(0) / "expected").glob("*.json")))
def test_messages_as_stored_are_those_that_dsh_derives(run: Callable[..., Ran], name: str) -> None:
    expected = json.loads((root(0) / "expected" / f"{name}.json").read_text())
    shown = run("messages", name, "--root", root(0), "--json", "--as-stored")
    assert shown.json["messages"] == expected["messages"]

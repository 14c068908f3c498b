"""``turnlog context``, ``diff`` and ``fork``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import turnlog
from tests.cli.running import Ran
from tests.log import sessions
from tests.store.test_fork import kept, of
from tests.views.logs import LONG, SAMPLE, TOOLS, root
from tests.views.test_context import TOO_LONG, written
from tests.views.test_diff import Step
from tests.views.test_diff import written as scripted
from turnlog.model import call, text

Run = Callable[..., Ran]

PRUNED = ([call("huge")], TOO_LONG, [text("Short now.")])


# -- context --------------------------------------------------------------------------------------------------------


def test_context_shows_the_request_and_that_it_is_confirmed(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, [call("echo", said="a")], [text("Done.")]).path
    shown = run("context", path, "t1.s2")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0].startswith("t1.s2.a1  the request of session ")
    assert lines[1].startswith("  model      scripted/")
    assert "  system     5 bytes  Work." in lines
    assert any(line.startswith("  tools ") and line.endswith("echo, huge") for line in lines)
    assert [line.split()[1] for line in lines if line.startswith("    @")] == ["user", "assistant", "user"]
    assert lines[-1] == "  proof      confirmed: the hash kept when it left is the hash of this"


def test_context_as_json_holds_the_request_and_its_body(run: Run, tmp_path: Path) -> None:
    session = written(tmp_path, [text("Done.")])
    shown = run("context", session.path, "t1.s1", "--json").json
    assert shown["schemaVersion"] == 1
    assert (shown["address"], shown["proof"]["state"], shown["wire"]) == ("t1.s1.a1", "confirmed", None)
    assert shown["header"]["system"] == "Work."
    assert [one["message"]["content"][0]["text"] for one in shown["messages"]] == ["Number 0."]
    assert shown["at"] == shown["proof"]["seq"]


def test_the_body_alone_goes_to_other_programs(run: Run, tmp_path: Path) -> None:
    header = {"config": {"provider": "deepseek", "model": "chat"}, "system": "Work."}
    events = [
        {"type": "turn/start", "data": {"turn": 1}},
        {"type": "step/start", "data": {"turn": 1, "step": 1}},
        {"type": "request/header", "data": {"header": header, "reason": "initial"}},
    ]
    path = tmp_path / "log.jsonl"
    first = {"type": "session", "version": 0, "id": "s", "createdAt": 1, "delegationDepth": 0}
    lines = [first, *({**event, "seq": seq, "time": 1} for seq, event in enumerate(events))]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    shown = run("context", path, "t1.s1", "--wire")
    assert shown.json["messages"] == [{"role": "system", "content": "Work."}]
    assert shown.json["model"] == "chat"
    unknown = run("context", root(0) / "--home-dev-project--" / TOOLS[0], "t1.s1", "--wire")
    assert (unknown.code, unknown.out) == (1, "")


def test_context_diff_says_where_the_cache_broke_and_what_broke_it(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, *PRUNED).path
    shown = run("context", path, "t1.s2.a2", "--diff", "t1.s2.a1")
    lines = shown.out.splitlines()
    assert lines[1].startswith("  = 2 messages")
    assert lines[2].startswith("  ~ @")
    assert "instead of @" in lines[2]
    assert lines[3].startswith("  cache      broke at byte ")
    as_json = run("context", path, "t1.s2.a2", "--diff", "t1.s2.a1", "--json").json
    assert [row["mark"] for row in as_json["messages"]] == ["=", "=", "~"]
    assert as_json["cache"]["type"] == "tool/result"
    assert as_json["cache"]["seq"] == as_json["messages"][2]["right"][0]["seq"]
    kept = run("context", path, "t1.s2.a1", "--diff", "t1.s1")
    assert kept.out.splitlines()[-1] == "  cache      kept: the prompt goes on where it ended"


def test_a_projector_of_ones_own_is_looked_for_in_the_directory(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "root", [call("echo", said="a")], [text("Done.")]).path
    (tmp_path / "mine_alone.py").write_text("def nothing(event):\n    return None\nnumber = 1\n")
    monkeypatch.chdir(tmp_path)
    shown = run("context", path, "t1.s2", "--projector", "mine_alone:nothing")
    assert [line[2] for line in shown.out.splitlines()] == ["-", "-", "-"]
    for wrong in ("mine_alone", "mine_alone:number", "mine_alone:absent", "nowhere_at_all:x"):
        assert run("context", path, "t1.s2", "--projector", wrong).code == 2


def test_wrong_uses_say_what_to_do(run: Run) -> None:
    assert run("context", SAMPLE, "t1.s1", "--wire", "--diff", "t1.s1").code == 2
    assert run("context", SAMPLE, "t1").code == 2
    unknown = run("context", SAMPLE, "t1.s9")
    assert (unknown.code, "the steps of t1 are t1.s1" in unknown.err) == (1, True)


# -- diff -----------------------------------------------------------------------------------------------------------


def stored(path: Path, steps: list[Step]) -> Path:
    session = scripted([("p", steps)])
    header = {"type": "session", "version": 0, "id": path.stem, "createdAt": 1, "delegationDepth": 0}
    path.write_bytes(b"\n".join([json.dumps(header).encode(), *(event.line() for event in session.events), b""]))
    return path


@pytest.mark.parametrize("over", ["structure", "events", "messages", "context"])
def test_the_exit_code_says_whether_they_are_the_same(run: Run, tmp_path: Path, over: str) -> None:
    steps = [Step("one", [("bash", '{"a":1}', "out")]), Step("two")]
    one = stored(tmp_path / "one.jsonl", steps)
    same = stored(tmp_path / "same.jsonl", steps)
    other = stored(tmp_path / "other.jsonl", [Step("one", [("bash", '{"a":1}', "changed")]), Step("two")])
    options = ["--over", over, *(["--at", "t1.s2"] if over == "context" else [])]
    assert run("diff", one, same, *options).code == 0
    assert run("diff", one, same, *options, "--json").json["same"] is True
    shown = run("diff", one, other, *options)
    assert shown.code == 1
    assert "changed" in shown.out or over == "context"
    as_json = run("diff", one, other, *options, "--json")
    assert (as_json.code, as_json.json["same"]) == (1, False)


def test_diff_says_where_two_sessions_part_and_how_their_figures_differ(run: Run, tmp_path: Path) -> None:
    one = stored(tmp_path / "one.jsonl", [Step("one", [("bash", '{"a":1}', "out")])])
    other = stored(tmp_path / "other.jsonl", [Step("one", [("bash", '{"a":1}', "err")], tokens=12), Step("more")])
    lines = run("diff", one, other).out.splitlines()
    assert lines[:6] == [
        "they part at t1.s1.call:c0: result",
        "  ~ t1.s1.call:c0  result",
        "      - out",
        "      + err",
        "  ~ t1.s1  tokens",
        '      - {"input":10}',
    ]
    assert "  + t1.s2  step  more" in lines
    assert "  inputTokens               10         22  +12" in lines
    found = run("diff", one, other, "--json").json
    assert found["first"] == {
        "kind": "result",
        "leftAddress": "t1.s1.call:c0",
        "rightAddress": "t1.s1.call:c0",
        "left": "out",
        "right": "err",
    }


def test_over_context_needs_to_know_which(run: Run) -> None:
    assert run("diff", SAMPLE, SAMPLE, "--over", "context").code == 2
    assert run("diff", SAMPLE, SAMPLE, "--at", "t1.s1").code == 2
    assert run("diff", "-", "-").code == 2


def test_sessions_of_different_formats_are_compared(run: Run) -> None:
    paths = [root(version) / "--home-dev-project--" / LONG[version] for version in (0, 3)]
    shown = run("diff", *paths, "--json")
    assert shown.code in (0, 1)
    assert shown.json["totals"]["left"]["steps"] == shown.json["totals"]["right"]["steps"]


# -- fork -----------------------------------------------------------------------------------------------------------


def test_fork_prints_the_id_of_a_session_that_loads(run: Run, tmp_path: Path) -> None:
    session = written(tmp_path, [call("echo", said="a")], [text("Done.")])
    shown = run("fork", session.path, "t1.s1")
    assert shown.code == 0
    child = turnlog.load(next(tmp_path.glob(f"*/{shown.out.strip()}/session.jsonl")))
    at = child.header.seed_length
    assert at is not None
    assert child.event(at - 1).type == "step/end"
    assert f"it inherits {at} events of {session.id}" in shown.err
    assert run("verify", shown.out.strip(), "--root", tmp_path).code == 0


def test_fork_before_a_call_has_none_of_it(run: Run, tmp_path: Path) -> None:
    session = written(tmp_path, [call("echo", said="a")], [text("Done.")])
    block = turnlog.views.calls(session)[0]
    made = run("fork", session.path, block.address, "--before", "--id", "again", "--json").json
    assert (made["id"], made["parent"]) == ("again", session.id)
    child = turnlog.load(made["path"])
    assert all(event.type != "tool/call" for event in child.events)


def test_fork_of_another_format_names_convert(run: Run, tmp_path: Path) -> None:
    for version in (3, 4):
        refused = run("fork", root(version) / "--home-dev-project--" / TOOLS[version], "t1", "--out", tmp_path)
        assert (refused.code, "turnlog convert" in refused.err) == (3, True)
        inside = run("fork", root(version) / "--home-dev-project--" / TOOLS[version], "@8/0", "--out", tmp_path)
        assert inside.code in (1, 3)
    assert run("fork", SAMPLE, "@3", "--out", tmp_path).code == 3
    assert list(tmp_path.iterdir()) == []


def test_fork_refuses_what_is_taken_or_lies_nowhere(run: Run, tmp_path: Path) -> None:
    path = kept(tmp_path, of(sessions.in_step()))
    assert run("fork", path, "@1", "--id", "parent").code == 3
    assert run("fork", path, "@1", "--id", "").code == 2
    assert run("fork", path, "@9").code == 1
    alone = tmp_path / "alone.jsonl"
    alone.write_bytes(path.read_bytes())
    assert "say where its fork goes" in run("fork", alone, "@1").err
    assert run("fork", alone, "@1", "--out", tmp_path).code == 0

"""``search`` and ``index``: what was said, with its address; what was read because the index does not hold it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Ran
from tests.search import stores
from tests.views import logs
from tests.views.logs import root
from turnlog.catalogue.building import build
from turnlog.catalogue.places import index_path
from turnlog.cli.quick import LS, SEARCH


@pytest.fixture(autouse=True)
def _own_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLOG_INDEX", str(tmp_path / "index"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two sessions: one with a call, one with a prompt only."""
    events = [
        logs.turn(), logs.step(), logs.user("Please find 你好 for me"),
        logs.message(logs.asks("c1", '{"cmd":"grep hello"}')),
        logs.call("c1", '{"cmd":"grep hello"}'), logs.result("c1", "Connection  reset\nby peer"), logs.step_end(),
        logs.end(),
    ]  # fmt: skip
    place = tmp_path / "sessions"
    stores.place(place, "first").write_bytes(b"".join(stores.log_lines(events, "first", escaped=False)))
    other = [logs.turn(), logs.step(), logs.user("the connection was reset"), logs.step_end(), logs.end()]
    stores.place(place, "second").write_bytes(b"".join(stores.log_lines(other, "second", escaped=True)))
    return place


def places(shown: Ran) -> list[tuple[str, str]]:
    return [(hit["session"], hit["address"]) for hit in shown.json["hits"]]


@pytest.mark.parametrize("built", [False, True])
def test_hits_have_session_address_type_and_the_words_around(run: Callable[..., Ran], store: Path, built: bool) -> None:
    if built:
        build([store])
    shown = run("search", "connection reset", "--root", store)
    assert shown == Ran(0, "first  @5 t1.s1  tool/result  Connection reset by peer\n", "")
    assert places(run("search", "CONNECTION", "--root", store, "--json")) == [("second", "@2"), ("first", "@5")]
    [hit] = run("search", "你好", "--root", store, "--json").json["hits"]
    assert (hit["session"], hit["address"], hit["type"], hit["turn"]) == ("first", "@2", "user/message", None)
    assert hit["snippet"][hit["match"]["start"] : hit["match"]["end"]] == "你好"


def test_nothing_found_is_exit_code_1(run: Callable[..., Ran], store: Path) -> None:
    shown = run("search", "nobody said this", "--root", store)
    assert shown == Ran(1, "", f"turnlog: nothing was found in 2 sessions under {store}\n")
    assert run("search", "nobody said this", "--root", store, "--json").json["hits"] == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["connection", "--type", "tool/*"], [("first", "@5")]),
        (["connection", "--type", "user/message"], [("second", "@2")]),
        (["hello", "--tool", "bash"], [("first", "@3"), ("first", "@4")]),
        (["reset", "--tool", "bash"], [("first", "@5")]),
        (["reset", "--tool", "read"], []),
        (["reset connection", "--words"], [("second", "@2"), ("first", "@5")]),
        (["reset\\s+by|was r", "--regex"], [("second", "@2"), ("first", "@5")]),
        (["connection", "fir"], [("first", "@5")]),
        (["connection", "--project", "/w"], [("second", "@2"), ("first", "@5")]),
        (["connection", "--project", "p"], [("second", "@2"), ("first", "@5")]),
        (["connection", "--project", "/w/q"], []),
        (["connection", "--until", "1970-01-01T00:00:09.004Z"], [("second", "@2")]),
        (["connection", "--since", "1970-01-01T00:00:09.004Z"], [("first", "@5")]),
        (["connection", "--scan"], [("second", "@2"), ("first", "@5")]),
    ],
)
@pytest.mark.parametrize("built", [False, True])
def test_conditions_all_have_to_hold(
    run: Callable[..., Ran], store: Path, options: list[str], expected: list[tuple[str, str]], built: bool
) -> None:
    if built:
        build([store])
    shown = run("search", *options, "--root", store, "--json")
    assert places(shown) == expected
    assert shown.code == (0 if expected else 1)


def test_a_limit_says_that_there_is_more(run: Callable[..., Ran], store: Path) -> None:
    shown = run("search", "connection", "--limit", "1", "--root", store)
    assert (shown.code, len(shown.out.splitlines())) == (0, 1)
    assert "there are more than 1" in shown.err
    assert run("search", "connection", "--limit", "1", "--root", store, "--json").json["more"] is True


def test_a_query_that_makes_no_sense_is_wrong_usage(run: Callable[..., Ran], store: Path) -> None:
    for words in (["("], ["a", "--words"]):
        assert run("search", *words, "--regex", "--root", store).code == 2
    assert run("search", "  ", "--root", store).code == 2
    assert run("search", "--root", store).code == 2
    assert run("search", "x", "nobody", "--root", store).code == 1


def test_what_the_full_text_does_not_hold_is_read_and_built_behind(run: Callable[..., Ran], store: Path) -> None:
    long = [logs.turn(), logs.step(), logs.user("needle " + "hay " * 100_000), logs.step_end(), logs.end()]
    stores.place(store, "long").write_bytes(b"".join(stores.log_lines(long, "long", escaped=False)))
    shown = run("search", "needle", "--root", store)
    assert shown.code == 0
    assert "3 sessions" in shown.err
    assert "not in the full text yet and were read" in shown.err
    end = time.monotonic() + 60
    while run("index", "status", "--root", store, "--json").json["indexes"][0]["inFullText"] < 3:
        assert time.monotonic() < end, "it was never built"
        time.sleep(0.05)
    assert run("search", "needle", "--root", store).err == ""


def test_index_build_status_and_clear(run: Callable[..., Ran], store: Path) -> None:
    assert run("index", "build", "--root", store) == Ran(0, "2 sessions were put into the full text\n", "")
    assert run("index", "build", "--root", store).out == "0 sessions were put into the full text\n"
    [view] = run("index", "status", "--root", store, "--json").json["indexes"]
    assert (view["sessions"], view["inFullText"], view["building"], view["problem"]) == (2, 2, False, None)
    assert "2 sessions, 2 in the full text" in run("index", "status", "--root", store).out
    assert index_path(store).exists()
    assert run("index", "clear", "--root", store).code == 0
    assert not index_path(store).exists()
    assert "there was no index" in run("index", "clear", "--root", store).err
    assert run("index", "polish", "--root", store).code == 2


# -- the list -------------------------------------------------------------------------------------------------------


def test_the_list_is_chosen_and_sorted(run: Callable[..., Ran]) -> None:
    def ids(*options: object) -> list[str]:
        return [one["id"][-4:] for one in run("ls", "--root", root(0), "--json", *options).json["sessions"]]

    every = ids()
    assert len(every) == 13
    assert ids("--reverse") == every[::-1]
    sessions = run("ls", "--root", root(0), "--json").json["sessions"]
    failed = [one["id"][-4:] for one in sessions if one["failedTurns"]]
    assert failed
    assert ids("--errors") == failed
    by_tokens = sorted(sessions, key=lambda one: -one["tokens"]["total"])
    assert ids("--sort", "tokens", "--limit", 1) == [by_tokens[0]["id"][-4:]]
    assert ids("--model", "V4-flash") == [one["id"][-4:] for one in sessions if "v4-flash" in (one["model"] or "")]
    assert ids("--model", "gpt*") == []
    assert ids("--project", "/home/dev") == every
    assert ids("--project", "/home/de") == []
    assert ids("--live") == []
    assert run("ls", "--root", root(0), "--sort", "luck").code == 2


def test_the_list_with_others_shows_whose_they_are(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / ".claude" / "projects" / "-w-p"
    place.mkdir(parents=True)
    record = (
        '{"type":"user","uuid":"1","parentUuid":null,"sessionId":"c-1","cwd":"/w/p","version":"2.0.0",'
        '"timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"fix it"}}\n'
    )
    (place / "c-1.jsonl").write_text(record)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("CODEX_HOME", raising=False)
    shown = run("ls", "--all", "--root", root(0), "--json").json["sessions"]
    others = [(one["id"], one["source"], one["title"], one["cwd"]) for one in shown if one["source"] != "turnlog"]
    assert others == [("c-1", "claude-code", "fix it", "/w/p")]
    assert "[claude-code] fix it" in run("ls", "--all", "--root", root(0)).out


def test_quick_command_lines_know_the_options_of_the_real_ones(run: Callable[..., Ran]) -> None:
    for command, known in (("ls", LS), ("search", SEARCH)):
        help = run(command, "--help").out
        assert all(f"{name} " in help for name in known)


@pytest.mark.parametrize(
    "line",
    [
        ["ls"], ["ls", "--limit=2", "--sort", "title"], ["ls", "--limit", "x"], ["ls", "--limit"], ["ls", "--nonsense"],
        ["ls", "--since", "-1"], ["search", "write"], ["search", "write", "--json", "--limit", "3"],
        ["search", "--words", "a", "b"], ["search"], ["search", "-e", "wri.e"], ["search", "write", "--tool", "write"],
    ],
)  # fmt: skip
def test_a_quick_command_line_does_what_the_parser_of_all_does(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, line: list[str]
) -> None:
    rooted = [*line, "--root", root(0)]
    quickly = run(*rooted)
    monkeypatch.setattr("turnlog.cli.quick.quick", lambda _screen, _arguments: False)
    assert run(*rooted) == quickly

"""Finding the session files of other programs in the places where they keep them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import zstandard

from turnlog.store.foreign import discover

PROMPT = {
    "type": "user", "uuid": "u-1", "parentUuid": None, "sessionId": "s-1", "cwd": "/work/app", "isSidechain": False,
    "timestamp": "2026-03-01T10:00:00.500Z", "message": {"role": "user", "content": "Fix the\n  header"},
}  # fmt: skip
META = {
    "timestamp": "2026-03-02T10:00:00.000Z", "type": "session_meta",
    "payload": {"id": "c-1", "timestamp": "2026-03-02T09:59:59.000Z", "cwd": "/work/lib", "forked_from_id": "c-0"},
}  # fmt: skip


def write(path: Path, *records: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return path


def test_sessions_of_both_programs_are_found_newest_first(tmp_path: Path) -> None:
    claude = write(tmp_path / ".claude/projects/-work-app/s-1.jsonl", PROMPT)
    codex = write(tmp_path / ".codex/sessions/2026/03/02/rollout-x.jsonl", META)
    found = discover(tmp_path)
    assert [one.path for one in found] == [codex, claude]
    assert [(one.kind, one.id, one.cwd, one.parent) for one in found] == [
        ("codex", "c-1", "/work/lib", "c-0"),
        ("claude-code", "s-1", "/work/app", None),
    ]
    assert [one.created_ms for one in found] == [1772445599000, 1772359200500]
    assert found[1].size == claude.stat().st_size
    assert found[1].modified_ms == claude.stat().st_mtime_ns // 1_000_000
    assert all(one.problem is None for one in found)


def test_a_resumed_session_has_the_id_of_its_file_and_names_the_one_before(tmp_path: Path) -> None:
    write(tmp_path / ".claude/projects/-w/s-2.jsonl", PROMPT, {**PROMPT, "sessionId": "s-2", "uuid": "u-2"})
    assert [(one.id, one.parent) for one in discover(tmp_path)] == [("s-2", "s-1")]


def test_a_sub_agent_file_has_its_own_id_and_names_its_session(tmp_path: Path) -> None:
    agent = {**PROMPT, "isSidechain": True, "agentId": "a1b2"}
    write(tmp_path / ".claude/projects/-w/agent-a1b2.jsonl", agent)
    write(tmp_path / ".claude/projects/-w/s-1/subagents/agent-c3.jsonl", {**agent, "agentId": "c3"})
    assert {(one.id, one.parent) for one in discover(tmp_path)} == {("agent-a1b2", "s-1"), ("agent-c3", "s-1")}


def test_the_title_is_the_last_one_given_and_else_the_first_prompt(tmp_path: Path) -> None:
    project = tmp_path / ".claude/projects/-w"
    write(project / "plain.jsonl", {**PROMPT, "isMeta": True}, PROMPT)
    filler = [{**PROMPT, "message": {"role": "user", "content": "x" * 1000}} for _ in range(200)]
    titles = [{"type": "custom-title", "customTitle": title, "sessionId": "s-1"} for title in ("Old", "New name")]
    write(project / "titled.jsonl", PROMPT, titles[0], *filler, titles[1])
    assert {one.path.name: one.title for one in discover(tmp_path)} == {
        "plain.jsonl": "Fix the header",
        "titled.jsonl": "New name",
    }


def test_a_title_that_a_person_gave_counts_more_than_a_summary(tmp_path: Path) -> None:
    project = tmp_path / ".claude/projects/-w"
    summary = {"type": "summary", "summary": "Of another talk", "leafUuid": "x"}
    made = {"type": "ai-title", "aiTitle": "Made", "sessionId": "s-1"}
    write(project / "a.jsonl", summary, PROMPT, {"type": "custom-title", "customTitle": "Mine"}, made, summary)
    write(project / "b.jsonl", summary, PROMPT, made, summary)
    write(project / "c.jsonl", summary, PROMPT)
    assert {one.path.name: one.title for one in discover(tmp_path)} == {
        "a.jsonl": "Mine", "b.jsonl": "Made", "c.jsonl": "Of another talk",
    }  # fmt: skip


def test_a_codex_title_passes_over_context_that_nobody_typed(tmp_path: Path) -> None:
    said = [
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"text": text}]}}
        for text in ("<environment_context>…", "Add a flag")
    ]
    write(tmp_path / ".codex/sessions/2026/03/02/rollout-x.jsonl", META, *said)
    assert [one.title for one in discover(tmp_path)] == ["Add a flag"]


def test_one_bad_file_is_listed_with_its_problem_and_hides_no_other(tmp_path: Path) -> None:
    project = tmp_path / ".claude/projects/-w"
    write(project / "good.jsonl", PROMPT)
    (project / "empty.jsonl").write_bytes(b"")
    (project / "noise.jsonl").write_bytes(b"\xff\xfe\0\0 not json\n[1,2]\n")
    (project / "gone.jsonl").symlink_to(project / "nowhere.jsonl")
    problems = {one.path.name: one.problem for one in discover(tmp_path)}
    assert problems.pop("good.jsonl") is None
    assert problems.pop("empty.jsonl") == "the file is empty"
    assert problems.pop("noise.jsonl") == "its first records are of no program that is known here"
    assert (problems.pop("gone.jsonl") or "").startswith("cannot be opened: ")
    assert not problems


def test_a_compressed_codex_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / ".codex/sessions/2026/03/02/rollout-x.jsonl.zst"
    path.parent.mkdir(parents=True)
    path.write_bytes(zstandard.compress(json.dumps(META).encode() + b"\n"))
    assert [(one.id, one.kind, one.problem) for one in discover(tmp_path)] == [("c-1", "codex", None)]


def test_missing_places_hold_nothing(tmp_path: Path) -> None:
    assert discover(tmp_path) == []


def test_the_programs_own_environment_variables_are_heeded_without_a_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "c/projects/-w/s-1.jsonl", PROMPT)
    write(tmp_path / "x/archived_sessions/rollout-y.jsonl", META)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "c"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "x"))
    assert sorted(one.id for one in discover()) == ["c-1", "s-1"]


def test_a_link_in_a_circle_ends(tmp_path: Path) -> None:
    sessions = tmp_path / ".codex/sessions"
    write(sessions / "2026/03/02/rollout-x.jsonl", META)
    os.symlink(sessions, sessions / "2026/again")
    assert {one.id for one in discover(tmp_path)} == {"c-1"}

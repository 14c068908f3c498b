"""`read`, `write` and `edit` with real files: what they show, what they refuse, and that a write is one step."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.tools.running import Rig
from turnlog.bus import Next, Outcome
from turnlog.tools import Approvals, Execute, Question, Result, Rule
from turnlog.tools.builtin import edit, read, write


class Files:
    """A workspace whose calls share one session."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = directory / "workspace"
        self.directory.mkdir()
        self.settings = settings
        self.runner = asyncio.Runner()
        self.rig = self.runner.run(self._rig())

    async def _rig(self) -> Rig:
        return Rig(read, write, edit, workspace=self.directory, **self.settings)

    def run(self, name: str, **arguments: object) -> Result:
        return self.runner.run(self.rig.run(name, **arguments))

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.directory / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


@pytest.fixture
def files(tmp_path: Path) -> Any:
    one = Files(tmp_path)
    yield one
    one.runner.close()


# -- read -------------------------------------------------------------------------------------------------------------


def test_a_file_is_shown_as_it_is(files: Files) -> None:
    files.put("a.txt", "one\ntwo\n")
    assert files.run("read", path="a.txt").text == "one\ntwo"


def test_some_lines_are_shown_with_where_to_go_on(files: Files) -> None:
    files.put("a.txt", "".join(f"line {number}\n" for number in range(1, 11)))
    result = files.run("read", path="a.txt", offset=3, limit=2)
    assert result.text == "line 3\nline 4\n[lines 3 to 4 of 10; go on with offset=5]"
    assert files.run("read", path="a.txt", offset=11).text == "[a.txt has 10 lines; there is no line 11]"


def test_a_large_file_is_shown_in_pieces_that_add_up(files: Files) -> None:
    lines = [f"{number} {'x' * 1000}" for number in range(1, 301)]
    files.put("a.txt", "\n".join(lines))
    seen: list[str] = []
    while len(seen) < len(lines):
        shown = files.run("read", path="a.txt", offset=len(seen) + 1).text.split("\n")
        seen += [line for line in shown if not line.startswith("[")]
    assert seen == lines


def test_a_line_longer_than_the_limit_is_cut_and_says_so(files: Files) -> None:
    files.put("a.txt", "x" * 100_000 + "\nend\n")
    text = files.run("read", path="a.txt").text
    assert "[line 1 is longer than 65536 characters" in text
    assert "go on with offset=2]" in text


def test_only_newlines_end_lines(files: Files) -> None:
    """BC-007's kind."""
    files.put("a.txt", "a\u2028b\x0cc\x85d\n")
    assert files.run("read", path="a.txt").text == "a\u2028b\x0cc\x85d"


def test_empty_binary_and_odd_files_are_described(files: Files) -> None:
    files.put("empty", "")
    files.put("binary", b"\x00\x01")
    files.put("latin", b"caf\xe9\n")
    assert files.run("read", path="empty").text == "[empty is empty]"
    assert files.run("read", path="binary").text == "[binary is a binary file of 2 bytes]"
    assert "not valid UTF-8" in files.run("read", path="latin").text


def test_what_cannot_be_read_is_an_error_that_helps(files: Files) -> None:
    files.put("settings.py", "")
    os.mkfifo(files.directory / "pipe")
    assert files.run("read", path="setting.py").text == "Error: setting.py does not exist; there is settings.py"
    assert "is a directory" in files.run("read", path=".").text
    assert "no regular file" in files.run("read", path="pipe").text
    assert files.run("read", path="a\0b").is_error
    (files.directory / "loop").symlink_to("loop")
    assert files.run("read", path="loop").is_error


# -- write and edit ---------------------------------------------------------------------------------------------------


def test_a_new_file_is_written_with_its_directories(files: Files) -> None:
    result = files.run("write", path="src/deep/a.txt", content="é\n")
    assert result.text == "created src/deep/a.txt (3 bytes)"
    assert (files.directory / "src/deep/a.txt").read_bytes() == "é\n".encode()


def test_what_was_just_written_may_be_edited(files: Files) -> None:
    files.run("write", path="a.txt", content="one\ntwo\n")
    result = files.run("edit", path="a.txt", old="two", new="three")
    assert result.text == "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three"
    assert (files.directory / "a.txt").read_text() == "one\nthree\n"


@pytest.mark.parametrize(("name", "arguments"), [("write", {"content": "new"}), ("edit", {"old": "old", "new": "new"})])
def test_a_file_that_was_not_read_or_changed_since_is_refused(
    files: Files, name: str, arguments: dict[str, str]
) -> None:
    path = files.put("a.txt", "old")
    assert "has not been read" in files.run(name, path="a.txt", **arguments).text
    files.run("read", path="a.txt")
    files.put("a.txt", "old, by somebody else")
    assert "changed since it was read" in files.run(name, path="a.txt", **arguments).text
    assert path.read_text() == "old, by somebody else"
    files.run("read", path="a.txt")
    os.utime(path, ns=(1, 1))  # touched, not changed
    assert not files.run(name, path="a.txt", **arguments).is_error
    assert "new" in path.read_text()


def test_a_same_sized_change_is_noticed(files: Files) -> None:
    path = files.put("a.txt", "old 1")
    files.run("read", path="a.txt")
    times = path.stat()
    path.write_text("old 2")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert files.run("edit", path="a.txt", old="old", new="new").is_error


def test_a_file_that_was_deleted_since_is_not_edited(files: Files) -> None:
    path = files.put("a.txt", "old")
    files.run("read", path="a.txt")
    path.unlink()
    assert "does not exist" in files.run("edit", path="a.txt", old="old", new="new").text


def test_the_old_text_has_to_be_there_once(files: Files) -> None:
    path = files.put("a.txt", "x\ny\nx\n")
    files.run("read", path="a.txt")
    assert "does not contain" in files.run("edit", path="a.txt", old="z", new="w").text
    assert "2 times (lines 1, 3)" in files.run("edit", path="a.txt", old="x", new="w").text
    assert "same text" in files.run("edit", path="a.txt", old="x", new="x").text
    assert not files.run("edit", path="a.txt", old="x", new="w", replace_all=True).is_error
    assert path.read_text() == "w\ny\nw\n"


def test_line_ends_and_missing_last_newlines_stay(files: Files) -> None:
    path = files.put("a.txt", b"one\r\ntwo\r\nlast")
    files.run("read", path="a.txt")
    assert "CR LF" in files.run("edit", path="a.txt", old="one\ntwo", new="x").text
    assert not files.run("edit", path="a.txt", old="two", new="2").is_error
    assert path.read_bytes() == b"one\r\n2\r\nlast"


def test_mode_and_link_stay_when_a_file_is_replaced(files: Files) -> None:
    path = files.put("run.sh", "old")
    path.chmod(0o751)
    (files.directory / "link").symlink_to("run.sh")
    files.run("read", path="link")
    assert not files.run("edit", path="link", old="old", new="new").is_error
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert (files.directory / "link").is_symlink()
    assert path.read_text() == "new"


def test_readers_never_see_half_a_file(files: Files) -> None:
    path = files.put("a.txt", "a" * 100_000)
    files.run("read", path="a.txt")
    seen, done = set(), threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen.add(path.read_text())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for letter in "bcdefgh":
        files.run("write", path="a.txt", content=letter * 100_000)
    done.set()
    watcher.join()
    assert all(len(set(text)) == 1 and len(text) == 100_000 for text in seen)
    assert [entry.name for entry in files.directory.iterdir()] == ["a.txt"]


def test_a_failed_write_leaves_the_file_and_no_temporary(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    path = files.put("a.txt", "old")
    files.run("read", path="a.txt")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    result = files.run("write", path="a.txt", content="new")
    assert result.text == "Error: a.txt cannot be written: No space left on device"
    assert path.read_text() == "old"
    assert [entry.name for entry in files.directory.iterdir()] == ["a.txt"]


# -- outside ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["absolute", "dots", "link"])
@pytest.mark.parametrize(
    ("name", "arguments"), [("read", {}), ("write", {"content": "x"}), ("edit", {"old": "secret", "new": "x"})]
)
def test_outside_the_workspace_somebody_is_asked(
    files: Files, tmp_path: Path, way: str, name: str, arguments: dict[str, str]
) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("secret")
    (files.directory / "link").symlink_to(outside)
    path = {"absolute": str(outside), "dots": "../outside.txt", "link": "link"}[way]
    result = files.run(name, path=path, **arguments)
    assert result.is_error
    assert "needs approval" in result.text
    assert f"{outside} is outside the workspace" in result.text
    assert outside.read_text() == "secret"


def test_a_link_that_is_turned_round_after_the_call_was_allowed_leads_nowhere(files: Files, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("secret")
    files.put("a.txt", "plain")
    link = files.directory / "link"
    link.symlink_to("a.txt")

    async def turn(event: Execute, next: Next[Execute, Result]) -> Outcome[Result]:
        link.unlink()
        link.symlink_to(tmp_path / "outside.txt")
        return await next()

    files.rig.bus.on(Execute, turn)
    assert "has changed since it was allowed" in files.run("read", path="link").text


def test_a_person_sees_the_resolved_path_and_the_diff(tmp_path: Path) -> None:
    asked: list[Question] = []

    async def answer(question: Question) -> Any:
        asked.append(question)
        return "allow"

    outside = tmp_path / "outside.txt"
    outside.write_text("one\ntwo\n")
    files = Files(tmp_path, approvals=Approvals(answerer=answer))
    assert files.run("read", path="../outside.txt").text == "one\ntwo"
    assert not files.run("edit", path="../outside.txt", old="two", new="2").is_error
    assert not files.run("write", path="../outside.txt", content="all new").is_error
    files.runner.close()
    assert [one.text for one in asked] == [
        f"read {outside}",
        f"edit {outside}\n--- a/outside.txt\n+++ b/outside.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2",
        f"overwrite {outside}\n--- a/outside.txt\n+++ b/outside.txt\n@@ -1,2 +1 @@\n-one\n-2\n"
        "+all new\n\\ No newline at end of file",
    ]


def test_a_rule_for_the_path_allows_it(tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("x")
    files = Files(
        tmp_path, approvals=Approvals([Rule.parse(f"read:{tmp_path}/*", "allow"), Rule.parse("read", "allow")])
    )
    assert files.run("read", path="../outside.txt").text == "x"
    assert files.run("read", path="/etc/hostname").is_error
    files.runner.close()


def test_long_outputs_of_the_session_may_be_read(tmp_path: Path) -> None:
    (tmp_path / "spill").mkdir()
    (tmp_path / "spill" / "out.txt").write_text("long")
    files = Files(tmp_path, spill=tmp_path / "spill")
    assert files.run("read", path=str(tmp_path / "spill" / "out.txt")).text == "long"
    files.runner.close()

"""`glob` and `grep` with real files."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

import pytest

from tests.tools.running import Rig
from turnlog.events import CancelledByUser
from turnlog.tools import Result
from turnlog.tools.builtin import glob, grep
from turnlog.tools.builtin.search import files, glob_expression

TREE = {
    "README.md": "Turnlog\nhello world\n",
    "src/a.py": "import os\nHELLO = 1\n",
    "src/a/b.py": "hello = 2\r\n",
    "src/a-b.py": "",
    "src/deep/er/c.ts": "hello\n",
    "node_modules/x/index.js": "hello\n",
    ".git/config": "hello\n",
    ".hidden": "hello hidden\n",
    "binary": "hello\0hello\n",
    "café.txt": "hello é\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, content in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
    (tmp_path / "loop").symlink_to(tmp_path)
    return tmp_path


def run(tree: Path, name: str, **arguments: object) -> Result:
    return asyncio.run(Rig(glob, grep, workspace=tree).run(name, **arguments))


def test_files_are_walked_in_the_order_of_their_paths(tree: Path) -> None:
    found = list(files(str(tree)))
    assert found == sorted(found)
    assert "src/a/b.py" in found
    assert not any(name.startswith((".git/", "node_modules/", "loop/")) for name in found)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", "src/a-b.py\nsrc/a.py\nsrc/a/b.py"),
        ("src/*.py", "src/a-b.py\nsrc/a.py"),
        ("src/**/*.py", "src/a-b.py\nsrc/a.py\nsrc/a/b.py"),
        ("**/c.ts", "src/deep/er/c.ts"),
        ("*.{md,ts}", "README.md\nsrc/deep/er/c.ts"),
        ("src/[ab].py", "src/a.py"),
        ("./src/a?b.py", "src/a-b.py"),
        ("[!a-z]*.md", "README.md"),
        ("café*", "café.txt"),
        ("*.none", "[no file matches]"),
    ],
)
def test_patterns_find_paths(tree: Path, pattern: str, expected: str) -> None:
    assert run(tree, "glob", pattern=pattern).text == expected


def test_a_directory_and_a_limit_narrow_the_list(tree: Path) -> None:
    assert run(tree, "glob", pattern="*.py", path="src/a").text == "src/a/b.py"
    limited = run(tree, "glob", pattern="*.py", limit=1).text
    assert limited == "src/a-b.py\n[more than 1 files; only the first are listed]"
    assert run(tree, "glob", pattern="*", path="README.md").is_error


def test_bad_patterns_are_errors(tree: Path) -> None:
    assert "no glob pattern" in run(tree, "glob", pattern="[z-a]").text
    assert "no regular expression" in run(tree, "grep", pattern="(").text
    assert run(tree, "grep", pattern="x", path="none").text == "Error: none does not exist"
    with pytest.raises(ValueError, match="no glob"):
        glob_expression("{a")


def test_lines_are_found_with_path_and_number(tree: Path) -> None:
    assert run(tree, "grep", pattern="hello").text.split("\n") == [
        ".hidden:1:hello hidden",
        "README.md:2:hello world",
        "café.txt:1:hello é",
        "src/a/b.py:1:hello = 2",
        "src/deep/er/c.ts:1:hello",
    ]


def test_a_search_is_narrowed_by_path_glob_and_case(tree: Path) -> None:
    assert run(tree, "grep", pattern="hello", path="src").text == "src/a/b.py:1:hello = 2\nsrc/deep/er/c.ts:1:hello"
    assert run(tree, "grep", pattern="hello", path="README.md").text == "README.md:2:hello world"
    assert run(tree, "grep", pattern="hello", glob="*.ts").text == "src/deep/er/c.ts:1:hello"
    assert run(tree, "grep", pattern="^hello = ", ignore_case=True, path="src").text == (
        "src/a.py:2:HELLO = 1\nsrc/a/b.py:1:hello = 2"
    )
    assert run(tree, "grep", pattern="hello", limit=1).text.split("\n")[1] == (
        "[more than 1 lines match; only the first are shown]"
    )
    assert run(tree, "grep", pattern="nowhere").text == "[no line matches]"


def test_links_are_listed_but_not_searched(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "secret.txt"
    outside.write_text("hello from outside")
    (tree / "link.txt").symlink_to(outside)
    assert "link.txt" in run(tree, "glob", pattern="*.txt").text
    assert "outside" not in run(tree, "grep", pattern="hello").text


def test_long_lines_and_long_lists_are_cut(tree: Path) -> None:
    (tree / "long.txt").write_text("needle" + "x" * 10_000)
    assert run(tree, "grep", pattern="needle").text == "long.txt:1:needle" + "x" * 494 + " […]"
    (tree / "many.txt").write_text(("many " + "y" * 490 + "\n") * 500)
    text = run(tree, "grep", pattern="many", limit=1000).text
    assert len(text) < 70_000
    assert "bytes left out" in text


def test_a_search_that_never_ends_can_be_cancelled(tree: Path) -> None:
    (tree / "evil.txt").write_text("a" * 40 + "!")

    async def main() -> Result:
        rig = Rig(grep, workspace=tree)
        asyncio.get_running_loop().call_later(0.5, rig.cancellation.cancel, CancelledByUser())
        return await rig.run("grep", pattern="(a+)+$", path="evil.txt")

    began = time.monotonic()
    result = asyncio.run(main())
    assert result.error is not None
    assert result.error.code == "ABORTED"
    assert time.monotonic() - began < 5


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
@pytest.mark.parametrize("pattern", ["hello", "^hello$", "h(?=ello)", r"\bworld$", "é", r"= \d$"])
def test_ripgrep_changes_nothing_but_the_time(tree: Path, pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_ripgrep = run(tree, "grep", pattern=pattern)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert run(tree, "grep", pattern=pattern) == with_ripgrep

"""Every page is a test: what it shows is run, and what it says is printed must be printed.

- ``python`` blocks of a page run in order in one namespace; a ``text`` block right after one is its exact output.
- ``console`` blocks: each ``$ turnlog …`` line is run; the lines up to the next ``$`` are its exact output
  (stdout and stderr as a terminal shows them). Without such lines the command has to succeed.
  Commands other than ``turnlog`` are not run.
- ``no-run`` after the language skips a block.

A page runs in a directory of its own that holds ``tests/data/sample.jsonl`` as ``session.jsonl``.
"""

import contextlib
import difflib
import io
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SAMPLE: Final = ROOT / "tests" / "data" / "sample.jsonl"
PAGES: Final = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
FENCE: Final = re.compile(r"(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<info>[^`]*)$")
COMMAND_SECONDS: Final = 60
SCRIPTS: Final = Path(sys.executable).parent  # where `turnlog` is installed


@dataclass(frozen=True)
class Block:
    language: str
    runs: bool
    line: int
    """Line of the page on which the content begins, from 1."""
    content: str
    follows: "Block | None"
    """The block before this one, when only blank lines lie between them."""


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = page.splitlines()
    previous: Block | None = None
    at = 0
    while at < len(lines):
        fence = FENCE.match(lines[at])
        at += 1
        if fence is None:
            if lines[at - 1].strip():
                previous = None
            continue
        begin = at
        while at < len(lines) and not closes(lines[at], fence["ticks"]):
            at += 1
        language, *flags = fence["info"].split() or [""]
        content = textwrap.dedent("\n".join(lines[begin:at]))
        previous = Block(language, "no-run" not in flags, begin + 1, content, previous)
        yield previous
        at += 1


def closes(line: str, ticks: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(ticks) and set(stripped) == {ticks[0]}


def commands(block: Block) -> Iterator[tuple[int, str, str]]:
    """The commands of a console block: line, command, expected output."""
    lines = block.content.split("\n")
    starts = [index for index, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        last = start
        while lines[last].endswith("\\") and last + 1 < end:
            last += 1
        command = "\n".join(lines[start : last + 1])
        yield block.line + start, command.removeprefix("$ "), "\n".join(lines[last + 1 : end])


def difference(expected: str, printed: str) -> str | None:
    """A diff, or None when both are the same but for trailing spaces and trailing blank lines."""
    wanted, got = ([line.rstrip() for line in text.rstrip().splitlines()] for text in (expected, printed))
    if wanted == got:
        return None
    return "\n".join(difflib.unified_diff(wanted, got, "the page", "printed", lineterm=""))


class Page:
    """One page while it runs. ``problems`` says, for each failing block, page, line and what differs."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self.module = types.ModuleType("docs_page")  # msgspec and typing look classes up in their module
        self.problems: list[str] = []

    def run(self) -> list[str]:
        printed: dict[int, str] = {}  # by the line of the block
        for block in blocks(self.path.read_text(encoding="utf-8")):
            match block:
                case Block(language="python", runs=True):
                    output = self.execute(block)
                    if output is None:  # what comes after depends on what failed
                        break
                    printed[block.line] = output
                case Block(language="text", follows=Block() as source) if source.line in printed:
                    self.compare(block.line, block.content, printed[source.line])
                case Block(language="console", runs=True):
                    self.converse(block)
                case _:
                    pass
        return self.problems

    def execute(self, block: Block) -> str | None:
        output = io.StringIO()
        source = "\n" * (block.line - 1) + block.content  # tracebacks name the lines of the page
        try:
            with contextlib.redirect_stdout(output):
                exec(compile(source, str(self.path), "exec", dont_inherit=True), vars(self.module))
        except (Exception, SystemExit) as error:  # any failure of a page is a finding
            trace = "".join(traceback.format_exception(error.with_traceback(outside_this_file(error))))
            self.report(block.line, f"the block raises\n{trace.rstrip()}")
            return None
        return output.getvalue()

    def converse(self, block: Block) -> None:
        for line, command, expected in commands(block):
            if command.split()[:1] != ["turnlog"]:
                continue
            done = subprocess.run(
                command,
                shell=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                timeout=COMMAND_SECONDS,
                check=False,
            )
            if expected.strip():
                self.compare(line, expected, done.stdout)
            elif done.returncode:
                self.report(line, f"`{command}` exits with {done.returncode}\n{done.stdout.rstrip()}")

    def compare(self, line: int, expected: str, printed: str) -> None:
        if (diff := difference(expected, printed)) is not None:
            self.report(line, f"the page and what is printed differ\n{diff}")

    def report(self, line: int, problem: str) -> None:
        self.problems.append(f"{self.name}:{line}: {problem}")


def outside_this_file(error: BaseException) -> types.TracebackType | None:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A reader's directory: the sample, an empty home, a plain terminal, UTC."""
    if SAMPLE.exists():
        shutil.copyfile(SAMPLE, tmp_path / "session.jsonl")
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        "HOME": str(home),
        "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "PYTHONUTF8": "1",
        "TERM": "dumb",
        "TZ": "UTC",
    }
    for name in [name for name in os.environ if name.startswith("TURNLOG_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    time.tzset()
    yield tmp_path
    monkeypatch.undo()
    time.tzset()


def run_page(path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    page = Page(path, name)
    monkeypatch.setitem(sys.modules, page.module.__name__, page.module)
    return page.run()


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_prints_what_it_says(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if problems := run_page(path, path.relative_to(ROOT).as_posix(), monkeypatch):
        pytest.fail("\n\n".join(problems), pytrace=False)


RIGHT: Final = """\
# A page

```python
answer = 42
```

Words, and then

```python
print(answer, " ")
```

```text
42
```

1. in a list

   ```python
   print("one\\n\\ntwo")
   ```
   ```text
   one

   two
   ```

```python no-run
raise RuntimeError
```

```text
not its output
```

```console
$ make demo
not run
$ cat session.jsonl
not run
```
"""


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("", ""),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "page.md:6: the page and what is printed differ"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "\n-2\n+1"),
        ("Words\n\n```python\n\nmissing\n```\n", 'page.md", line 5, in <module>'),
        ("```console\n$ turnlog-missing\n$ turnlog \\\n  no-such-command\nno\n```\n", "page.md:3: the page and"),
        ("```console\n$ turnlog no-such-command\n```\n", "page.md:2: `turnlog no-such-command` exits with"),
        ("```python\nraise SystemExit(3)\n```\n\n```python\nmissing\n```\n", "page.md:2: the block raises"),
    ],
)
def test_a_page_that_is_wrong_is_reported_with_its_line(
    reader: Path, wrong: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = reader / "page.md"
    page.write_text(wrong or RIGHT, encoding="utf-8")
    problems = run_page(page, "page.md", monkeypatch)
    if wrong:
        assert len(problems) == 1
        assert problem in problems[0]
    else:
        assert problems == []

"""Walking directories and searching files; as a script, the search behind `grep`.

The search runs in a process of its own, because a regular expression can take for ever and no thread can be stopped in
the middle of one. Run with isolated start-up, so it imports little::

    python -I -S search.py ROOT PREFIX PATTERN GLOB IGNORE_CASE LIMIT RIPGREP

It prints ``path:line:text``, each path after PREFIX, ordered by path. Ripgrep, where there is one, only says
which files are worth a look.
"""

import os
import re
import sys
from collections.abc import Iterator

SKIPPED = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
)
"""Directories nobody means when they search a project."""
LINE = 500
"""Characters of a line that are shown."""
SNIFFED = 8192
LARGEST = 64 * 1024 * 1024


def files(root: str, *, links: bool = False) -> Iterator[str]:
    """Regular files under *root*, relative, in order of their path; links to files only if *links*, never to
    directories: what they lead to may be outside."""
    stack = [""]
    while stack:
        at = stack.pop()
        if at and not at.endswith("/"):
            yield at
            continue
        try:
            entries = list(os.scandir(os.path.join(root, at)))
        except OSError:
            continue
        below = []
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED:
                    below.append(f"{at}{entry.name}/")
            elif entry.is_file(follow_symlinks=links):
                below.append(f"{at}{entry.name}")
        stack.extend(sorted(below, reverse=True))


def glob_expression(pattern: str) -> "re.Pattern[str]":
    """``*`` and ``?`` within a name, ``**`` over directories, ``[a-z]``, ``{a,b}``; without a slash, at any depth.

    Raises ``ValueError`` for what is no pattern.
    """
    if pattern.startswith("./"):
        pattern = pattern[2:]
    text, at, depth = ("" if "/" in pattern else "(?:.*/)?"), 0, 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
            text, at = text + "(?:.*/)?", at + 3
            continue
        if pattern.startswith("**", at):
            text, at = text + ".*", at + 2
            continue
        if char == "[" and (end := pattern.find("]", at + 2)) > 0:
            members = pattern[at + 1 : end].replace("\\", "\\\\")
            negated = members.startswith(("!", "^"))
            text, at = text + f"[{'^/' if negated else ''}{members[1:] if negated else members}]", end + 1
            continue
        depth += {"{": 1, "}": -1}.get(char, 0)
        special = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")"}
        text += "|" if char == "," and depth else special.get(char) or re.escape(char)
        at += 1
    try:
        return re.compile(text, re.DOTALL)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no glob pattern: {error}") from None


def matches(path: str, expression: "re.Pattern[str]") -> Iterator[str]:
    """``line:text`` of each matching line; nothing for binary and unreadable files."""
    try:
        if os.path.getsize(path) > LARGEST:
            return
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return
    if b"\0" in content[:SNIFFED]:
        return
    for number, line in enumerate(content.decode(errors="replace").split("\n"), 1):
        line = line.removesuffix("\r")
        if expression.search(line):
            yield f"{number}:{line if len(line) <= LINE else line[:LINE] + ' […]'}"


def main() -> None:
    root, prefix, pattern, glob, ignore_case, limit, ripgrep = sys.argv[1:8]
    expression = re.compile(pattern, re.IGNORECASE if ignore_case == "1" else 0)
    wanted = glob_expression(glob) if glob else None
    left = int(limit)
    if os.path.isfile(root):
        found = (f"{prefix}:{one}" for one in matches(root, expression))
    else:
        names = candidate_files(root, pattern, ignore_case == "1", ripgrep)
        kept = (name for name in names if wanted is None or wanted.fullmatch(name))
        found = (f"{prefix}{name}:{one}" for name in kept for one in matches(os.path.join(root, name), expression))
    for line in found:
        left -= 1
        if left < 0:
            line = f"[more than {limit} lines match; only the first are shown]"
        sys.stdout.buffer.write(line.encode(errors="surrogateescape") + b"\n")
        if left < 0:
            return


def candidate_files(root: str, pattern: str, ignore_case: bool, ripgrep: str) -> "Iterator[str] | list[str]":
    """The files that may match."""
    if not ripgrep:
        return files(root)
    import subprocess

    command = [ripgrep, "--no-config", "--files-with-matches", "--null", "--no-ignore", "--hidden", "--crlf"]
    command += ["--no-messages", *(["--ignore-case"] if ignore_case else [])]
    command += [f"--glob=!{name}" for name in sorted(SKIPPED)]
    done = subprocess.run(
        [*command, "-e", pattern, "--", "."], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    if done.returncode > 1:  # it does not understand this pattern
        return files(root)
    return sorted(os.fsdecode(name).removeprefix("./") for name in done.stdout.split(b"\0") if name)


if __name__ == "__main__":
    main()

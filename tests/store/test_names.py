"""Names on disk (dsh-v0 §7.1): every session id has its own directory name, which never leads out of its parent."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from turnlog.store.names import (
    decode_session,
    encode_project,
    encode_session,
    log_files,
    parse_file,
    session_directories,
)

HARD = st.sampled_from(
    [".", "..", "/", "\\", ":", "~", "~002E", "~", "0", "2", "E", "é", "你", "😀", "\ud83d", "\ude00", "\0", " ", "-"]
)
IDS = st.lists(st.one_of(HARD, st.text(max_size=3)), min_size=1, max_size=8).map("".join).filter(bool)


@pytest.mark.proof
def test_a_directory_name_says_exactly_one_id(prove: Prove) -> None:
    def check(one: str, other: str) -> None:
        name = encode_session(one)
        assert re.fullmatch(r"(?:[A-Za-z0-9._-]|~[0-9A-F]{4})+", name)
        assert name not in (".", "..")
        assert "/" not in name
        assert decode_session(name) == joined_pairs(one)
        if joined_pairs(one) != joined_pairs(other):
            assert encode_session(other) != name

    prove("session ids and their directory names", check, IDS, IDS, times=3)


def joined_pairs(text: str) -> str:
    """Two halves of a pair that stand together are the character they make, in UTF-16 and so in JSON."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def test_the_units_of_a_name_are_dshs() -> None:
    for id, name in {
        "session-0a1b": "session-0a1b",
        ".": "~002E",
        "..": "~002E~002E",
        "...": "...",
        ".a": ".a",
        "a/b": "a~002Fb",
        "../../etc/x": "..~002F..~002Fetc~002Fx",
        "a b": "a~0020b",
        "~": "~007E",
        "~002E": "~007E002E",
        "é": "~00E9",
        "😀": "~D83D~DE00",
        "\ud83d": "~D83D",
        "\ude00\ud83d": "~DE00~D83D",
        "\0": "~0000",
    }.items():
        assert encode_session(id) == name
        assert decode_session(name) == id


def test_an_empty_id_has_no_name() -> None:
    with pytest.raises(ValueError, match="empty"):
        encode_session("")


@pytest.mark.parametrize(("name", "id"), [
    ("~00e9", "~00e9"),  # lower case is no escape
    ("~1", "~1"),
    ("~", "~"),
    ("plain é", "plain é"),
    ("~002E~002E~002F", "../"),
])  # fmt: skip
def test_names_that_nobody_encoded_are_taken_as_they_are(name: str, id: str) -> None:
    assert decode_session(name) == id


def test_project_directories_are_dshs() -> None:
    for cwd, name in {
        None: "_no-cwd",
        "/home/dev/demo": "--home-dev-demo--",
        "/": "--root--",
        "": "--root--",
        "///": "--root--",
        "C:\\Users\\dev": "--C-Users-dev--",
        "/a//b/": "--a-b---",
        "/my project": "--my~0020project--",
        "/~x": "--~007Ex--",
        "/é😀": "--~00E9~D83D~DE00--",
        "/" + "d" * 300: "--" + "d" * 251 + "--",
    }.items():
        assert encode_project(cwd) == name


def test_session_files_are_told_by_their_exact_name() -> None:
    for name, expected in {
        "session.jsonl": (0, False),
        "session.jsonl.zstd": (0, True),
        "session.v1.jsonl": (1, False),
        "session.v12.jsonl.zstd": (12, True),
        "session.v0.jsonl": None,
        "session.v01.jsonl": None,
        "session.V1.jsonl": None,
        "session.v-1.jsonl": None,
        "session.v1.jsonl.gz": None,
        "session.jsonl.tmp": None,
        "Session.jsonl": None,
        "session.lock": None,
        "asession.jsonl": None,
        "session.jsonl\n": None,
    }.items():
        found = parse_file(Path("/x") / name)
        assert (None if found is None else (found.version, found.compressed)) == expected


def test_generations_of_a_directory_are_sorted_as_numbers(tmp_path: Path) -> None:
    for name in ("session.v10.jsonl", "session.v9.jsonl.zstd", "session.jsonl", "attest.jsonl", "session.lock"):
        (tmp_path / name).touch()
    assert [one.version for one in log_files(tmp_path)] == [0, 9, 10]
    assert log_files(tmp_path / "missing") == []


def test_only_directories_two_levels_down_hold_sessions(tmp_path: Path) -> None:
    for path in ("--a--/one", "--a--/two/deeper", "--b--/three"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "--a--" / "file").touch()
    (tmp_path / "--b--" / "link").symlink_to(tmp_path / "--a--" / "one")
    found = [str(path.relative_to(tmp_path)) for path in session_directories(tmp_path)]
    assert found == ["--a--/one", "--a--/two", "--b--/link", "--b--/three"]
    assert list(session_directories(tmp_path / "missing")) == []
    assert list(session_directories(tmp_path / "file")) == []


def test_no_two_short_ids_share_a_name() -> None:
    """Exhaustive over a small alphabet of what is hard."""
    alphabet = [".", "~", "0", "2", "E", "/", "\ud83d", "\ude00"]
    ids = {"".join(letters) for size in (1, 2, 3, 4) for letters in itertools.product(alphabet, repeat=size)}
    names = {}
    for id in ids:
        names.setdefault(encode_session(id), set()).add(joined_pairs(id))
    assert all(len(same) == 1 for same in names.values())

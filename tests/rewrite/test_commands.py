"""The commands: data on stdout, hints on stderr, exit codes for scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Ran, runner, spawn
from tests.rewrite.sessions import edited, reported, where, write, writer
from tests.store.logs import CORPUS
from turnlog.store import load, verify

V3 = CORPUS / "v3" / "--home-dev-project--" / "multi-turn-session"


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Ran]:
    return runner(capsysbinary)


def test_repair_says_what_it_found_did_and_moved(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = reported(tmp_path, 4, "end-seed-collision.jsonl")
    done = run("repair", path)
    first, found, did, moved = done.out.splitlines()
    assert first.startswith(f"repaired: 33 events, {path}.repaired-")
    assert found.startswith("  found   seq-duplicate  duplicate seq 20")
    assert did.startswith("  did     events @20 to @31")
    assert moved == "  moved   @20 to @31 are @21 to @32 now"
    assert done.code == 0
    assert "was not changed; --apply" in done.err
    document = run("repair", path, "--json").json
    assert (document["schemaVersion"], document["needed"], document["lost"]) == (1, True, [])
    assert document["moved"] == [{"first": 20, "events": 12, "now": 21}]
    assert load(document["repaired"]).id == "sess-collide"


def test_repair_that_loses_something_says_so_and_exits_with_4(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = reported(tmp_path, 11, "nul-replaces-record.jsonl")
    done = run("repair", path)
    assert done.code == 4
    assert "  lost    event @8: not in the file, or not readable" in done.out.splitlines()
    assert "only in the damaged log" in done.err
    assert run("repair", path, "--json").code == 4


def test_repair_shows_where_the_second_history_and_the_damaged_log_are(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = reported(tmp_path, 5, "forked-log.jsonl")
    done = run("repair", path, "--apply")
    *_rest, branch, kept = done.out.splitlines()
    assert branch.startswith(f"  branch  {path}.branch-")
    assert kept.startswith(f"  kept    {path}.damaged-")
    assert (done.code, done.err) == (0, "")
    assert verify(path).ok


def test_repair_of_a_sound_log_is_one_line(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = reported(tmp_path, 7)
    assert run("repair", path) == Ran(0, f"nothing to repair: {path}: strict readers open it; it needs no repair\n", "")
    assert run("repair", reported(tmp_path, 50, "utf16.jsonl")).code == 3
    assert run("repair").code == 2


def test_convert_lists_losses_first_and_says_where_the_map_is(run: Callable[..., Ran], tmp_path: Path) -> None:
    done = run("convert", V3, "--out", tmp_path, "--id", "made")
    path = where(tmp_path, "made", "/home/dev/project")
    first, *rest = done.out.splitlines()
    assert first == f"converted: session made, 168 events, {path}"
    assert [line.split()[:2] for line in rest] == [
        ["lost", "system-message"],
        ["lost", "usage-total"],
        ["changed", "stream"],
        ["map", str(path.parent / "convert-map.json")],
    ]
    assert (done.code, done.err) == (0, "")
    assert run("convert", V3, "--out", tmp_path, "--id", "made").code == 3


def test_convert_as_json_has_the_map(run: Callable[..., Ran], tmp_path: Path) -> None:
    document = run("convert", V3, "--out", tmp_path, "--for-dsh", "--json").json
    assert (document["schemaVersion"], document["format"], document["events"]) == (1, "format 3", 168)
    assert [one["code"] for one in document["losses"]] == ["system-message", "usage-total"]
    assert [one["code"] for one in document["changes"]] == ["stream"]
    assert document["seqs"][0] == [0, 0, 7]
    assert document["id"].startswith("session-")


def test_convert_into_the_root_of_the_old_session_makes_another_session(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    (path,) = write(tmp_path, "one")
    assert run("convert", path, "--in-place-root", "--id", "two").code == 0
    assert load(where(tmp_path, "two")).id == "two"
    assert load(path).id == "one"
    loose = reported(tmp_path, 7)
    for arguments in (["--in-place-root"], [], ["--in-place-root", "--out", tmp_path]):
        assert run("convert", loose, *arguments).code == 2


def test_convert_reads_standard_input_and_damaged_logs_on_demand(tmp_path: Path) -> None:
    damaged = reported(tmp_path, 11, "nul-replaces-record.jsonl").read_bytes()
    refused = spawn("convert", "-", "--out", tmp_path, stdin=damaged)
    assert refused.returncode == 3
    done = spawn("convert", "-", "--out", tmp_path, "--forensic", "--json", stdin=damaged)
    assert done.returncode == 4
    assert b"stays in it" in done.stderr


def test_compress_and_decompress_a_session_and_a_root(run: Callable[..., Ran], tmp_path: Path) -> None:
    paths = write(tmp_path, "one", "two")
    refused = run("compress", "one", "--root", tmp_path)
    assert (refused.code, refused.out) == (3, "")
    assert "--root" in refused.err
    done = run("compress", "--root", tmp_path)
    assert [line.split()[0] for line in done.out.splitlines()] == [f"{path}.zstd" for path in paths]
    assert done.err.startswith("turnlog: 2 logs: ")
    document = run("decompress", "--root", tmp_path, "--json").json
    assert [(one["path"], one["compressed"]) for one in document["logs"]] == [(str(path), False) for path in paths]
    assert run("compress").code == 2
    (tmp_path / "empty").mkdir()
    assert run("compress", "--root", tmp_path / "empty").code == 1
    assert run("compress", "-").code == 2


def test_a_torn_tail_that_was_left_out_is_said(run: Callable[..., Ran], tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one")
    path.write_bytes(path.read_bytes() + b"{")
    assert run("compress", path).code == 3
    done = run("compress", path, "--cut-torn")
    assert done.code == 0
    assert "left out 1 bytes" in done.err


def test_rm_needs_a_yes_and_names_forks_and_foreign_files(run: Callable[..., Ran], tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one")
    (path.parent / "notes.txt").write_bytes(b"")
    refused = spawn("rm", "one", "--root", tmp_path, stdin=b"y\n")
    assert refused.returncode == 2
    assert b"--yes" in refused.stderr
    assert path.exists()
    done = run("rm", "one", "--root", tmp_path, "--yes", "--json")
    assert done.json["removed"] == ["session.jsonl", "attest.jsonl", "session.lock"]
    assert done.json["left"] == ["notes.txt"]
    assert "notes.txt is not ours to remove" in done.err
    assert run("rm", "one", "--root", tmp_path, "--yes").code in (1, 3)  # there is none


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 1), (b"\n", 1)], ids=["yes", "no", "enter"])
def test_rm_asks_somebody_at_a_terminal(tmp_path: Path, answer: bytes, code: int) -> None:
    import pty

    (path,) = write(tmp_path, "one")
    leader, follower = pty.openpty()
    os.write(leader, answer)
    command = [sys.executable, "-c", "import sys; from turnlog.cli import main; sys.exit(main())", "rm", str(path)]
    done = subprocess.run(command, stdin=follower, capture_output=True, check=False)
    os.close(leader)
    os.close(follower)
    assert done.returncode == code
    assert b"for ever? y/N" in done.stderr
    assert path.exists() == bool(code)
    assert done.stdout.startswith(b"removed: session one, 3 files, ") != bool(code)


def test_live_sessions_are_refused_by_every_command(run: Callable[..., Ran], tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one")
    with writer(path):
        for arguments in (["repair"], ["repair", "--apply"], ["compress"], ["decompress"], ["rm", "--yes"]):
            done = run(arguments[0], path, *arguments[1:], *([] if arguments == ["repair"] else ["--force"]))
            assert done.code == 3, arguments
            assert "being written" in done.err
    assert path.exists()


def test_help_says_what_each_command_does(run: Callable[..., Ran]) -> None:
    for name in ("repair", "convert", "compress", "decompress", "rm"):
        shown = run(name, "--help")
        assert shown.code == 0
        assert name in run("--help").out


def test_a_damaged_session_of_a_root_is_repaired_by_its_id(run: Callable[..., Ran], tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one")
    edited(path, b'"type":"step/end"', b'"type":"\0\0\0\0\0\0\0\0"')
    assert run("repair", "one", "--root", tmp_path, "--apply").code == 4
    assert verify(path).verdict == "faults"  # a step without its end

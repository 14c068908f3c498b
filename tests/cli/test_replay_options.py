"""``replay``: from where to where, what at once, stalls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Ran
from tests.views.logs import LONG, SAMPLE, chunk, log, real, root, step, text, turn


def test_it_plays_from_one_address_to_another(run: Callable[..., Ran]) -> None:
    for option in ("--until", "--to"):
        shown = run("replay", SAMPLE, "--speed", "0", "--from", "@2", option, "5")
        assert shown.code == 0
        assert shown.out == (
            "  user/message: Fix the typo in the runoob README.\n"
            "  assistant: I'll \n"
            '  asks for bash: {"command":"grep runoob README.md"}\n'
        )
    frames = run("replay", LONG[4], "--root", root(4), "--json", "--from", "@14/7", "--until", "@14/9").json_lines
    assert [frame["address"] for frame in frames] == ["@14/7", "@14/8", "@14/9"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--from", "@5", "--until", "@3"], 2, "@3 lies before @5"),
        (["--until", "t7"], 1, "has no t7"),
        (["--from", "nowhere"], 2, "no address"),
        (["--granularity", "word"], 2, "token, block, step, turn"),
        (["--stall", "-1"], 2, "--stall"),
    ],
)
def test_what_makes_no_sense_is_refused(run: Callable[..., Ran], words: list[str], code: int, told: str) -> None:
    shown = run("replay", SAMPLE, *words)
    assert (shown.code, shown.out) == (code, "")
    assert told in shown.err


@pytest.mark.parametrize("granularity", ["block", "step", "turn"])
def test_groups_are_one_line_of_json_each_and_show_the_same(run: Callable[..., Ran], granularity: str) -> None:
    single = run("replay", LONG[0], "--root", root(0), "--json").json_lines
    groups = run("replay", LONG[0], "--root", root(0), "--json", "--granularity", granularity).json_lines
    assert 1 < len(groups) < len(single)
    frames = [frame for group in groups for frame in group["frames"]]
    wanted = [{name: member for name, member in one.items() if name not in ("schemaVersion", "waitMs")}
              for one in single]  # fmt: skip
    assert frames == wanted
    assert sum(group["waitMs"] for group in groups) == sum(one["waitMs"] for one in single)
    assert [(group["address"], group["lastAddress"]) for group in groups] == [
        (group["frames"][0]["address"], group["frames"][-1]["address"]) for group in groups
    ]
    plain = run("replay", LONG[0], "--root", root(0), "--speed", "0")
    assert run("replay", LONG[0], "--root", root(0), "--speed", "0", "--granularity", granularity).out == plain.out


def test_stalls_are_marked_with_their_length(run: Callable[..., Ran], tmp_path: Path) -> None:
    words = [{**chunk(text(f"w{at} ")), "time": time} for at, time in enumerate((1000, 1010, 5510, 5520, 65_520))]
    path = tmp_path / "log.jsonl"
    path.write_bytes(log({**turn(), "time": 1000}, {**step(), "time": 1000}, *words))
    shown = run("replay", path, "--speed", "0", "--as-stored")
    assert (
        "w1 \n  … stalled 4.5 s\n  assistant: w2 w3 \n  … stalled 1 min 0 s, 55.0 s of waiting left out\n" in shown.out
    )
    assert "stalled" not in run("replay", path, "--speed", "0", "--stall", "inf").out
    assert run("replay", path, "--speed", "0", "--stall", "0.005").out.count("stalled") == 4
    frames = run("replay", path, "--json", "--as-stored").json_lines
    assert [(frame["address"], frame["stallMs"]) for frame in frames if "stallMs" in frame] == [
        ("@4", 4500), ("@6", 60_000),
    ]  # fmt: skip


def test_a_recording_without_stalls_has_no_marks(run: Callable[..., Ran]) -> None:
    assert len(real(0, LONG[0]))
    assert "stalled" not in run("replay", LONG[0], "--root", root(0), "--speed", "0").out

"""``turn`` and ``sources``: what they print, beyond the sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.running import Ran
from tests.views.logs import LONG, SAMPLE, TOOLS, chunk, end, finish, log, message, root, step, step_end, text, turn
from turnlog import load
from turnlog.events import TextDelta
from turnlog.views import attempts, resolve


def lines(shown: Ran) -> Iterator[tuple[str, str, str]]:
    """Address, time and text of each line."""
    for line in shown.out.splitlines():
        address, time, told = line.split(maxsplit=2)
        yield address, time, told


# -- turn -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 3, 4])
def test_chunks_have_their_own_time_in_every_format(run: Callable[..., Ran], version: int) -> None:
    name = LONG[version]
    shown = {told: (address, time) for address, time, told in lines(run("turn", name, "1", "--root", root(version)))}
    frames = run("replay", name, "--root", root(version), "--json").json_lines
    times = {frame["address"]: frame["loggedAt"] for frame in frames if "chunk" in frame}
    for kind in ("block-start", "text-delta ×600", "block-end", "usage", "finish"):
        address, time = shown[f"chunk: {kind}"]
        assert time == times[address], kind
    assert shown["chunk: block-start"][1] < shown["chunk: finish"][1]


def test_a_turn_as_stored_has_no_closers(run: Callable[..., Ran]) -> None:
    shown = run("turn", "crashed", "2", "--root", root(0))
    assert "closer" in shown.out
    stored = run("turn", "crashed", "t2", "--root", root(0), "--as-stored")
    assert stored.code == 0
    assert stored.out == "".join(line + "\n" for line in shown.out.splitlines() if not line.startswith("closer"))
    assert run("turn", "crashed", "2", "--root", root(0), "--as-stored", "--json").json["closers"] == []


# -- sources --------------------------------------------------------------------------------------------------------


def test_a_chunk_is_shown_with_what_it_says(run: Callable[..., Ran]) -> None:
    shown = run("sources", SAMPLE, "@3")
    assert shown.out.splitlines()[0] == '@3  chunk: text-delta "I\'ll "'
    assert run("sources", SAMPLE, "@3", "--json").json["chunk"] == {
        "address": "@3",
        "loggedAt": "2025-08-12T12:00:00.030Z",
        "chunk": {"type": "text-delta", "index": 0, "text": "I'll "},
    }
    assert run("sources", SAMPLE, "@5", "--json").json["chunk"] is None


def test_a_packed_chunk_is_shown_with_what_it_says(run: Callable[..., Ran]) -> None:
    assert run("sources", LONG[0], "@100", "--root", root(0)).out.startswith("@100  chunk: text-delta '")


@pytest.mark.parametrize("version", [3, 4])
def test_an_embedded_chunk_is_inside_the_event_that_settled_it(run: Callable[..., Ran], version: int) -> None:
    (first,) = attempts(load(root(version) / "--home-dev-project--" / LONG[version]))
    place = first.chunks[5]
    assert isinstance(place.chunk, TextDelta)
    shown = run("sources", LONG[version], place.address, "--root", root(version))
    told, inside, cited = shown.out.splitlines()[:3]
    assert told.startswith(f"{place.address}  chunk: text-delta {place.chunk.text!r}")
    assert inside.startswith(f"  inside       @{place.seq}  assistant/message")
    last = f"@{place.seq}/{len(first.chunks) - 1}"
    assert cited == f"  sources      not listed: its stream is inside it, @{place.seq}/0 to {last}"
    document = run("sources", LONG[version], place.address, "--root", root(version), "--json").json
    assert document["seq"] == place.seq
    assert document["chunk"]["address"] == place.address
    assert document["stream"] == {
        "insideSeq": place.seq, "chunks": len(first.chunks), "first": f"@{place.seq}/0", "last": last,
    }  # fmt: skip
    whole = run("sources", LONG[version], f"@{place.seq}", "--root", root(version), "--json").json
    assert (whole["chunk"], whole["stream"]) == (None, document["stream"])


def test_events_without_a_stream_have_none(run: Callable[..., Ran]) -> None:
    assert run("sources", SAMPLE, "@5", "--json").json["stream"] is None


@pytest.mark.parametrize("version", [0, 3, 4])
def test_an_attempt_stands_for_its_message_when_it_came_to_one(run: Callable[..., Ran], version: int) -> None:
    session = load(root(version) / "--home-dev-project--" / TOOLS[version])
    for one in attempts(session):
        assert one.message is not None
        document = run("sources", TOOLS[version], one.address, "--root", root(version), "--json").json
        assert (document["seq"], document["address"]) == (one.message.seq, one.address)


def test_of_two_attempts_each_stands_for_its_own_end(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    failed = [chunk(text("a")), chunk(finish("error", "RATE_LIMIT"))]
    path.write_bytes(log(turn(), step(), *failed, chunk(text("b")), message(sources=[4]), step_end(), end()))
    assert run("sources", path, "t1.s1.a1", "--json").json["seq"] == 3
    assert run("sources", path, "t1.s1.a2", "--json").json["seq"] == 5
    assert resolve(load(path), "t1.s1.a2").main == 5

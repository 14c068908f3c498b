"""Files that are damaged, odd or made to hurt: nothing raises, and no other record is lost."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

import turnlog
from tests.conftest import Prove
from tests.foreign.files import (
    FILES,
    answered,
    call,
    chat_line,
    covered,
    data,
    lines,
    result,
    said,
    shown,
    types,
    usages,
)
from tests.foreign.files import text as words
from turnlog.events import UndecodablePayload, UserMessage
from turnlog.store import LogRefused, StoredSession
from turnlog.store.convert import convert
from turnlog.store.foreign import detect
from turnlog.store.verify import verify

ODD: tuple[Any, ...] = (
    None, True, 1, -1, 1.5, "", "x", [], {}, [1], {"a": 1}, 10**30, "\ud800", [[]], [None], {"type": "text"},
    {"type": "tool_use"}, {"type": "tool_result"}, {"type": None}, {"type": ["message"]},
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(one for key, member in inner for one in places(member, (*path, key)))]


def with_odd_member(line: bytes, chance: random.Random) -> bytes:
    """The record with one member replaced or gone."""
    value = json.loads(line)
    path = chance.choice(places(value))
    if not path:
        return json.dumps(chance.choice(ODD)).encode()
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    if chance.random() < 0.3:
        del holder[path[-1]]
    else:
        holder[path[-1]] = json.loads(json.dumps(chance.choice(ODD)))
    return json.dumps(value).encode()


def cut(line: bytes, chance: random.Random) -> bytes:
    return line[: chance.randrange(len(line))]


def other_byte(line: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(line))
    return line[:at] + bytes([chance.choice([*range(10), *range(11, 256)])]) + line[at + 1 :]


def noise(_line: bytes, chance: random.Random) -> bytes:
    return bytes(chance.choice([*range(10), *range(11, 256)]) for _ in range(chance.randrange(1, 40)))


CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    with_odd_member,
    with_odd_member,
    cut,
    other_byte,
    noise,
)


def has_something(line: bytes) -> bool:
    return b"\0" in line or bool(line.strip(b" \t\r"))


def changed_file(path: Path, seed: int) -> tuple[bytes, set[int]]:
    """A fixture with a few lines changed, repeated or in another order; and the lines that hold something."""
    chance = random.Random(seed)
    file = path.read_bytes().splitlines()
    if chance.random() < 0.3:
        chance.shuffle(file)
    if chance.random() < 0.3:
        file += [chance.choice(file) for _ in range(3)]
    for place in chance.sample(range(len(file)), min(chance.choice((1, 1, 2, 4)), len(file) - 1)):
        file[place] = chance.choice(CHANGES)(file[place], chance)
    return b"\n".join(file) + b"\n", {number for number, line in enumerate(file, 1) if has_something(line)}


def check_whole(session: StoredSession) -> None:
    """Whatever the file was, the log is one: seqs count up, all is readable, what is derived can be derived."""
    assert [event.seq for event in session.events] == list(range(len(session)))
    assert not [event for event in session.events if isinstance(event.data, UndecodablePayload)]
    assert not [finding for finding in session.findings if finding.severity == "refused"]
    session.derive_messages()


def test_no_changed_line_raises_or_takes_another_record_with_it(prove: Prove) -> None:
    def check(path: Path, seed: int) -> None:
        file, expected = changed_file(path, seed)
        if detect(file) is None:
            return  # too little is left to tell whose file it was
        session = turnlog.load(file)
        check_whole(session)
        assert covered(session) == expected

    prove("changed foreign files: all other lines kept", check, st.sampled_from(FILES), st.integers(0, 2**32), times=3)


def test_the_mapping_is_deterministic_and_keeps_the_order(prove: Prove) -> None:
    def check(path: Path, seed: int) -> None:
        file, _expected = changed_file(path, seed)
        if detect(file) is None:
            return
        session = turnlog.load(file)
        again = turnlog.load(file)
        assert [event.line() for event in session.events] == [event.line() for event in again.events]
        assert session.origins is not None
        for kind in ("kept", "prompts"):
            chosen = [e.seq for e in session.events if (e.ignorable if kind == "kept" else e.type == "user/message")]
            order = [session.origins.lines(seq)[0] for seq in chosen]
            assert order == sorted(order)

    prove("foreign files: same events, order of the file", check, st.sampled_from(FILES), st.integers(0, 2**32))


UNKNOWN = {
    "claude": b'{"type":"star-chart","sessionId":"s","stars":[1, 2.50]}',
    "codex": b'{"type":"star_chart","payload":{"stars":[1, 2.50]}}',
    "chat": b'{"stars":[1, 2.50]}',
}


def test_records_of_unknown_kinds_change_nothing_else_wherever_they_are(prove: Prove) -> None:
    def check(path: Path, places: list[int]) -> None:
        file = path.read_bytes().splitlines()
        unknown = UNKNOWN[path.stem.split("-")[0]]
        for place in places:
            file.insert(1 + place % len(file), unknown)
        plain, session = turnlog.load(path), turnlog.load(b"\n".join(file) + b"\n")
        assert shown(session) == shown(plain)
        assert usages(session) == usages(plain)
        kept = [event for event in session.events if event.raw == unknown]
        assert len(kept) == len(places)
        assert len(session) == len(plain) + len(places)
        typed = [[event.type for event in one.events if not event.ignorable] for one in (session, plain)]
        assert typed[0] == typed[1]

    place = st.lists(st.integers(0, 100), min_size=1, max_size=4)
    prove("unknown records in foreign files: nothing else changes", check, st.sampled_from(FILES), place)


def test_a_conversion_says_what_the_file_says(prove: Prove, tmp_path: Path) -> None:
    def check(path: Path, seed: int) -> None:
        file, _expected = changed_file(path, seed)
        if detect(file) is None:
            return
        session = turnlog.load(file)
        made = turnlog.load(convert(file, tmp_path).path)  # strict: it opens
        assert len(made) == len(session)
        assert shown(made) == shown(session)
        assert [event.raw for event in made.events if event.ignorable] == [
            event.raw for event in session.events if event.ignorable
        ]  # fmt: skip

    prove("foreign files converted: same messages", check, st.sampled_from(FILES), st.integers(0, 2**32))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_fixture_as_it_is_has_no_fault(path: Path) -> None:
    report = verify(path)
    faults = [finding for finding in report.findings if finding.severity != "note"]
    assert faults == []
    assert report.format in ("Claude Code", "Codex", "chat messages")


def test_a_cut_last_line_is_a_torn_tail_and_comes_whole_later() -> None:
    file = data("claude-full")
    for end in range(len(file) - 145, len(file) - 2, 7):
        session = turnlog.load(file[:end])
        assert session.torn is not None
        assert session.torn.offset == file.rindex(b"\n", 0, -1) + 1
        assert session.torn.size == end - file.rindex(b"\n", 0, -1) - 1
        assert covered(session) == set(range(1, 48))
    assert turnlog.load(file).torn is None


def test_a_last_line_without_its_newline_is_whole() -> None:
    session = turnlog.load(data("codex-full")[:-1])
    assert session.torn is None
    assert covered(session) == set(range(1, 49))


def test_lines_that_are_no_records_are_kept_with_their_text() -> None:
    prompt = lines(said("u", "hi"))
    session = turnlog.load(prompt + b'{"type":"user",\n[1,2]\n"\xff\xfe"\n' + prompt)
    kept = [json.loads(event.raw) for event in session.events if event.type == "foreign/unreadable-line"]
    assert [one.get("text", one.get("base64")) for one in kept] == ['{"type":"user",', "[1,2]", "Iv/+Ig=="]
    assert [finding.place.line for finding in session.findings if finding.code == "unreadable-line"] == [2, 3, 4]


def test_nul_blocks_are_reported_and_cost_no_record_around_them() -> None:
    session = turnlog.load(
        b"\0" * 4096 + lines(said("u", "one")) + b"\0" * 512 + b"\n" + lines(said("v", "two", "u")) + b"\0" * 4096
    )
    assert [message for _role, message in shown(session)] == ["one", "two"]
    assert "nul-bytes" in {finding.code for finding in session.findings}


def test_a_byte_order_mark_and_crlf_are_notes() -> None:
    session = turnlog.load(b"\xef\xbb\xbf" + data("claude-full").replace(b"\n", b"\r\n"))
    plain = turnlog.load(data("claude-full"))
    assert [event.line() for event in session.events] == [event.line() for event in plain.events]
    assert {(finding.code, finding.severity) for finding in session.findings} == {("bom", "note"), ("crlf", "note")}


def test_lone_surrogates_stay_as_they_are() -> None:
    prompt = lines(said("u", "half \ud83d"), answered("a", "m", call("c", x="\udc00")), said("r", result("c"), "a"))
    session = turnlog.load(prompt)
    message = next(session.select(UserMessage))
    assert message.data.message.text == "half \ud83d"
    assert b"\\ud83d" in message.raw
    check_whole(session)


@pytest.mark.parametrize("levels", [190, 250, 1000, 100_000])
def test_a_deep_record_is_kept_and_hurts_no_other(levels: int) -> None:
    deep = b'{"type":"user","uuid":"d","sessionId":"s","toolUseResult":%b,"message":{"role":"user","content":"deep"}}\n'
    session = turnlog.load(lines(said("u", "hi")) + deep % (b"[" * levels + b"]" * levels) + lines(said("v", "ho")))
    check_whole(session)
    told = [message for _role, message in shown(session)]
    assert told == (["hi", "deep", "ho"] if levels < 200 else ["hi", "ho"])
    assert covered(session) == {1, 2, 3}


def test_a_line_of_many_megabytes_is_one_record() -> None:
    session = turnlog.load(lines(said("u", "x" * 30_000_000), answered("a", "m", words("long"))))
    assert [len(message) for _role, message in shown(session)] == [30_000_000, 4]


def test_odd_numbers_never_stop_a_file() -> None:
    usage = {"input_tokens": -1, "output_tokens": 10**30, "cache_read_input_tokens": "many"}
    session = turnlog.load(lines(said("u", "hi"), answered("a", "m", words("yes"), usage=usage)))
    check_whole(session)
    digits = lines(said("u", "hi")).replace(b'"cwd"', b'"n":' + b"9" * 5000 + b',"cwd"')
    assert types(turnlog.load(digits + lines(said("v", "ho"))))[0] == "foreign/unreadable-line"


def work_of(file: bytes) -> int:
    """How many lines of Python are run to open a file: a measure that no other program disturbs."""
    import sys

    count = 0

    def step(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return step

    sys.settrace(step)
    try:
        turnlog.load(file)
    finally:
        sys.settrace(None)
    return count


def many_calls(n: int) -> bytes:
    asked = [answered(f"a{k}", "m", call("same", x=k)) for k in range(n)]
    return lines(said("u", "go"), *asked, *(said(f"r{k}", result("same")) for k in range(n)))


def many_rewinds(n: int) -> bytes:
    again = [one for k in range(n) for one in (said(f"v{k}", "again", "a"), answered(f"b{k}", f"n{k}", words("x")))]
    return lines(said("u", "go"), answered("a", "m", words("first")), *again)


def many_compactions(n: int) -> bytes:
    file: list[object] = []
    for k in range(n):
        file += [said(f"u{k}", "q"), answered(f"a{k}", f"m{k}", words("x"))]
        file.append(said(f"s{k}", "sum", isCompactSummary=True))
    return lines(*file)


def growing_conversation(n: int) -> bytes:
    return lines(*(chat_line(*(f"q{k}" for k in range(220 + count))) for count in range(n)))


@pytest.mark.parametrize("make", [many_calls, many_rewinds, many_compactions, growing_conversation])
def test_work_grows_with_the_file_and_not_with_its_square(make: Callable[[int], bytes]) -> None:
    small, large = make(60), make(240)
    growth = len(large) / len(small)
    assert work_of(large) < work_of(small) * growth * 1.5


@pytest.mark.parametrize("file", [b"", b"\xff\xfe{\0", b"hello\nworld\n", b"{}\n", b'{"type":"user"}\n', b"[]\n"])
def test_a_file_of_no_known_program_is_refused_as_before(file: bytes) -> None:
    assert detect(file) is None
    with pytest.raises(LogRefused):
        turnlog.load(file)


def test_a_log_is_never_taken_for_a_foreign_file() -> None:
    foreign = data("claude-full")
    sample = (Path(__file__).parents[1] / "data" / "sample.jsonl").read_bytes()
    assert detect(sample + foreign) is None
    assert detect(b'{"type":"session","version":0,"id":"x","createdAt":1}\n' + foreign) is None
    assert detect(b"torn first li\n" + foreign) is not None

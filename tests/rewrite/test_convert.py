"""``convert``: any stored session as a new format-0 session, with a map of its seqs and every difference named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.cases.inputs import case
from tests.log.sessions import chunk, user
from tests.rewrite.sessions import NOW, clock, edited, files, messages, where, write
from tests.store.logs import CORPUS, Log
from turnlog import Vocabulary, open_store
from turnlog.events import (
    AssistantChunk,
    ModelInput,
    RequestHeader,
    StepStart,
    TextBlock,
    TextDelta,
    TodoWrite,
    TokenUsage,
    TurnStart,
    UsageChunk,
)
from turnlog.events.header import CallConfig, Header
from turnlog.log import Replace
from turnlog.store import Conversion, LogCorrupt, RewriteRefused, StoredSession, convert, load, verify
from turnlog.store.convert import MAP_NAME
from turnlog.views.streams import embedded

LOGS = sorted(path for version in ("sample", "v0", "v3", "v4") for path in (CORPUS / version).rglob("session*.jsonl*"))
PLUGIN_OF = {"runtime-context": "@deepseek-ai/dsh-system-prompt", "system-prompt": "@deepseek-ai/dsh-system-prompt"}


def name_of(path: Path) -> str:
    return f"{path.relative_to(CORPUS).parts[0]}-{path.parent.name}"


def codes(differences: Iterable[Any]) -> set[str]:
    return {one.code for one in differences}


def expected(session: StoredSession) -> list[Any]:
    """The stored view, without what format 0 has no message for and with its sources."""
    found = []
    for message in messages(session):
        source = message["source"]
        if message["role"] == "system":
            continue
        if source["kind"] in PLUGIN_OF:
            source = {**source, "kind": "plugin", "plugin": PLUGIN_OF[source["kind"]]}
        elif source["kind"] == "unrecorded":
            model = {"kind": "model", "provider": "unrecorded", "model": "unrecorded"}
            source = model if message["role"] == "assistant" else {"kind": "user"}
        found.append({**message, "source": source})
    return found


@pytest.mark.parametrize("for_dsh", [False, True], ids=["all", "for-dsh"])
@pytest.mark.parametrize("path", LOGS, ids=name_of)
def test_every_log_of_dsh_becomes_a_sound_session_with_the_same_messages(
    tmp_path: Path, path: Path, for_dsh: bool
) -> None:
    before = path.read_bytes()
    done = convert(path, tmp_path, id="made", for_dsh=for_dsh)
    session, old = load(done.path), load(path)
    report = verify(done.path)
    assert report.ok
    assert (report.proof.state, report.proof.seq) == ("proven", len(session))
    assert (session.format, session.id, len(session)) == ("format 0", "made", done.events)
    assert messages(session) == expected(old)
    assert session.header.cwd == old.header.cwd
    assert session.header.created_at == old.header.created_at
    known = {event.type for event in session.events} <= set(Vocabulary.core)
    assert known or not for_dsh
    assert path.read_bytes() == before
    assert files(done.path.parent) == ["attest.jsonl", MAP_NAME, "session.jsonl", "session.lock"]


@pytest.mark.parametrize("path", [path for path in LOGS if "/v0/" in str(path)], ids=name_of)
def test_a_plain_format_0_session_is_copied_event_by_event(tmp_path: Path, path: Path) -> None:
    done = convert(path, tmp_path)
    assert [event.line() for event in load(done.path).events] == [event.line() for event in load(path).events]
    assert (done.differences, done.chunks) == ((), ())
    assert done.seqs == ((0, 0, done.events),)
    assert done.header.id != load(path).id


@pytest.mark.parametrize("path", [path for path in LOGS if "/v4/" in str(path)], ids=name_of)
def test_every_chunk_of_an_embedded_stream_is_an_event_at_its_recorded_time(tmp_path: Path, path: Path) -> None:
    done = convert(path, tmp_path)
    session, old = load(done.path), load(path)
    streams = {event.seq: embedded(event) for event in old.events if embedded(event)}
    assert [(seq, count) for seq, _first, count in done.chunks] == [(seq, len(one)) for seq, one in streams.items()]
    new_of = {old + k: new + k for old, new, count in done.seqs for k in range(count)}
    for seq, first, count in done.chunks:
        events = session.events[first : first + count]
        assert [event.time for event in events] == [timed.time for timed in streams[seq]]
        for event, timed in zip(events, streams[seq], strict=True):
            assert isinstance(event.data, AssistantChunk)
            assert event.data.chunk == timed.chunk
        if old.event(seq).type == "assistant/message":
            assert session.event(new_of[seq]).sources == tuple(range(first, first + count))
        else:
            assert new_of[seq] == first + count - 1  # a failed attempt is its chunks


def test_the_map_tells_for_every_old_event_the_new_one(tmp_path: Path) -> None:
    path = CORPUS / "v3" / "--home-dev-project--" / "multi-turn-session" / "session.v3.jsonl.zstd"
    done = convert(path, tmp_path, id="made")
    old, new = load(path), load(done.path)
    stored = json.loads((done.path.parent / MAP_NAME).read_bytes())
    assert stored["from"]["id"] == "multi-turn-session"
    assert stored["from"]["format"] == "format 3"
    assert stored["to"] == {"id": "made", "events": len(new)}
    mapped = {first + k: at + k for first, at, count in stored["seqs"] for k in range(count)}
    gone = {seq for one in stored["differences"] if one["code"] == "system-message" for seq in one["seqs"]}
    assert mapped.keys() | gone == {event.seq for event in old.events}
    assert all(old.event(before).type == new.event(after).type for before, after in mapped.items())
    result = next(event for event in new.events if event.type == "tool/result")
    assert [new.event(seq).type for seq in result.sources or ()] == ["tool/call"]
    titles = [event for event in new.events if event.type == "session/title"]
    assert all(new.event(seq).type == "user/message" for one in titles for seq in json.loads(one.raw)["messageSeqs"])
    note = json.loads((done.path.parent / "attest.jsonl").read_bytes().splitlines()[0])
    assert note["text"] == "converted from session multi-turn-session, format 3"


def test_the_prompt_of_formats_3_and_4_is_in_the_request_header(tmp_path: Path) -> None:
    for version in ("v3", "v4"):
        path = next((CORPUS / version).rglob("crashed-session/*"))
        header = load(convert(path, tmp_path / version).path).request_header()
        assert header is not None
        assert (header.system or "").startswith("Invented text ")
        assert header.system == load(path).derive_messages()[0].text


def test_what_a_crash_left_open_stays_open_and_is_closed_on_resume(tmp_path: Path) -> None:
    done = convert(CORPUS / "v4" / "--home-dev-project--" / "crashed-session", tmp_path, id="made")

    async def resume() -> list[str]:
        async with open_store(tmp_path) as store:
            return [event.type for event in (await store.resume("made")).events][done.events :]

    assert asyncio.run(resume()) == ["step/end", "turn/end", "session/end-seed"]
    assert verify(done.path).proof.state == "proven"


# -- logs by hand -----------------------------------------------------------------------------------------------


def converted(tmp_path: Path, log: Log, **how: Any) -> tuple[Conversion, StoredSession]:
    version = log.header["version"]
    path = tmp_path / ("session.jsonl" if version == 0 else f"session.v{version}.jsonl")
    tmp_path.mkdir(exist_ok=True)
    path.write_bytes(log.text())
    done = convert(path, tmp_path / "made", id="made", **how)
    assert verify(done.path).ok
    return done, load(done.path)


def test_plugin_events_stay_as_ignorable_ones_and_go_for_dsh_with_references_remapped(tmp_path: Path) -> None:
    log = Log()
    log.turn()
    fact = log.add("crew/note", {"text": "rain"}, ignorable=True)
    log.step()
    shown = log.user("It rains.", source={"kind": "plugin", "plugin": "crew"}, sourceEventSeqs=[fact])
    log.add("crew/other", [1])
    asked = log.user("What now?")
    cited = log.text_chunks(["Go ", "in", "."])
    log.answer("Go in.", sources=cited)
    log.add("session/title", {"title": "Rain", "messageSeqs": [shown, asked], "source": {"kind": "user"}})
    op = {"op": "replace", "start": shown, "end": asked}
    log.user("Earlier: rain.", surfaceOp=op, sourceEventSeqs=[shown, asked])
    log.end_step()
    log.end_turn()

    done, session = converted(tmp_path / "all", log)
    assert [event.ignorable for event in session.events if event.type.startswith("crew/")] == [True, True]
    assert codes(done.differences) == {"ignorable"}
    assert done.seqs == ((0, 0, len(log.events)),)

    done, session = converted(tmp_path / "dsh", log, for_dsh=True)
    assert codes(done.losses) == {"dropped-type", "sources"}
    assert [event.type for event in session.events if event.type.startswith("crew/")] == []
    first, second, *_rest, last = [event for event in session.events if event.type == "user/message"]
    assert (first.seq, first.sources) == (2, None)
    assert last.surface_op == Replace("replace", 2, 3)
    assert last.sources == (2, 3)
    assert second.seq == 3
    (title,) = [event for event in session.events if event.type == "session/title"]
    assert json.loads(title.raw)["messageSeqs"] == [2, 3]
    assert messages(session) == messages(load(tmp_path / "all" / "session.jsonl"))


def test_old_shapes_of_format_0_are_brought_up_to_date(tmp_path: Path) -> None:
    log = Log("old")
    log.add("turn/start", {"turn": 1, "trigger": {"kind": "user"}})
    log.step()
    log.add("steering/message", {"turn": 1, "content": [{"type": "text", "text": "Left"}], "source": {"kind": "user"}},
            surfaceOp="append")  # fmt: skip
    content = [{"type": "text", "text": "Yes"}]
    provenance = {"provider": "example", "model": "demo-1"}
    log.add("assistant/message", {"turn": 1, "step": 1, "content": content, "provenance": provenance},
            surfaceOp="append")  # fmt: skip
    log.end_step()
    log.add("compact/prune", {"shadowedRange": {"start": 2, "end": 3}, "shadowedSeqs": [2, 3], "shadowedTokenCount": 1})
    log.end_turn(1, kind="error", step=1, message="broke", code="X")
    done, session = converted(tmp_path, log)
    old = load(tmp_path / "session.jsonl")
    assert messages(session) == messages(old)
    assert [message["id"] for message in messages(session)] == ["legacy-message:old:2", "legacy-message:old:3"]
    assert codes(done.differences) == {"old-shape", "renamed"}
    assert session.event(0).raw == b'{"turn":1}'
    assert session.event(2).type == "user/message"
    assert session.event(5).type == "compaction/prune"
    assert json.loads(session.event(6).raw)["reason"] == {"kind": "error", "error": {"message": "broke", "code": "X"}}


def test_what_only_later_formats_have_is_named_when_it_goes(tmp_path: Path) -> None:
    log = Log(version=4, isSeeded=True, parentSession="p", agentPreset="ptc")
    log.turn()
    log.step()
    prompt = {"role": "system", "content": [{"type": "text", "text": "Be kind."}], "source": {"kind": "system-prompt"}}
    log.add("system/message", {"turn": 1, "step": 1, "message": {**prompt, "id": "s1"}}, surfaceOp="append")
    log.user("Hi", source={"kind": "plugin:crew", "form": "notice"})
    tools = [{"name": "a", "description": "b", "parameters": {}, "deferLoading": True}]
    config = {"provider": "example", "model": "demo-1"}
    log.add("request/header", {"header": {"config": config, "tools": tools}, "reason": "series", "startsSeries": True})
    added = {"role": "developer", "content": [{"type": "tool-addition", "toolName": "a"}], "id": "d1",
             "source": {"kind": "tools"}}  # fmt: skip
    log.add("developer/message", {"turn": 1, "step": 1, "message": added, "headerSeq": 4}, surfaceOp="append")
    log.end_step()
    log.end_turn(1, kind="forked")
    log.add("session/end-seed", {"inherited": True})
    log.turn(2)
    log.step(2)
    changed = {
        "role": "system",
        "content": [{"type": "text", "text": "Be brief."}],
        "source": {"kind": "system-prompt"},
    }
    log.add("system/message", {"turn": 2, "step": 1, "message": {**changed, "id": "s2"}},
            surfaceOp={"op": "replace", "startSeq": 2, "endSeq": 2}, sourceEventSeqs=[2])  # fmt: skip
    late = {"type": "tool-call-delta", "index": 0, "id": "", "argumentsDelta": "{}"}
    block = {"type": "tool-call", "id": "c1", "name": "a", "arguments": "{}"}
    records = [{"type": "chunk", "time": 7, "chunk": late},
               {"type": "chunk", "time": 8, "chunk": {"type": "block-end", "index": 0, "block": block}},
               {"type": "chunk", "time": 9, "chunk": {"type": "usage", "usage": {"inputTokens": 1, "outputTokens": 2,
                                                                              "totalTokens": 3}}}]  # fmt: skip
    log.add("assistant/attempt", {"turn": 2, "step": 1, "stream": records[:1]})
    source = {"kind": "model", **config}
    log.add("assistant/message", {"turn": 2, "step": 1, "stream": records, "message": {
        "role": "assistant", "content": [block], "source": source, "id": "a1"}}, surfaceOp="append")  # fmt: skip
    log.call("c1", name="a", turn=2)
    log.result("c1", "done", turn=2, sources=[13])
    log.add("tool/ptc-dispatch", {"rootCallId": "c1", "parentCallId": "c1", "subCallId": "x", "name": "a",
                                  "arguments": "{}", "isError": False, "content": []})  # fmt: skip
    log.end_step(2)
    log.end_turn(2)
    path = tmp_path / "session.v4.jsonl"
    path.write_bytes(log.text())
    done = convert(path, tmp_path / "made", id="made")
    session = load(done.path)
    assert codes(done.losses) == {"system-message", "header-members", "series", "developer-message", "forked",
                                  "usage-total"}  # fmt: skip
    assert codes(done.differences) - codes(done.losses) == {"attempt", "late-id", "renamed", "source", "stream",
                                                            "system-header"}  # fmt: skip
    first, second = [json.loads(event.raw) for event in session.events if event.type == "request/header"]
    assert (first["reason"], first["header"]["system"]) == ("change", "Be kind.")
    assert first["header"]["tools"] == [{"name": "a", "description": "b", "parameters": {}}]
    assert (second["reason"], second["header"]["system"]) == ("change", "Be brief.")
    assert [message["source"] for message in messages(session)][:2] == [
        {"kind": "plugin", "form": "notice", "plugin": "crew"},
        source,
    ]
    marker = next(event.seq for event in session.events if event.type == "session/end-seed")
    assert session.header.seed_length == marker
    assert (session.header.parent_session, session.header.agent_preset) == ("p", "code")
    assert session.event(marker).raw == b"{}"
    usage = [event.data.chunk for event in session.select(AssistantChunk) if isinstance(event.data.chunk, UsageChunk)]
    assert usage == [UsageChunk(TokenUsage(input_tokens=1, output_tokens=2))]
    assert b"totalTokens" not in done.path.read_bytes()
    deltas = [json.loads(event.raw)["chunk"] for event in session.select(AssistantChunk)]
    assert deltas[1]["id"] == "c1"


def test_halves_of_pairs_and_exact_numbers_survive_inside_streams(tmp_path: Path) -> None:
    log = Log(version=2)
    log.turn()
    log.step()
    text = "half \ud83d and \u2028"
    records = [
        {"type": "text-chunks", "time0": 5, "index": 0, "dt": [1, -3], "texts": ["half ", "\ud83d", " and \u2028"]},
        {"type": "chunk", "time": 6, "chunk": {"type": "new-kind", "index": 0, "number": 12345678901234567890}},
    ]
    message = {"role": "assistant", "content": [{"type": "text", "text": text}], "id": "a1",
               "source": {"kind": "model", "provider": "example", "model": "demo-1"}}  # fmt: skip
    log.add("assistant/message", {"turn": 1, "step": 1, "message": message, "stream": records}, surfaceOp="append")
    log.end_step()
    log.end_turn()
    path = tmp_path / "session.v2.jsonl"
    path.write_bytes(log.text())
    session = load(convert(path, tmp_path / "made").path)
    chunks = [event for event in session.events if event.type == "assistant/chunk"]
    assert [event.time for event in chunks] == [5, 6, 3, 6]
    assert [json.loads(event.raw)["chunk"].get("text") for event in chunks[:3]] == ["half ", "\ud83d", " and \u2028"]
    assert b"12345678901234567890" in chunks[3].raw
    assert messages(session)[0]["content"][0]["text"] == text


# -- damage, roots, ids -----------------------------------------------------------------------------------------


def test_a_damaged_log_is_refused_unless_somebody_asks_for_what_is_readable(tmp_path: Path) -> None:
    path = case(11, "nul-replaces-record.jsonl")
    with pytest.raises(LogCorrupt):
        convert(path, tmp_path)
    assert not list(tmp_path.iterdir())
    done = convert(path, tmp_path, forensic=True)
    assert done.events == 30
    assert "lost" in codes(done.losses)
    assert done.seqs == ((0, 0, 8), (9, 8, 22))


def test_a_damaged_log_of_a_later_format_is_won_too(tmp_path: Path) -> None:
    log = Log(version=3)
    for turn in (1, 2):
        log.turn(turn)
        log.step(turn)
        log.user(f"Question {turn}")
        log.end_step(turn)
        log.end_turn(turn)
    path = tmp_path / "session.v3.jsonl"
    path.write_bytes(log.text())
    edited(path, b'"type":"turn/end"', b'"type":"turn\0end"')
    done = convert(path, tmp_path / "made", forensic=True)
    assert done.events == 9
    assert [message["content"][0]["text"] for message in messages(load(done.path))] == ["Question 1", "Question 2"]


def test_the_unfinished_tail_is_left_out_and_named(tmp_path: Path) -> None:
    done = convert(case(49, "torn-last-frame.jsonl.zstd"), tmp_path)
    assert done.events == 22
    assert "torn-tail" in codes(done.losses)


def test_a_new_session_has_the_encoding_of_its_root(tmp_path: Path) -> None:
    write(tmp_path, "one", compressed=True)
    done = convert(case(7), tmp_path)
    assert done.path.name == "session.jsonl.zstd"
    assert verify(done.path).ok


def test_an_id_that_is_taken_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one")
    before = files(path.parent)
    with pytest.raises(RewriteRefused, match="already"):
        convert(path, tmp_path, id="one")
    assert files(path.parent) == before
    assert convert(path, tmp_path, id="two", clock=clock).path.parent.name == "two"
    note = json.loads((tmp_path / path.parent.parent.name / "two" / "attest.jsonl").read_bytes().splitlines()[0])
    assert note["time"] == NOW


def test_bytes_are_converted_too(tmp_path: Path) -> None:
    done = convert(case(7).read_bytes(), tmp_path, id="made")
    assert len(load(done.path)) == 20
    assert "path" not in json.loads((done.path.parent / MAP_NAME).read_bytes())["from"]


def test_model_inputs_of_plugins_keep_their_message_for_dsh(tmp_path: Path) -> None:
    class Forecast(ModelInput, type="forecast/seen"):
        text: str

        def render(self) -> tuple[TextBlock, ...]:
            return (TextBlock(self.text),)

    with pytest.warns(UserWarning, match="not readable by dsh"):
        vocabulary = Vocabulary.core.extend(Forecast)

    async def run() -> None:
        async with open_store(tmp_path / "old") as store:
            session = await store.create(cwd="/w", id="one", vocabulary=vocabulary)
            session.append_input(Forecast(text="rain"))

    asyncio.run(run())
    done = convert(tmp_path / "old" / "--w--" / "one", tmp_path / "new", for_dsh=True)
    (event,) = load(done.path).events
    assert (event.type, event.seq, event.sources) == ("user/message", 0, None)
    assert done.events == 1


def test_the_seed_of_a_fork_ends_before_the_answer_it_was_cut_in_for_dsh(tmp_path: Path) -> None:
    """dsh's migrations refuse a seed that ends inside of an answer."""

    async def forked() -> None:
        async with open_store(tmp_path / "old") as store:
            parent = await store.create(id="parent")
            parent.append(TurnStart(turn=1))
            parent.append(StepStart(turn=1, step=1))
            parent.append(user())
            parent.append(RequestHeader(header=Header(config=CallConfig("acme", "acme-1")), reason="initial"))
            parent.append(chunk(TextDelta(0, "half ")))
            parent.append(TodoWrite(todos=()))
            parent.append(chunk(TextDelta(0, "a sentence")))
            store.keep(parent.fork(id="child"))

    asyncio.run(forked())
    old = where(tmp_path / "old", "child", None)
    before = load(old)
    done = convert(old, tmp_path / "dsh", for_dsh=True)
    session = load(done.path)
    assert [event.type for event in session.events][4:] == [
        "session/end-seed", "assistant/chunk", "todo/write", "assistant/chunk", "assistant/message", "step/end",
        "turn/end",
    ]  # fmt: skip
    assert (before.header.seed_length, session.header.seed_length) == (7, 4)
    assert session.event(8).sources == (5, 7)
    assert [one.data for one in session.events if one.type != "session/end-seed"] == [
        one.data for one in before.events if one.type != "session/end-seed"
    ]
    assert messages(session) == messages(before)
    assert [(one.code, one.seqs) for one in done.losses] == [("seed", (7,))]
    assert done.seqs == ((0, 0, 4), (4, 5, 3), (7, 4, 1), (8, 8, 3))
    done = convert(old, tmp_path / "as-it-is")
    assert load(done.path).events == before.events
    assert done.losses == ()

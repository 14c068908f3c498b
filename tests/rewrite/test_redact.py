"""Copies of logs without their secrets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import turnlog
from turnlog import Agent, tool
from turnlog.events import AssistantChunk, TextDelta
from turnlog.log.redaction import RedactionRule, Redactor
from turnlog.model import ScriptedModel, call, text
from turnlog.store.discover import latest
from turnlog.store.errors import RewriteRefused
from turnlog.store.redact import redact

KEY = "AKIAIOSFODNN7EXAMPLE"
CORPUS = Path(__file__).parents[1] / "data" / "corpus"


@tool
def leak() -> str:
    """Say too much."""
    return f"the key is {KEY}"


def stored(root: Path, *, compressed: bool = False) -> Path:
    async def work() -> None:
        async with turnlog.open_store(root, compressed=compressed) as store:
            session = await store.create(cwd=root)
            answers = [call("leak"), text("It is AKIAIOSF", "ODNN7EXA", "MPLE, I think.")]
            async with Agent(session, ScriptedModel(answers), [leak]) as agent:
                await agent.run(f"Is {KEY} the key?")

    asyncio.run(work())
    return latest([root])


@pytest.mark.parametrize("compressed", [False, True])
def test_no_piece_of_a_secret_is_left_and_everything_else_stays(tmp_path: Path, compressed: bool) -> None:
    log = stored(tmp_path, compressed=compressed)
    before = log.read_bytes()

    done = redact(log, Redactor())

    assert log.read_bytes() == before
    old, new = turnlog.load(log), turnlog.load(done.path.read_bytes())
    assert len(old) == len(new) == done.events
    together = b"".join(event.line() for event in new.events)
    assert KEY.encode() not in together
    said = [event.data.chunk.text for event in new.select(AssistantChunk) if isinstance(event.data.chunk, TextDelta)]
    assert said == ["It is [redacted:aws-key], I think.", "", ""]
    for was, now in zip(old.events, new.events, strict=True):
        assert (was.seq, was.time, was.type, was.sources) == (now.seq, now.time, now.type, now.sources)
        assert (was.raw == now.raw) is (was.seq not in done.seqs)
    assert done.hits["aws-key"] >= 4


def test_a_log_without_secrets_is_copied_as_it_is(tmp_path: Path) -> None:
    log = stored(tmp_path)

    done = redact(log, Redactor([RedactionRule.of("nothing", "there is no such text")]))

    assert done.seqs == ()
    assert [event.line() for event in turnlog.load(done.path.read_bytes()).events] == [
        event.line() for event in turnlog.load(log).events
    ]


def test_redacting_a_copy_again_changes_nothing(tmp_path: Path) -> None:
    once = redact(stored(tmp_path), Redactor())
    again = tmp_path / "again" / "session.jsonl"
    again.parent.mkdir()
    again.write_bytes(once.path.read_bytes())

    assert redact(again, Redactor()).seqs == ()


def test_other_formats_are_refused_with_the_remedy(tmp_path: Path) -> None:
    log = next(iter(CORPUS.glob("v3/**/session*.jsonl*")))
    copy = tmp_path / log.name
    copy.write_bytes(log.read_bytes())

    with pytest.raises(RewriteRefused, match="turnlog convert"):
        redact(copy, Redactor())

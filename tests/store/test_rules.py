"""What one format forbids though its events are readable: faults for ``verify``, never a refusal (dsh-formats §3-5)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.store.logs import Log
from tests.store.reading import codes, opened
from turnlog.store import verify


def faults(log: Log) -> list[str]:
    """The texts of the shape faults; strict reading takes the log all the same."""
    opened(log.text())
    return [finding.text for finding in verify(log.text()).findings if finding.code == "shape"]


def headed(version: int, *, reason: str = "initial", **header: Any) -> Log:
    log = Log(version=version)
    log.turn()
    data = {"header": {"config": {"provider": "p", "model": "m"}, **header}, "reason": reason}
    log.add("request/header", data)
    return log


@pytest.mark.parametrize(("version", "known"), [(0, False), (1, True), (2, True), (3, True), (4, True)])
def test_a_series_of_requests_starts_in_later_formats_only(version: int, known: bool) -> None:
    expected = [] if known else ["request/header @1: $.reason: 'series' is none of initial, resume, change."]
    assert faults(headed(version, reason="series")) == expected


@pytest.mark.parametrize("version", range(5))
def test_a_reason_that_no_format_has_is_a_fault_in_each(version: int) -> None:
    assert len(faults(headed(version, reason="whim"))) == 1


@pytest.mark.parametrize(("version", "forbidden"), [(0, False), (1, False), (2, False), (3, True), (4, True)])
def test_the_system_prompt_left_the_request_header_in_format_3(version: int, forbidden: bool) -> None:
    assert [":" in text and "$.header.system" in text for text in faults(headed(version, system=""))] == (
        [True] if forbidden else []
    )


@pytest.mark.parametrize(("version", "forbidden"), [(0, False), (1, False), (2, True), (3, True), (4, True)])
def test_answers_cite_chunks_only_where_there_are_chunks(version: int, forbidden: bool) -> None:
    log = Log(version=version)
    log.turn()
    log.step()
    log.answer("hi", sources=[])
    assert ["sourceEventSeqs" in text for text in faults(log)] == ([True] if forbidden else [])


@pytest.mark.parametrize(("version", "forbidden"), [(0, False), (3, False), (4, True)])
def test_format_4_has_no_source_kind_for_plugins_at_large(version: int, forbidden: bool) -> None:
    log = Log(version=version)
    log.turn()
    log.user("hi", source={"kind": "plugin", "plugin": "x"})
    assert ["source.kind" in text for text in faults(log)] == ([True] if forbidden else [])


def test_a_plugin_spoken_of_in_format_4_is_no_fault() -> None:
    log = Log(version=4)
    log.turn()
    log.user('the word "plugin"')
    assert codes(verify(log.text()).findings, "fault") == []


def test_a_source_of_another_meaning_in_format_4_is_no_fault() -> None:
    log = Log(version=4)
    log.add("session/title", {"title": "x", "source": {"kind": "plugin", "plugin": "x"}})
    assert codes(verify(log.text()).findings, "fault") == []

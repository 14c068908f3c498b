"""What is found in a text, and what a block must hold to be worth a look."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st

import turnlog
from tests.conftest import Prove
from tests.search.stores import QUERIES, WORDS
from tests.views.logs import CASES, root
from turnlog.catalogue import Query, QueryInvalid
from turnlog.catalogue.fold import fold
from turnlog.catalogue.said import of_event, spoken
from turnlog.events import UndecodablePayload
from turnlog.store import LogRefused
from turnlog.views.filters import event_text

texts = st.lists(st.sampled_from([*WORDS, " ", "\n", "Ab", "é", "界"]), max_size=6).map(" ".join)


def test_letters_that_a_regular_expression_takes_for_the_same_fold_to_the_same() -> None:
    for code in range(sys.maxunicode + 1):
        if 0xD800 <= code < 0xE000:
            continue
        one = chr(code)
        for other in {one.upper(), one.lower(), one.casefold(), one.swapcase(), one.title()}:
            if len(other) == 1 and other != one and re.fullmatch(re.escape(other), one, re.IGNORECASE):
                assert fold(one) == fold(other), (one, other)
    for left, right in ("iı", "sſ", "k\u212a", "ﬅﬆ", "ΐΐ", "ßẞ", "µμ"):
        assert fold(left) == fold(right)


def test_folding_keeps_the_length(prove: Prove) -> None:
    def check(text: str) -> None:
        assert len(fold(text)) == len(text)
        fold(text).encode()  # whatever it was, a database takes it

    prove("folding keeps places", check, st.text() | st.text(alphabet="\0\ud800\udc00ßİŉ"))


def test_a_literal_is_found_where_a_pattern_of_its_words_finds_it(prove: Prove) -> None:
    def check(text: str, query: str) -> None:
        found = Query(query).find(text)
        naive = re.search(r"\s+".join(map(re.escape, query.split())), text, re.IGNORECASE)
        assert (None if found is None else tuple(found)) == (None if naive is None else naive.span())

    prove("literals", check, texts, st.sampled_from(QUERIES))


def test_words_are_found_in_any_order_but_not_inside_of_others(prove: Prove) -> None:
    assert Query("Beta alpha", "words").find("alpha, then BETA")
    assert not Query("alp", "words").find("alpha")
    assert not Query("alpha gamma", "words").find("alpha")
    assert Query("你好", "words").find("他说你好吗")

    def check(text: str, words: list[str]) -> None:
        found = Query(" ".join(words), "words").find(text)
        plain = set(re.findall(r"\w+", fold(text)))
        assert (found is not None) == all(fold(word) in plain for word in words)

    ascii_words = st.lists(st.sampled_from(["alpha", "beta", "globe", "x", "404", "ab"]), min_size=1, max_size=2)
    prove("words", check, texts, ascii_words)


def test_whatever_is_found_holds_every_needle(prove: Prove) -> None:
    patterns = ["al(ph|x)a", "a+b*", r"(?i)BETA\s+be", "你|好", "x{2,3}y?", "(a)(b)?", "[ab]c", "(?<=a)b", r"\bok\b",
                "a(?:bc)+d", "(?i:Kel)vin", "^two$", "err.r 4", "(ab)?(?(1)c|d)", "(?P<n>a)(?P=n)"]  # fmt: skip

    def check(text: str, pattern: str) -> None:
        query = Query(pattern, "regex")
        found = query.find(text)
        naive = re.search(pattern, text)
        assert (None if found is None else tuple(found)) == (None if naive is None else naive.span())
        if found is not None:
            assert all(needle in fold(text) for needle in query.needles)
            assert all(gram in fold(text) for gram in query.grams())

    more = st.text(alphabet="abcdxy kelvin你好", max_size=12)
    prove("needles", check, texts | more, st.sampled_from(patterns))


def test_a_query_that_cannot_be_searched_for_says_why() -> None:
    for text, mode, said in (("  ", "literal", "white space"), ("(", "regex", "no regular expression"),
                             ("", "regex", "empty")):  # fmt: skip
        with pytest.raises(QueryInvalid, match=said):
            Query(text, mode)  # type: ignore[arg-type]


# -- what events say ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 3, 4])
def test_lines_say_what_their_events_say(version: int) -> None:
    files = list(root(version).rglob("session*.jsonl*"))
    assert files
    said = sum(check_lines(path) for path in files)
    assert said > 20


def test_lines_of_logs_with_known_failures_say_what_their_events_say() -> None:
    files = [path for path in CASES.rglob("*.jsonl*") if path.stat().st_size < 1 << 20]
    assert sum(check_lines(path) for path in files) > 20


def check_lines(path: Path) -> int:
    try:
        session = turnlog.load(path)
    except LogRefused:
        return 0
    if session.format == "sample":
        return 0
    found = 0
    for event in session.events:
        if isinstance(event.data, UndecodablePayload):
            continue
        text = event_text(event)
        line = spoken(event.line())
        assert ("" if line is None else line.text) == text, (path, event.seq)
        found += bool(text)
    return found


def test_what_is_no_event_says_nothing() -> None:
    for line in (b"", b"{", b"[]", b'{"type":"tool/call"}', b'{"seq":1}', b'{"type":1,"seq":1,"data":{}}', b"[" * 5000,
                 b'{"type":"user/message","seq":0,"data":[],"surfaceOp":"append"}',
                 b'{"type":"tool/result","seq":0,"data":{"message":5}}'):  # fmt: skip
        assert spoken(line) is None
    assert of_event(0, None, "tool/call", {"name": "bash", "arguments": 5}, False).text == "bash"  # type: ignore[union-attr]
    assert json.loads(json.dumps(of_event(0, 7, "tool/call", {"name": "b", "callId": 5}, False)))[6] is None

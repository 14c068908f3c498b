"""Secrets are found, text around them stays, and JSON stays JSON."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.events.lossless import freeze
from turnlog.log.redaction import BUILTIN_RULES, RedactionRule, Redactor

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx/y+z=\nabc\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
SECRETS = {
    "AKIAIOSFODNN7EXAMPLE": "aws-key",
    "ghp_" + "a1B2" * 9: "github-token",
    "github_pat_" + "a1B2" * 9: "github-token",
    "glpat-" + "a1B2" * 6: "gitlab-token",
    "AIza" + "a1B2_" * 7: "google-key",
    "sk_live_" + "a1B2" * 6: "stripe-key",
    "sk-" + "a1B2" * 8: "api-key",
    "sk-ant-api03-" + "a1B2" * 8: "api-key",
    "xoxb-1234567890-abcdef": "slack-token",
    JWT: "jwt",
    PEM: "private-key",
}
REDACTOR = Redactor()


@pytest.mark.parametrize(("secret", "rule"), SECRETS.items())
def test_a_secret_is_replaced_wherever_it_stands(secret: str, rule: str) -> None:
    for before, after in (("", ""), ("key: ", " ok"), ("(", ")"), ("export X=", "\n"), ("'", "'")):
        found = REDACTOR.redact(before + secret + after)
        assert found.text == f"{before}[redacted:{rule}]{after}"
        assert found.hits == {rule: 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abc123def456ghi789", "Authorization: Bearer [redacted:bearer]"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted:authorization]"),
        ("postgres://me:hunter2@db/x", "postgres://me:[redacted:url-password]@db/x"),
        ("password=hunter2", "password=[redacted:password]"),
        ("DB_PASSWORD=hunter2 make", "DB_PASSWORD=[redacted:password] make"),
        ("?api_key=abcd1234&x=1", "?api_key=[redacted:password]&x=1"),
        ('password = "hunter2"', 'password = "[redacted:password]"'),
        ('{"password": "hunter2", "n": 1}', '{"password": "[redacted:password]", "n": 1}'),
        ("aws_secret_access_key=wJalrXUtnFEMI/K7MDENG", "aws_secret_access_key=[redacted:password]"),
    ],
)
def test_what_is_assigned_is_replaced_and_its_name_stays(text: str, expected: str) -> None:
    assert REDACTOR.text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "password = getpass.getpass()",
        "password=get_password()",
        "password = config.password",
        "if password == other: secret = None",
        "max_tokens=100, tokens: 5",
        "the bearer of responsibilities",
        "a task-force risk-averse-and-very-long-hyphenated-word",
        "https://example.com:8080/x@y",
        "secret=$SECRET password=${PW} api_key=<key>",
        "git commit 3f786850e387550fdab836ed7e6dc881de23001b",
    ],
)
def test_ordinary_text_and_code_stay_as_they_are(text: str) -> None:
    assert REDACTOR.text(text) is text


def test_raw_arguments_stay_valid_json() -> None:
    raw = json.dumps(
        {
            "command": f"echo \"password=hunter2\" && curl -H 'Authorization: Bearer abc123def456ghi789' \\\n {PEM}",
            "nested": json.dumps({"api_key": "abcd1234", "pem": PEM}),
            "password": "hunter2",
        }
    )
    redacted = REDACTOR.text(raw)
    value = json.loads(redacted)
    assert value["password"] == "[redacted:password]"
    assert json.loads(value["nested"]) == {"api_key": "[redacted:password]", "pem": "[redacted:private-key]"}
    for secret in ("hunter2", "abc123def", "MIIEow", "abcd1234"):
        assert secret not in redacted


def test_an_own_rule_that_would_break_json_is_applied_string_by_string() -> None:
    greedy = Redactor([RedactionRule.of("card", r"4111.*")])
    raw = '{"a": "4111 1111", "b": [1, 2512292042121000001]}'
    assert json.loads(greedy.text(raw)) == {"a": "[redacted:card]", "b": [1, 2512292042121000001]}


def test_values_are_walked_and_keys_are_not() -> None:
    value = {"AKIAIOSFODNN7EXAMPLE": ["AKIAIOSFODNN7EXAMPLE", 1, None, {"x": "sk-" + "a1B2" * 8}]}
    expected = {"AKIAIOSFODNN7EXAMPLE": ["[redacted:aws-key]", 1, None, {"x": "[redacted:api-key]"}]}
    assert REDACTOR.value(value) == expected
    assert REDACTOR.value(freeze(value)) == expected
    plain = freeze({"a": ["b"]})
    assert REDACTOR.value(plain) is plain


@pytest.mark.parametrize(
    "piece",
    [
        "sk-",
        "secret",
        "secret\\",
        "password=a",
        "://a:",
        "-----BEGIN PRIVATE KEY-----",
        "eyJ",
        "bearer a",
        "eyJa.",
        "key:'",
    ],
)
def test_no_text_takes_long(piece: str) -> None:
    text = piece * 5000
    began = time.process_time()
    REDACTOR.text(text)
    assert time.process_time() - began < 2


def test_rules_that_cannot_work_are_refused() -> None:
    for name, pattern in (("Bad Name", "x"), ("x", "("), ("x", "a*"), ("x", "redacted")):
        with pytest.raises(ValueError, match="redaction rule"):
            RedactionRule.of(name, pattern)


pieces = st.sampled_from(
    [*SECRETS, "password=", "Bearer ", "://a:", "@", '"', "\\", "'", " ", "x", "=", "[redacted:jwt]", "secret: ", "\n"]
)


@given(st.lists(st.one_of(pieces, st.text(max_size=5)), max_size=12).map("".join))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = REDACTOR.text(text)
    assert REDACTOR.text(once) == once


@given(
    st.recursive(
        st.lists(pieces, max_size=6).map("".join), lambda inner: st.lists(inner) | st.dictionaries(pieces, inner)
    )
)
def test_json_text_stays_json(value: object) -> None:
    raw = json.dumps({"value": value})
    assert json.loads(REDACTOR.text(raw)).keys() == {"value"}


@given(st.text())
def test_hints_never_hide_a_match(text: str) -> None:
    for rule in BUILTIN_RULES:
        assert rule.hints
        for found in rule.pattern.finditer(text):
            assert any(hint in found[0].lower() for hint in rule.hints)

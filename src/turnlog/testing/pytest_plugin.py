"""The pytest plugin: a fixture ``cassette`` that records a session once and plays it back after.

::

    async def test_it_finds_the_typo(cassette):
        model = cassette.model("deepseek/deepseek-chat")
        async with Agent(cassette.session, model, [read, grep]) as agent:
            result = await agent.run("Find the typo in README.md.")
        await model.aclose()
        assert "runoob" in result.text

The first run asks DeepSeek and, if the test passes, writes ``cassettes/<module>/<test>.jsonl`` beside the test; every
later run needs no key and no network. A run that asks something else fails with the difference.

============================  ====================================================================
``--cassettes=once``          record what there is no recording of (the default)
``--cassettes=play``          never record; a test without recording fails. For continuous integration
``--cassettes=record``        record all of them anew
============================  ====================================================================

``cassettes = play`` in the configuration file sets another default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal, cast

import pytest

if TYPE_CHECKING:
    from .cassette import Cassette

MODES: Final = ("once", "play", "record")
_PASSED: Final = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--cassettes`` and its default."""
    told = "record sessions for the fixture `cassette`: once, never (play), or all anew (record)"
    parser.getgroup("turnlog").addoption("--cassettes", choices=MODES, help=told)
    parser.addini("cassettes", told, default="once")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Note whether a test passed: what a failing one said is no recording."""
    report = cast("pytest.TestReport", (yield))
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report  # type: ignore[return-value]


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Iterator[Cassette]:
    """A recording of this test's session; see `turnlog.testing.pytest_plugin`."""
    from .cassette import Cassette  # only for tests that use it

    mode = _mode(request.config)
    name = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")
    path = request.path.parent / "cassettes" / request.path.stem / f"{name}.jsonl"
    recording = mode == "record" or (mode == "once" and not path.exists())
    if not recording and not path.exists():
        pytest.fail(f"there is no recording {path}; record it with --cassettes=once", pytrace=False)
    made = Cassette(path, recording=recording, remedy="record it anew with --cassettes=record")
    yield made
    if request.node.stash.get(_PASSED, False):
        made.check()
        made.save()


def _mode(config: pytest.Config) -> Literal["once", "play", "record"]:
    mode = config.getoption("--cassettes") or config.getini("cassettes")
    if mode not in MODES:
        raise pytest.UsageError(f"cassettes = {mode!r}: use one of {', '.join(MODES)}")
    return cast('Literal["once", "play", "record"]', mode)

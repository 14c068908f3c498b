"""A model-visible input is a fact and the message it renders to, logged together or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET

from tests.log.sessions import Reminder, empty, extended, in_turn, standing, stored
from turnlog.events import (
    Block,
    LogPayload,
    LosslessError,
    ModelInput,
    Opaque,
    PluginSource,
    TextBlock,
    UnknownEventType,
)
from turnlog.log import ReadOnlySession, Reentrant, ReservedEvent, Session, SessionError


class Broken(ModelInput, type="acme/broken"):
    """Renders whatever a test wants."""

    how: str

    def render(self) -> tuple[Block, ...]:
        made: Any = RENDERED[self.how]()
        return made  # type: ignore[no-any-return]


def fails() -> Any:
    raise RuntimeError("no renderer today")


RENDERED: dict[str, Callable[[], Any]] = {
    "raises": fails,
    "surrogate": lambda: (TextBlock("\ud800"),),
    "nan": lambda: (Opaque("chart", {"type": "chart", "v": float("nan")}),),
    "bytes": lambda: (TextBlock(b"x"),),  # type: ignore[arg-type]
    "dict": lambda: ({"type": "text", "text": "x"},),
    "number": lambda: 5,
    "none": lambda: None,
}
VOCABULARY = extended(Reminder, Broken)


def test_the_fact_and_its_message_are_logged_together_and_the_message_cites_the_fact() -> None:
    session = in_turn()
    fact, shown = session.append_input(Reminder(text="milk"))
    assert [event.type for event in session.events] == ["turn/start", "acme/reminder", "user/message"]
    assert (fact.seq, shown.seq) == (1, 2)
    assert fact.data == Reminder(text="milk")
    assert fact.surface_op is UNSET
    assert fact.ignorable is True
    assert shown.sources == (1,)
    assert shown.surface_op == "append"
    assert shown.ignorable is False
    assert shown.data.content == (TextBlock("Remember: milk"),)
    assert shown.data.source == PluginSource(plugin="acme")
    assert session.surface == (2,)
    assert [message.text for message in session.derive_messages()] == ["Remember: milk"]


def test_both_are_told_in_one_batch_or_one_after_the_other() -> None:
    session = empty()
    single: list[Any] = []
    batches: list[Any] = []
    session.subscribe(single.append)
    session.subscribe(batches.append, batches=True)
    both = session.append_input(Reminder(text="milk"))
    assert single == list(both)
    assert [list(batch) for batch in batches] == [list(both)]


@pytest.mark.parametrize("how", RENDERED)
def test_a_render_that_fails_or_gives_what_cannot_be_stored_leaves_nothing(how: str) -> None:
    session = empty(vocabulary=VOCABULARY)
    session.append_input(Reminder(text="milk"))
    told: list[Any] = []
    session.subscribe(told.append)
    before = standing(session)
    with pytest.raises((LosslessError, RuntimeError, TypeError)):
        session.append_input(Broken(how=how))
    assert standing(session) == before
    assert told == []
    assert session.append_input(Reminder(text="eggs"))[0].seq == 2


def test_a_fact_that_is_not_json_leaves_nothing() -> None:
    session = empty()
    with pytest.raises(LosslessError, match=r"acme/reminder: \$\.note: tuple is not JSON"):
        session.append_input(Reminder(text="milk", note=(1,)))
    assert len(session) == 0


def test_half_of_an_input_is_refused_with_the_way_out() -> None:
    session = empty()
    with pytest.raises(ReservedEvent, match=r"acme/reminder is shown to the model; use append_input"):
        session.append(Reminder(text="milk"))
    assert len(session) == 0


def test_an_input_of_no_known_class_is_refused() -> None:
    session = Session()
    with pytest.raises(UnknownEventType, match=r"^acme/reminder: .*Vocabulary\.core\.extend\(Reminder\)"):
        session.append_input(Reminder(text="milk"))
    assert len(session) == 0


def test_an_input_follows_the_rules_of_every_append() -> None:
    session = empty()
    caught: list[SessionError] = []

    def listen(event: Any) -> None:
        try:
            session.append_input(Reminder(text="eggs"))
        except Reentrant as error:
            caught.append(error)

    session.subscribe(listen)
    session.append_input(Reminder(text="milk"))
    assert len(caught) == 2
    assert len(session) == 2
    with pytest.raises(ReadOnlySession):
        stored(session).append_input(Reminder(text="eggs"))


def test_an_input_is_part_of_what_a_fork_inherits() -> None:
    session = empty()
    session.append_input(Reminder(text="milk"))
    assert [message.text for message in session.fork().derive_messages()] == ["Remember: milk"]
    assert session.fork(1).surface == ()


def test_a_renderer_that_appends_leaves_an_order_that_can_be_read() -> None:
    session = empty(vocabulary=extended(Note, Nested))
    Nested.session = session
    fact, shown = session.append_input(Nested())
    assert [event.type for event in session.events] == ["acme/note", "acme/nested", "user/message"]
    assert shown.sources == (fact.seq,)


class Note(LogPayload, type="acme/note"):
    pass


class Nested(ModelInput, type="acme/nested"):
    def render(self) -> tuple[Block, ...]:
        Nested.session.append(Note())
        return (TextBlock("x"),)


Nested.session = Session()  # type: ignore[attr-defined]

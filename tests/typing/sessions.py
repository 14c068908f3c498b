"""Sessions: what `append`, `select`, projections and events are typed as, without casts or ignores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import assert_type

from turnlog.events import (
    AssistantMessage,
    Block,
    Completed,
    Header,
    LogPayload,
    Message,
    Payload,
    SurfacePayload,
    TextBlock,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from turnlog.log import (
    AnyEvent,
    Durable,
    Events,
    Messages,
    Projector,
    Session,
    SessionEvent,
    SessionHeader,
    Subscription,
    View,
    Volatile,
    is_event,
)


def append_returns_what_was_appended(session: Session) -> None:
    assert_type(session.append(TurnStart(turn=1)), SessionEvent[TurnStart])
    call = session.append(ToolCall(turn=1, step=1, call_id="c1", name="ls", arguments="{}"))
    assert_type(call, SessionEvent[ToolCall])
    assert_type(call.data, ToolCall)
    assert_type(call.data.call_id, str)
    prompt = session.append(UserMessage.of("hi"))
    assert_type(prompt, SessionEvent[UserMessage])
    message = Message.from_tool("c1", TextBlock("a.txt"))
    assert_type(
        session.append(ToolResult(turn=1, step=1, message=message), sources=(call.seq,)), SessionEvent[ToolResult]
    )
    summary = UserMessage.of("so far")
    assert_type(
        session.append(summary, replaces=(prompt.seq, prompt.seq), sources=[prompt.seq]), SessionEvent[UserMessage]
    )
    payload: TurnStart | TurnEnd = TurnStart(turn=2) if len(session) % 2 else TurnEnd(turn=1, reason=Completed())
    assert_type(session.append(payload), SessionEvent[TurnStart | TurnEnd])


def append_takes_a_family(session: Session, fact: LogPayload, said: SurfacePayload) -> None:
    assert_type(session.append(fact), SessionEvent[LogPayload])
    assert_type(session.append(said, sources=()), SessionEvent[SurfacePayload])
    assert_type(session.call_soon(fact), Future[AnyEvent])


def append_takes_any_of_both_families(session: Session, payload: Payload) -> AnyEvent | None:
    if isinstance(payload, LogPayload | SurfacePayload):
        return session.append(payload)
    return None


def select_narrows(session: Session) -> None:
    assert_type(session.select(ToolCall), Iterator[SessionEvent[ToolCall]])
    for call in session.select(ToolCall):
        assert_type(call.data.name, str)
    for answer in session.select(AssistantMessage):
        assert_type(answer.data.message.content[0], Block)
    assert_type([event.data.turn for event in session.select(TurnStart)], list[int])


def match_on_the_event_narrows(event: AnyEvent) -> None:
    match event:
        case SessionEvent(seq=seq, time=time, type=name, data=ToolCall(call_id=call_id, turn=turn)):
            assert_type(seq, int)
            assert_type(time, int)
            assert_type(name, str)
            assert_type(call_id, str)
            assert_type(turn, int)
        case SessionEvent(data=ToolResult(message=message, error=None), sources=sources):
            assert_type(message, Message)
            assert_type(sources, tuple[int, ...] | None)
        case SessionEvent(data=UserMessage() as prompt, message=Message(text=text)):
            assert_type(prompt, UserMessage)
            assert_type(text, str)
        case SessionEvent(data=data):
            assert_type(data, Payload)


def the_envelope(event: SessionEvent[ToolCall]) -> None:
    assert_type(event.type, str)
    assert_type(event.seq, int)
    assert_type(event.time, int)
    assert_type(event.data, ToolCall)
    assert_type(event.raw, bytes)
    assert_type(event.sources, tuple[int, ...] | None)
    assert_type(event.ignorable, bool)
    assert_type(event.message, Message | None)


def is_event_narrows(event: AnyEvent) -> str:
    if is_event(event, ToolCall):
        assert_type(event, SessionEvent[ToolCall])
        return event.data.call_id
    return event.type


def events_are_covariant(call: SessionEvent[ToolCall], calls: Iterator[SessionEvent[ToolCall]]) -> None:
    log: SessionEvent[LogPayload] = call
    widest: SessionEvent[Payload] = log
    anything: AnyEvent = call
    assert_type(anything.seq + widest.seq, int)
    several: Iterator[AnyEvent] = calls
    mixed: list[AnyEvent] = [call, log, *several]
    either: SessionEvent[ToolCall | ToolResult] = call
    assert_type(mixed[0].data, Payload)
    assert_type(either.data.call_id, str)


def messages(session: Session) -> None:
    derived = session.derive_messages()
    assert_type(derived, Messages)
    assert_type(derived, View[Message])
    assert_type(derived[0], Message)
    assert_type(derived[-1].text, str)
    assert_type(derived[1:], Sequence[Message])
    assert_type([message.role for message in derived], list[str])
    assert_type(session.derive_messages(at=3, as_stored=True), View[Message])
    frozen: Sequence[Message] = derived
    objects: View[object] = derived
    assert_type(len(frozen) + len(objects), int)
    assert_type(session.message_events(), list[AnyEvent])


def tool_name(event: AnyEvent) -> str | None:
    return event.data.name if isinstance(event.data, ToolCall) else None


def projections(session: Session) -> None:
    names = Projector("tool names", tool_name, over="log")
    assert_type(names, Projector[str])
    assert_type(session.project(names), View[str])
    assert_type(session.project(names)[0], str)
    explicit: Projector[int] = Projector("seqs", lambda event: event.seq, over="log", skips_chunks=False)
    assert_type(list(session.project(explicit, at=10)), list[int])


def reading(session: Session) -> None:
    assert_type(session.header, SessionHeader)
    assert_type(session.header.cwd, str | None)
    assert_type(session.events, Events)
    assert_type(session.events[0], AnyEvent)
    assert_type(session.events[-100:], Sequence[AnyEvent])
    assert_type([event.seq for event in session.events], list[int])
    assert_type(session.event(0).data, Payload)
    assert_type(session.surface, tuple[int, ...])
    assert_type(session.surface_at(5), tuple[int, ...])
    assert_type(session.replaced_by(2), int | None)
    assert_type(session.request_header(), Header | None)
    assert_type(session.closers, tuple[AnyEvent, ...])
    assert_type(session.fork(at=3), Session)


def heard(event: AnyEvent) -> None:
    print(event.seq)


def heard_together(events: Sequence[AnyEvent]) -> None:
    print(len(events))


def listening(session: Session) -> None:
    assert_type(session.subscribe(heard), Subscription)
    assert_type(session.subscribe(heard_together, from_seq=0, batches=True), Subscription)


async def durability(session: Session) -> int:
    match await session.durable():
        case Durable(length=length):
            return length
        case Volatile(length=length):
            return length

"""Misuses of sessions, events and views: each marked line must be rejected by both checkers, or its ignore is one
too many. Nothing here runs."""

# What follows from an error that is already there, for example that the type of a missing member is unknown:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from turnlog.events import (
    AssistantMessage,
    Block,
    EndSeed,
    LogPayload,
    Message,
    ModelInput,
    SurfacePayload,
    TextBlock,
    ToolCall,
    ToolResult,
    TurnStart,
    UserMessage,
    UserSource,
)
from turnlog.log import AnyEvent, Projector, Session, SessionEvent, View, is_event


class Wind(Struct, frozen=True):
    speed: float


class Alarm(ModelInput, type="acme/alarm"):
    text: str

    def render(self) -> tuple[Block, ...]:
        return (TextBlock(self.text),)


# -- nothing can be assigned ------------------------------------------------------------------------------------------


def events(event: AnyEvent, call: SessionEvent[ToolCall]) -> None:
    event.type = "tool/call"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    event.seq = 3  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    event.time += 1  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    event.data = call.data  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    event.raw = b"{}"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    event.sources = (1,)  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    event.surface_op = "append"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    event.message = None  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    event.note = "x"  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    call.data.call_id = "c2"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def sessions(session: Session, event: AnyEvent, other: Session) -> None:
    session.header = other.header  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    session.header.cwd = "/tmp"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    session.id = "x"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    session.vocabulary = other.vocabulary  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    session.events = other.events  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    session.events[0] = event  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    session.events.append(event)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    session[0] = event  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    session.surface[0] = 1  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    session.closers.append(event)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


def views(view: View[Message], message: Message, session: Session) -> None:
    view[0] = message  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    del view[0]  # type: ignore[attr-defined]  # pyright: ignore[reportIndexIssue]
    view.append(message)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    view[1:] = []  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    session.derive_messages()[0] = message  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    session.derive_messages().clear()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    session.derive_messages()[0].role = "user"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    for one in session.derive_messages():
        one.content = ()  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    view += [message]  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue, reportUnknownVariableType]


def projectors(projector: Projector[str]) -> None:
    projector.name = "x"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    projector.over = "log"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


# -- append -----------------------------------------------------------------------------------------------------------


def placing_what_is_only_logged(session: Session, call: ToolCall, fact: LogPayload) -> None:
    session.append(call, replaces=(1, 2))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    session.append(call, sources=(1,))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    session.append(call, replaces=None)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    session.append(fact, sources=())  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    session.append(TurnStart(turn=1), replaces=(1, 2), sources=(1, 2))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


def placing_wrongly(session: Session, prompt: UserMessage) -> None:
    session.append(prompt, replaces=3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    session.append(prompt, replaces=(1, 2, 3))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    session.append(prompt, replaces=("1", "2"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    session.append(prompt, sources=3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    session.append(prompt, sources=("a",))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    session.append(prompt, (1, 2))  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    session.append(prompt, sources={1, 2})  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


def appending_what_is_no_payload(session: Session, event: SessionEvent[ToolCall], message: Message) -> None:
    session.append({"turn": 1})  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    session.append(b'{"turn":1}')  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    session.append("turn/start", {"turn": 1})  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    session.append(message)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    session.append(TextBlock("x"))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    session.append(event)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    session.append(TurnStart)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    session.append(Wind(1.0))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    session.append()  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    session.call_soon({"turn": 1})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def appending_what_has_its_own_way(session: Session) -> None:
    session.append(Alarm(text="fire"))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    session.append(EndSeed())  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    session.append_input(TurnStart(turn=1))  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
    session.append_input(UserMessage.of("x"))  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
    session.append_input(Alarm(text="fire"), sources=(1,))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def taking_the_result_for_another(session: Session, asked: ToolCall, fact: LogPayload) -> None:
    wrong: SessionEvent[ToolResult] = session.append(asked)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    print(session.append(TurnStart(turn=1)).data.step)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    narrowed: SessionEvent[ToolCall] = session.append(fact)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    call, shown = session.append_input(Alarm(text="fire"))
    print(call.data.content)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    print(shown.data.text)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    print(wrong, narrowed)


# -- reading ----------------------------------------------------------------------------------------------------------


def selecting(session: Session, call: ToolCall) -> None:
    session.select(Message)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
    session.select(TextBlock)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
    session.select(dict)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
    session.select("tool/call")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    session.select(call)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    session.select(ToolCall)[0]  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    results: Iterator[SessionEvent[ToolResult]] = session.select(ToolCall)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    for event in session.select(ToolCall):
        print(event.data.message)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    print(results)


def other_fields(event: AnyEvent) -> None:
    print(event.data.call_id)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    match event:
        case SessionEvent(data=ToolCall(call_id=call_id)):
            print(call_id.seq)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
            print(event.args)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        case SessionEvent(data=UserMessage() as prompt):
            print(prompt.call_id)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        case SessionEvent(data=TurnStart(step=step)):  # type: ignore[misc]  # pyright: ignore[reportUnknownVariableType]
            print(step)
        case SessionEvent(payload=payload):  # type: ignore[misc]  # pyright: ignore[reportUnknownVariableType]
            print(payload)
        case _:
            pass
    match event.data:
        case ToolCall():
            print(event.data.message)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        case AssistantMessage():
            print(event.data.call_id)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        case _:
            pass


def guards(event: AnyEvent) -> None:
    if is_event(event, ToolCall):
        print(event.data.message)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    is_event(event, Message)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]


def variance(event: AnyEvent, said: SessionEvent[SurfacePayload], views: View[object]) -> None:
    call: SessionEvent[ToolCall] = event  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    prompt: SessionEvent[UserMessage] = said  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    fact: SessionEvent[LogPayload] = said  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    blocks: SessionEvent[TextBlock] | None = None  # type: ignore[type-var]  # pyright: ignore[reportInvalidTypeArguments]
    messages: View[Message] = views  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    print(call, prompt, fact, blocks, messages)


def projections(session: Session, seqs: Projector[int]) -> None:
    names: View[str] = session.project(seqs)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    session.project(len)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    session.project(seqs)[0].upper()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    Projector("x", lambda event: event.nothing)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    Projector("x", lambda event: event.seq, over="events")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    wrong: Projector[str] = Projector("x", seq_of)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    print(names, wrong)


def seq_of(event: AnyEvent) -> int:
    return event.seq


def derived(session: Session) -> None:
    blocks: Sequence[Block] = session.derive_messages()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    session.derive_messages(-1, True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    session.derive_messages(at="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    session.derive_messages()["0"]  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    print(session.derive_messages()[0].turn)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    print(blocks, UserSource())


def forking_and_making(session: Session) -> None:
    session.fork("3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Session(clock=1.5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Session("id", "/tmp")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

"""Payload classes of users: keyword-only typed fields, appended and read back like the core ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, assert_type

from msgspec import Meta, Struct, field

from turnlog.events import Block, Json, LogPayload, ModelInput, Payload, TextBlock, UserMessage, Value, Vocabulary
from turnlog.log import AnyEvent, Session, SessionEvent


class Wind(Value):
    speed: float
    direction: Literal["N", "E", "S", "W"] = "N"


class Station(Struct, frozen=True):
    name: str


class Weather(LogPayload, type="acme/weather"):
    city: str
    degrees: float
    wind: Wind
    stations: tuple[Station, ...] = ()
    gusts: tuple[Wind, ...] | None = None
    extra: Json = None
    humidity: Annotated[int, Meta(ge=0, le=100)] = 0
    source_id: str = field(default_factory=str)

    @property
    def warm(self) -> bool:
        return self.degrees > 20


class Alarm(ModelInput, type="acme/alarm"):
    text: str
    severity: int = 1

    def render(self) -> tuple[Block, ...]:
        return (TextBlock(f"Alarm: {self.text}"),)


class Deployed(LogPayload, type="acme/ops/deployed"):
    """No fields at all."""


def construction() -> Weather:
    assert_type(Deployed(), Deployed)
    assert_type(Alarm(text="fire").severity, int)
    return Weather(
        city="Oslo",
        degrees=3,
        wind=Wind(7.5, "E"),
        stations=(Station("blindern"),),
        gusts=(Wind(speed=12),),
        extra={"raw": [1, 2, {"x": None}]},
        humidity=80,
    )


def appending(session: Session, weather: Weather, alarm: Alarm) -> None:
    logged = session.append(weather)
    assert_type(logged, SessionEvent[Weather])
    assert_type(logged.data.wind.direction, Literal["N", "E", "S", "W"])
    assert_type(session.append_input(alarm), tuple[SessionEvent[Alarm], SessionEvent[UserMessage]])
    fact, shown = session.append_input(Alarm(text="fire"))
    assert_type(fact.data.text, str)
    assert_type(shown.data.content, tuple[Block, ...])
    assert_type([event.data for event in widened(logged, shown)], list[Payload])


def widened(*events: SessionEvent[Payload]) -> tuple[AnyEvent, ...]:
    return events


def selecting(session: Session) -> None:
    assert_type(session.select(Weather), Iterator[SessionEvent[Weather]])
    assert_type([event.data.city for event in session.select(Weather)], list[str])
    assert_type([event.data.render() for event in session.select(Alarm)], list[tuple[Block, ...]])


def matching(event: AnyEvent) -> None:
    match event.data:
        case Weather(city=city, wind=Wind(speed=speed), stations=stations, extra=extra, warm=warm):
            assert_type(city, str)
            assert_type(speed, float)
            assert_type(stations, tuple[Station, ...])
            assert_type(extra, Json)
            assert_type(warm, bool)
        case Alarm(text=text, severity=severity):
            assert_type(text, str)
            assert_type(severity, int)
        case _:
            pass
    match event:
        case SessionEvent(seq=seq, data=Weather(degrees=degrees)):
            assert_type(seq, int)
            assert_type(degrees, float)
        case _:
            pass


def vocabularies() -> Session:
    vocabulary = Vocabulary.core.extend(Weather, Alarm, Deployed)
    assert_type(vocabulary, Vocabulary)
    assert_type("acme/weather" in vocabulary, bool)
    assert_type(vocabulary.kinds["acme/weather"], type[Payload])
    return Session(vocabulary=vocabulary)

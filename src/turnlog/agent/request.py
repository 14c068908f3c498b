"""Putting a request together: its header is logged when it changes, its messages are the log's own projection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from turnlog.bus import Bus
from turnlog.events import AdapterDefaults, CallConfig, Header, RequestContext, RequestHeader
from turnlog.log import Session
from turnlog.log.proof import HEADERS
from turnlog.model import Model, ModelInfo, Request
from turnlog.tools import Toolbox

from .failure import checked, failed
from .hooks import RequestConfig
from .place import Turn
from .prompt import Prompt

if TYPE_CHECKING:
    from .agent import Agent


@dataclass(frozen=True, slots=True)
class Sampling:
    """What the agent's owner chose for every request; None leaves it to the adapter or the provider."""

    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None
    stop: tuple[str, ...] | None = None


class Requests:
    """Makes the requests of one agent."""

    def __init__(
        self,
        agent: Agent,
        *,
        session: Session,
        bus: Bus,
        toolbox: Toolbox,
        prompt: Prompt,
        sampling: Sampling,
        resolve: Callable[[CallConfig], Model],
        route: tuple[str, str],
    ) -> None:
        self._agent = agent
        self._session = session
        self._bus = bus
        self._toolbox = toolbox
        self._prompt = prompt
        self._sampling = sampling
        self._resolve = resolve
        self._route = route
        logged = session.project(HEADERS)
        self._stored = logged[-1] if logged else None
        self._header: Header | None = None
        self._asked: Header | None = None
        """What the last logged header was before the log took secrets out of it."""
        self._context = _last_context(session)

    @property
    def header(self) -> Header | None:
        """The header last logged, by this agent or before it."""
        return self._header or self._stored

    @property
    def context_window(self) -> int | None:
        """Tokens the current route takes, when it says."""
        return None if self._context is None else self._context.context_window

    async def next(self, turn: Turn, attempt: int) -> tuple[Model, Request]:
        """The next request of the turn's step and the model it goes to."""
        with turn.cancellation.scope():
            system = await self._prompt.system()
            config = await self._config(turn, attempt)
        turn.check()
        model = self._resolve(config)
        header = self._log_header(_header(config, model.info, system, self._toolbox))
        self._log_context(model.info)
        session = self._session
        messages = session.derive_messages()
        return model, Request(session.id, turn.number, turn.step, attempt, header, messages)

    async def _config(self, turn: Turn, attempt: int) -> CallConfig:
        event = RequestConfig(self._agent, turn.number, turn.step, attempt, self._seed(), turn.cancellation)
        config = checked(RequestConfig, (await self._bus.waterfall(event, _keep)).value, CallConfig)
        if not config.provider or not config.model:
            raise failed(
                "NO_MODEL",
                "no model is set: give Agent(model='provider/name'), or a config with both from agent/request",
            )
        return config

    def _seed(self) -> CallConfig:
        """What the next request carries unless a hook says otherwise."""
        if self._header is not None:
            return without_defaults(self._header)
        provider, model = self._route
        chosen = self._sampling
        effort = chosen.reasoning_effort
        stored = self._stored
        if effort is None and stored is not None and (stored.config.provider, stored.config.model) == self._route:
            effort = without_defaults(stored).reasoning_effort
        return CallConfig(
            provider=provider,
            model=model,
            reasoning_effort=effort,
            temperature=chosen.temperature,
            max_tokens=chosen.max_tokens,
            stop=chosen.stop,
        )

    def _log_header(self, header: Header) -> Header:
        if self._header is not None and header == self._asked:
            return self._header
        first = "initial" if self._stored is None else "resume"
        event = self._session.append(RequestHeader(header=header, reason="change" if self._header else first))
        self._header, self._asked = event.data.header, header
        return self._header

    def _log_context(self, info: ModelInfo) -> None:
        context = RequestContext(provider=info.provider, model=info.model, context_window=info.context_window)
        if context != self._context:
            self._session.append(context)
            self._context = context


async def _keep(event: RequestConfig) -> CallConfig:
    return event.config


def _header(config: CallConfig, info: ModelInfo, system: str | None, toolbox: Toolbox) -> Header:
    """The effective header: what is not set comes from the adapter, and says so."""
    effort = info.reasoning_effort if config.reasoning_effort is None else None
    limit = info.max_tokens if config.max_tokens is None else None
    defaults = None
    if effort is not None or limit is not None:
        defaults = AdapterDefaults(reasoning_effort=effort is not None or None, max_tokens=limit is not None or None)
        config = msgspec.structs.replace(
            config,
            reasoning_effort=config.reasoning_effort if effort is None else effort,
            max_tokens=config.max_tokens if limit is None else limit,
        )
    return Header(config=config, adapter_defaults=defaults, system=system or None, tools=toolbox.schemas or None)


def without_defaults(header: Header) -> CallConfig:
    """The config without what the adapter filled in, so that another route can fill in its own."""
    defaults, config = header.adapter_defaults, header.config
    if defaults is None:
        return config
    return msgspec.structs.replace(
        config,
        reasoning_effort=None if defaults.reasoning_effort else config.reasoning_effort,
        max_tokens=None if defaults.max_tokens else config.max_tokens,
    )


def _last_context(session: Session) -> RequestContext | None:
    last = None
    for event in session.select(RequestContext):
        last = event.data
    return last

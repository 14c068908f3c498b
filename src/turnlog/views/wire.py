"""The body of a request as its provider got it, and the part of it that a provider can keep in its prefix cache.

Which protocol a provider speaks is known for the providers of `turnlog.model`; what another harness sent to another
provider is not, and then the prefix is made of the messages as the log has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from turnlog.events.lossless import dump

if TYPE_CHECKING:
    from turnlog.model.dialect import Dialect
    from turnlog.model.fixups import Context as FixupContext
    from turnlog.model.fixups import Fixup, Group

    from .context import Context


@dataclass(frozen=True)
class Body:
    """What goes over the wire."""

    provider: str
    body: bytes
    """The JSON, byte for byte as the provider's own server gets it."""
    fixups: Mapping[str, int]
    """The fix-ups that changed something (name and version), and how many places."""


class Part(NamedTuple):
    """A piece of the prompt, in the order in which the provider reads it."""

    name: str
    """``model``, ``tools``, ``system`` or ``messages``."""
    data: bytes


def body(context: Context) -> Body | None:
    """The body of a request; None where its provider is not known, or no header was logged.

    Raises :class:`turnlog.model.ModelError` for what the provider cannot be asked.
    """
    from turnlog.model.errors import ModelError, ProviderFailure
    from turnlog.model.request import Request

    dialect = _dialect_of(context)
    if dialect is None or context.header is None:
        return None
    header = context.header
    messages, fixups = _messages(context, dialect)
    request = Request(context.session.id, context.turn, context.step, context.attempt, header, context.messages)
    try:
        data = dialect.body(request, messages, stream=_streamed(context))
    except ProviderFailure as error:
        raise ModelError(f"{context.address} cannot be asked of {header.config.provider}: {error}") from None
    return Body(header.config.provider, data, fixups)


def prefix(context: Context) -> list[Part]:
    """The prompt in the order in which a provider caches it: model, tools, system, messages.

    Marks that tell a provider what to cache, and what does not belong to the prompt (limits, temperature), are left
    out.
    """
    header = context.header
    parts: list[Part] = []
    if header is not None:
        parts.append(Part("model", f"{header.config.provider}/{header.config.model}".encode()))
        parts += [Part("tools", dump(tool)) for tool in header.tools or ()]
        parts += [Part("system", dump(header.system))] if header.system else []
    dialect = _dialect_of(context)
    messages = _messages(context, dialect)[0] if dialect is not None else [one.message_json for one in context.events]
    return parts + [Part("messages", one) for one in messages]


def _dialect_of(context: Context) -> Dialect | None:
    header = context.header
    make = None if header is None else _dialects().get(header.config.provider)
    return None if make is None else make()


def _dialects() -> Mapping[str, Callable[[], Dialect]]:
    from turnlog.model import anthropic, openai_chat

    return {"anthropic": anthropic.Messages, "deepseek": openai_chat.deepseek, "openai": openai_chat.openai}


def _messages(context: Context, dialect: Dialect) -> tuple[list[bytes], Mapping[str, int]]:
    """The wire messages, and the fix-ups that changed something."""
    from turnlog.model.wire import Conversation

    assert context.header is not None
    counts: dict[str, int] = {}
    fixups = tuple(_counting(one, counts) for one in dialect.fixups)
    conversation = Conversation(context.header.config.provider, fixups, dialect.encode)
    return conversation.messages(context.messages), counts


def _counting(fixup: Fixup, counts: dict[str, int]) -> Fixup:
    """The same fix-up, which counts the groups that it changes."""

    def apply(group: Group, context: FixupContext) -> Group:
        fixed = fixup.apply(group, context)
        if fixed is not group and fixed != group:
            counts[str(fixup)] = counts.get(str(fixup), 0) + 1
        return fixed

    return replace(fixup, apply=apply)


def _streamed(context: Context) -> bool:
    """Whether the answer was asked for as a stream: it was, unless a message came without one."""
    answer = context.answer
    if answer is None or answer.message is None:
        return True
    return answer.message.sources != ()

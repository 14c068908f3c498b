"""What a request carried besides messages: the request header (dsh-v0 §1.7)."""

from __future__ import annotations

from .lossless import Json
from .value import SafeInt, Value


class CallConfig(Value):
    """Route and sampling of a request."""

    provider: str
    model: str
    reasoning_effort: str | None = None
    temperature: float | None = None
    max_tokens: SafeInt | None = None
    stop: tuple[str, ...] | None = None


class AdapterDefaults(Value):
    """Which configured values the adapter filled in, so that the next request may drop and resolve them again."""

    reasoning_effort: bool | None = None
    max_tokens: bool | None = None


class ToolSchema(Value):
    """A tool as the model is told about it."""

    name: str
    description: str
    parameters: Json
    """JSON Schema of its arguments."""


class Header(Value):
    """Everything a request carried besides its messages."""

    config: CallConfig
    adapter_defaults: AdapterDefaults | None = None
    system: str | None = None
    tools: tuple[ToolSchema, ...] | None = None

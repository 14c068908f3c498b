"""`open_model`: from a name like ``deepseek/deepseek-chat`` to a model.

============== ======================= ====================== =====================================
prefix         key from                base URL from          protocol
============== ======================= ====================== =====================================
``deepseek/``  ``DEEPSEEK_API_KEY``    ``DEEPSEEK_BASE_URL``  chat completions
``openai/``    ``OPENAI_API_KEY``      ``OPENAI_BASE_URL``    chat completions, of anybody
``anthropic/`` ``ANTHROPIC_API_KEY``   ``ANTHROPIC_BASE_URL`` Anthropic Messages
============== ======================= ====================== =====================================

``openai/…`` with a base URL is for every server that speaks the protocol; such a server may need no key.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from . import anthropic, openai_chat
from .dialect import Dialect
from .errors import ModelError, UnknownProvider
from .http import IDLE_SECONDS, TOTAL_SECONDS, HttpModel
from .protocol import ModelInfo
from .secret import Secret

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class _Provider:
    variable: str
    """The beginning of its environment variables."""
    base_url: str
    dialect: Callable[[], Dialect]
    elsewhere: Callable[[], Dialect]
    """The dialect of a server at another address."""
    keyless: bool = False
    """Whether a server at another address may need no key."""
    max_tokens: Callable[[str], int | None] = lambda _model: None


_PROVIDERS: Final[dict[str, _Provider]] = {
    "anthropic": _Provider(
        "ANTHROPIC",
        "https://api.anthropic.com/v1",
        anthropic.Messages,
        anthropic.Messages,
        max_tokens=anthropic.default_max_tokens,
    ),
    "deepseek": _Provider("DEEPSEEK", "https://api.deepseek.com", openai_chat.deepseek, openai_chat.deepseek),
    "openai": _Provider(
        "OPENAI", "https://api.openai.com/v1", openai_chat.openai, openai_chat.compatible, keyless=True
    ),
}


def open_model(
    name: str,
    *,
    base_url: str | None = None,
    stream: bool = True,
    api_key: str | None = None,
    client: httpx.AsyncClient | None = None,
    idle: float = IDLE_SECONDS,
    total: float = TOTAL_SECONDS,
    context_window: int | None = None,
    max_tokens: int | None = None,
    reasoning_effort: str | None = None,
) -> HttpModel:
    """The model *name* (``provider/model``). Opens no connection and imports no HTTP library yet.

    *idle* and *total* are seconds without a byte and seconds for a whole answer. Raises :class:`UnknownProvider`. A
    missing key is not raised: the first request fails with ``MISSING_CREDENTIAL`` and the name of the variable.
    """
    prefix, _, model = name.partition("/")
    provider = _PROVIDERS.get(prefix)
    if provider is None or not model:
        known = ", ".join(f"{one}/…" for one in _PROVIDERS)
        raise UnknownProvider(f"no model {name!r}: names are provider/model, with one of {known}; any other server "
                              "that speaks OpenAI's protocol is openai/MODEL with a base URL")  # fmt: skip
    url = base_url or os.environ.get(f"{provider.variable}_BASE_URL") or provider.base_url
    _check_url(url)
    elsewhere = urlsplit(url).hostname != urlsplit(provider.base_url).hostname
    variable = f"{provider.variable}_API_KEY"
    key = (api_key or os.environ.get(variable) or "").strip()
    return HttpModel(
        (provider.elsewhere if elsewhere else provider.dialect)(),
        ModelInfo(prefix, model, context_window, max_tokens or provider.max_tokens(model), reasoning_effort, stream),
        base_url=url,
        key=Secret(key) if key else None,
        key_variable=None if elsewhere and provider.keyless else variable,
        client=client,
        idle=idle,
        total=total,
    )


def _check_url(url: str) -> None:
    """Refuse what HTTP would refuse later, and secrets: a URL is logged by whoever likes to."""
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None or parts.query:
        raise ModelError("a base URL holds no user, password or query; pass api_key")
    try:
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ModelError("a base URL begins with http:// or https:// and names a host (and maybe a port)")

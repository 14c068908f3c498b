"""Token counts as providers send them: null, twice, as strings, negative, before and after their cache.

Unknown is not zero: where the split is not known there is no figure at all. What looks wrong is taken as far as it
goes and noted; the notes go with the answer (``replayState.response.notes``). A bad figure never fails a good answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from turnlog.events import TokenUsage
from turnlog.events.lossless import MAX_SAFE

Fields: TypeAlias = Mapping[str, object]


def count(value: object) -> int | None:
    """A token count, whatever it was written as; None where it is none."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_SAFE else None


def chat_usage(fields: Fields, notes: list[str]) -> TokenUsage | None:
    """The ``usage`` of a chat completion. Its prompt count holds the cached tokens; ours does not."""
    prompt, output = _one(fields, "prompt_tokens", notes), _one(fields, "completion_tokens", notes)
    if prompt is None or output is None:
        notes.append("usage: prompt and completion tokens are not both known")
        return None
    details, out_details = _fields(fields, "prompt_tokens_details"), _fields(fields, "completion_tokens_details")
    named = (details.get("cached_tokens"), fields.get("prompt_cache_hit_tokens"), fields.get("cached_tokens"))
    cached = next((known for known in map(count, named) if known is not None), None)
    if cached is not None and cached > prompt:
        notes.append(f"usage: {cached} cached tokens are more than the {prompt} of the prompt; taken as separate")
    elif cached is not None:
        prompt -= cached
    reasoning = count(out_details.get("reasoning_tokens"))
    if reasoning and count(fields.get("total_tokens")) == prompt + (cached or 0) + output + reasoning:
        output += reasoning  # a provider that counts reasoning beside the completion
    if reasoning is not None and reasoning > output:
        notes.append(f"usage: {reasoning} reasoning tokens are more than the {output} of the answer; left out")
        reasoning = None
    return TokenUsage(prompt, output, cached, None, reasoning)


def anthropic_usage(fields: Fields, notes: list[str]) -> TokenUsage | None:
    """The ``usage`` of Anthropic Messages, in which input, cache reads and cache writes are disjoint already."""
    given, output = _one(fields, "input_tokens", notes), _one(fields, "output_tokens", notes)
    if given is None or output is None:
        notes.append("usage: input and output tokens are not both known")
        return None
    return TokenUsage(
        given, output, count(fields.get("cache_read_input_tokens")), count(fields.get("cache_creation_input_tokens"))
    )


def _one(fields: Fields, name: str, notes: list[str]) -> int | None:
    value = fields.get(name)
    known = count(value)
    if value is not None and type(value) is not int:
        notes.append(f"usage: {name} is {value!r:.40}")
    elif value is not None and known is None:
        notes.append(f"usage: {name} is {value!r:.40}; left out")
    return known


def _fields(fields: Fields, name: str) -> Fields:
    value = fields.get(name)
    return value if isinstance(value, Mapping) else {}

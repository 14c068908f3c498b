"""What was said: user messages, the model's stream and its assembled messages (dsh-v0 §1.3 rows 5-7)."""

from __future__ import annotations

from msgspec import field

from .blocks import Block, TextBlock
from .chunks import StreamChunk
from .message import Message, Source, UserSource
from .payload import LogPayload, SurfacePayload
from .usage import TokenUsage
from .value import Index, new_id


def _user() -> str:
    return "user"


class UserMessage(SurfacePayload, type="user/message"):
    """A message that enters a step: a prompt, injected context, steering, a compaction checkpoint."""

    content: tuple[Block, ...]
    source: Source
    role: str = field(default_factory=_user)
    """Always ``user``."""
    id: str

    @classmethod
    def of(cls, *content: Block | str, source: Source | None = None) -> UserMessage:
        """A message with a fresh id; from a person unless *source* says otherwise. Strings become text blocks."""
        blocks = tuple(TextBlock(one) if isinstance(one, str) else one for one in content)
        return cls(content=blocks, source=UserSource() if source is None else source, id=new_id())

    @property
    def message(self) -> Message:
        """The message the model sees."""
        return Message(role=self.role, content=self.content, source=self.source, id=self.id)


class AssistantChunk(LogPayload, type="assistant/chunk"):
    """One raw chunk of the model's stream, logged before it is interpreted."""

    turn: Index
    step: Index
    chunk: StreamChunk


class AssistantMessage(SurfacePayload, type="assistant/message"):
    """The assembled answer of one attempt. It cites the attempt's chunks; empty content stays out of the messages."""

    turn: Index
    step: Index
    message: Message
    usage: TokenUsage | None = None
    interrupted: bool | None = None
    """True when the attempt was cancelled (or its writer died) and this is what had been shown."""

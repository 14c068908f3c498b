"""What can go wrong between a request and its chunks.

```
TurnlogError
└── ModelError
    ├── UnknownProvider      no adapter has that name; lists those that exist
    ├── AssemblyError        chunks that no message can be made of
    ├── ScriptError          a scripted model was asked too often, or not often enough
    └── Diverged             a recorded model was asked something else than was recorded
```

What a *provider* does wrong is no exception: it is the ``Finish`` that ends the stream, with a
:class:`turnlog.events.Failure`. Inside adapters it travels as :class:`ProviderFailure`, which never leaves them.
"""

from __future__ import annotations

from turnlog.events import Failure
from turnlog.log import TurnlogError


class ModelError(TurnlogError):
    """Base of what goes wrong with a model."""


class UnknownProvider(ModelError, ValueError):
    """No adapter has that name."""


class AssemblyError(ModelError):
    """Chunks that no message can be made of."""


class ScriptError(ModelError, AssertionError):
    """A scripted model was asked too often, or not often enough."""


class Diverged(ModelError, AssertionError):
    """A recorded model was asked something else than was recorded; says what differs."""


class ProviderFailure(Exception):
    """Carries a failure from where it is found to the end of the stream; stays inside adapters."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure

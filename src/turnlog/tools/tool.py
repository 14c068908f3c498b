"""`@tool`: a typed function as a tool.

The decorated function stays what it was: it can be called, and type checkers see its own signature. ::

    @tool(parallel=True, timeout=10)
    async def lookup(city: str, ctx: ToolContext) -> str:
        \"\"\"Look up the weather.

        Args:
            city: Name of the city.
        \"\"\"
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, Literal, ParamSpec, TypeAlias, TypeVar, overload

from turnlog.events import Json, ToolSchema, UserMessage
from turnlog.events.blocks import Block

from .call import Call
from .context import ToolContext
from .docstring import read_docstring
from .errors import ToolDefinitionError
from .schema import Signature, read_signature
from .verdict import Verdict

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every provider takes as the name of a tool."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A call before it runs, for what a tool says about its own calls."""

    call: Call
    arguments: Mapping[str, Json]
    workspace: Path
    spill: Path | None = None
    """Where the session keeps long outputs."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool may return to say more than its content."""

    content: str | tuple[Block, ...] = ""
    meta: Json = None
    """For people and programs; the model never sees it."""
    contexts: tuple[UserMessage, ...] = ()
    """Messages for the next step."""
    concludes_turn: bool = False
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """What a tool says about approval of its own calls."""

    default: Literal["allow", "ask"] = "allow"
    """Whether a call is asked about when no rule says anything."""
    verdict: Callable[[Proposal], Verdict] | None = None
    """A closer look at one call, for example whether a path is outside the workspace."""
    subjects: Callable[[Proposal], Subjects] | None = None
    """What the patterns of rules are compared with."""
    question: Callable[[Proposal], str] | None = None
    """What a person is shown: exactly what will run. The raw arguments, if None."""


@dataclass(frozen=True, slots=True)
class Subjects:
    """What a call acts on, as rules see it."""

    parts: tuple[str, ...]
    """Each has to be allowed; one that is denied denies the call."""
    whole: str
    exact: bool = True
    """False when the text could not be taken apart: then no pattern with a wildcard allows it."""


Parallel: TypeAlias = bool | Callable[[Mapping[str, Json]], bool]


class Tool(Generic[P, R_co]):
    """A function with what a model needs to call it. Calling the tool calls the function."""

    def __init__(
        self,
        function: Callable[P, R_co],
        *,
        name: str | None = None,
        description: str | None = None,
        parallel: Parallel = False,
        timeout: float | None = None,
        policy: Policy | None = None,
        scope: Mapping[str, object] | None = None,
    ) -> None:
        """See :func:`tool`. Raises :class:`ToolDefinitionError` with everything that is wrong."""
        functools.update_wrapper(self, function)
        self.function: Final = function
        self.name: Final = str(name or getattr(function, "__name__", type(function).__name__))
        self.asynchronous: Final = _is_async(function)
        """Whether the function is a coroutine function; others run in a thread."""
        self.parallel: Final = parallel
        self.timeout: Final = timeout
        self.policy: Final = Policy() if policy is None else policy
        said, described = read_docstring(inspect.getdoc(function))
        self.description: Final = said if description is None else description
        faults = list(self._faults())
        signature = read_signature(function, described, scope or {}, faults)
        if signature is None or faults:
            raise ToolDefinitionError(f"tool {self.name!r} ({_place(function)})", faults)
        self.signature: Final[Signature] = signature
        self.schema: Final = ToolSchema(self.name, self.description, signature.parameters)
        """As the model is told about it."""

    def _faults(self) -> list[str]:
        faults = []
        if not NAME.fullmatch(self.name):
            faults.append("a name has 1 to 64 letters, digits, _ and -")
        if not self.description.strip():
            faults.append("it has no description; write a docstring, the model reads it")
        if self.timeout is not None and not (self.timeout > 0 and math.isfinite(self.timeout)):
            faults.append(f"timeout is {self.timeout!r}; it is a positive number of seconds")
        return faults

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    def bind(self, arguments: Mapping[str, Json]) -> dict[str, object]:
        """Validated keyword arguments, without the context. Raises :class:`ToolArgsError` naming the fields."""
        return self.signature.bind(self.name, arguments)

    def bound(self, arguments: Mapping[str, object], context: ToolContext) -> Callable[[], object]:
        """The call, ready to be made."""
        filled = dict(arguments)
        if self.signature.context is not None:
            filled[self.signature.context] = context
        function: Callable[..., object] = self.function
        return functools.partial(function, **filled)

    def is_parallel(self, arguments: Mapping[str, Json]) -> bool:
        """Whether a call may run beside others: only if the answer is exactly True."""
        if not callable(self.parallel):
            return self.parallel is True
        return self.parallel(arguments) is True


AnyTool: TypeAlias = Tool[..., object]


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: Parallel = False,
    timeout: float | None = None,
    policy: Policy | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: Parallel = False,
    timeout: float | None = None,
    policy: Policy | None = None,
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a tool of a typed function, ``async def`` or plain (run in a thread).

    *name* and *description* default to the function's own. *parallel*: True, or a function of the arguments that says
    so, if calls may overlap. *timeout*: seconds until a call is stopped with ``TOOL_TIMEOUT``. *policy*: what it says
    about approval. Raises :class:`ToolDefinitionError` that lists everything which keeps it from being a tool.
    """
    scope = dict(sys._getframe(1).f_locals)  # annotations may name what is local to the caller

    def make(target: Callable[P, R]) -> Tool[P, R]:
        return Tool(
            target,
            name=name,
            description=description,
            parallel=parallel,
            timeout=timeout,
            policy=policy,
            scope=scope,
        )

    return make if function is None else make(function)


def _is_async(function: Callable[..., object]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _place(function: Callable[..., object]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "built in" if code is None else f"{code.co_filename}:{code.co_firstlineno}"

"""`Toolbox`: which tools there are, by unique name."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from turnlog.events import ToolSchema

from . import arguments
from .call import Call
from .errors import ToolArgsError, ToolDefinitionError
from .tool import AnyTool, Tool

logger: Final = logging.getLogger("turnlog")


class Toolbox:
    """Tools by name. It may change while an agent runs; a change holds from the next call and request on."""

    def __init__(self, tools: Iterable[AnyTool] = (), *, order: Sequence[str] | None = None) -> None:
        """*order*: names that come first in ``schemas``; the others follow by name."""
        self._tools: dict[str, AnyTool] = {}
        self._order: Final = tuple(order or ())
        self._schemas: tuple[ToolSchema, ...] | None = None
        self.add(*tools)

    def add(self, *tools: AnyTool) -> None:
        """Take more tools: all of them, or none and :class:`ToolDefinitionError` with every reason."""
        taken = dict(self._tools)
        faults = []
        for one in tools:
            if not isinstance(one, Tool):
                faults.append(f"{one!r} is no tool; decorate it with @tool")
            elif one.name in taken:
                faults.append(f"there are two tools named {one.name!r}")
            else:
                taken[one.name] = one
        if faults:
            raise ToolDefinitionError("toolbox", faults)
        self._change(taken)

    def remove(self, *names: str) -> None:
        """Take tools away. Raises ``KeyError`` naming the first that is not there, and then removes none."""
        for name in names:
            self._check_known(name)
        self._change({name: one for name, one in self._tools.items() if name not in names})

    def restrict(self, *, allow: Iterable[str] | None = None, deny: Iterable[str] | None = None) -> Toolbox:
        """A new toolbox with only the allowed, or without the denied. Unknown names and an empty filter are errors."""
        if (allow is None) == (deny is None):
            raise ValueError("restrict takes either allow=… or deny=…")
        names = tuple(allow if allow is not None else deny or ())
        if not names:
            raise ValueError("restrict names no tool")
        for name in names:
            self._check_known(name)
        kept = (one for one in self if (one.name in names) is (allow is not None))
        return Toolbox(kept, order=[name for name in self._order if (name in names) is (allow is not None)])

    def get(self, name: str) -> AnyTool | None:
        """The tool of that name, or None."""
        return self._tools.get(name)

    def is_parallel(self, call: Call) -> bool:
        """Whether *call* may overlap others: its tool says exactly True of these arguments. Ask before each start."""
        found = self._tools.get(call.name)
        if found is None:
            return False
        try:
            return found.is_parallel(arguments.parse(call.arguments))
        except ToolArgsError:
            return False
        except Exception:  # a classifier that fails says nothing, and then a call runs alone
            logger.exception("tool %r: its parallel= function failed; the call runs alone", call.name)
            return False

    @property
    def schemas(self) -> tuple[ToolSchema, ...]:
        """What a model is told, in a stable order; the same object until the toolbox changes."""
        if self._schemas is None:
            first = [self._tools[name] for name in self._order if name in self._tools]
            rest = sorted((one for one in self if one not in first), key=lambda one: one.name)
            self._schemas = tuple(one.schema for one in (*first, *rest))
        return self._schemas

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __repr__(self) -> str:
        return f"<Toolbox {', '.join(sorted(self._tools))}>"

    def _change(self, tools: dict[str, AnyTool]) -> None:
        self._tools = tools
        self._schemas = None

    def _check_known(self, name: str) -> None:
        if name not in self._tools:
            raise KeyError(f"no tool named {name!r}; there are {', '.join(sorted(self._tools)) or 'none'}")

"""From a function's signature to the JSON Schema a model is given and the check its arguments pass.

Pydantic does the work: it reads the annotations once, and the same model makes the schema and validates. Validation is
pydantic's usual one: ``"3"`` is accepted for an ``int``; unknown and missing names are errors that name the field.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model

from turnlog.events import Json, LosslessError, thaw
from turnlog.events.lossless import check_open, freeze

from .context import ToolContext
from .errors import ToolArgsError

MOST_FAULTS: Final = 10
"""How many argument faults one error lists; a model fixes the first few and tries again."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes: the model's part, checked by pydantic, and the context, if it wants one."""

    parameters: Json
    """JSON Schema, frozen."""
    model: type[BaseModel]
    context: str | None
    """Name of the parameter that gets the :class:`ToolContext`."""
    names: Mapping[str, str]
    """Field of the model → parameter."""

    def bind(self, tool: str, arguments: Mapping[str, Json]) -> dict[str, object]:
        """Keyword arguments for the function; :class:`ToolArgsError` naming each field that does not fit."""
        try:
            valid = self.model.model_validate(thaw(arguments))
        except ValidationError as error:
            raise ToolArgsError(f"arguments do not fit {tool}: {_faults(error)}") from None
        return {name: getattr(valid, field) for field, name in self.names.items()}


def read_signature(
    function: Callable[..., object], described: Mapping[str, str], scope: Mapping[str, object], faults: list[str]
) -> Signature | None:
    """The signature of *function*; what keeps it from being a tool's is added to *faults*, all of it."""
    try:
        hints = typing.get_type_hints(_plain(function), localns=dict(scope), include_extras=True)
    except (NameError, TypeError) as error:
        faults.append(f"its annotations cannot be read ({error}); define or import what they name before the tool")
        return None
    context: str | None = None
    fields: dict[str, tuple[object, object]] = {}
    names: dict[str, str] = {}
    taken = inspect.signature(function).parameters
    for parameter in taken.values():
        hint = hints.get(parameter.name)
        if _wants_context(hint):
            context = parameter.name
        elif fault := _fault(parameter, hint):
            faults.append(fault)
        else:
            field = f"field_{len(fields)}"  # pydantic refuses some names, a tool may have any
            names[field] = parameter.name
            fields[field] = (hint, _field(parameter, described.get(parameter.name)))
    unknown = sorted(described.keys() - taken.keys())
    faults.extend(f"its docstring describes {name!r}, which is no parameter" for name in unknown)
    return None if faults else _signature(function, fields, names, context, faults)


def _signature(
    function: Callable[..., object],
    fields: dict[str, tuple[object, object]],
    names: dict[str, str],
    context: str | None,
    faults: list[str],
) -> Signature | None:
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    try:
        model: type[BaseModel] = create_model("Arguments", __config__=config, **fields)  # type: ignore[call-overload]
        parameters = tidy(model.model_json_schema())
        check_open(parameters)
    except (PydanticUserError, LosslessError, TypeError, ValueError) as error:
        faults.append(f"its parameters have no JSON Schema: {str(error).splitlines()[0]}")
        return None
    return Signature(freeze(parameters), model, context, names)


def _plain(function: Callable[..., object]) -> Callable[..., object]:
    """The function that carries the annotations."""
    if isinstance(function, functools.partial):
        return _plain(function.func)
    if inspect.isfunction(function) or inspect.ismethod(function):
        return function
    return typing.cast("Callable[..., object]", type(function).__call__)


def _wants_context(hint: object) -> bool:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return hint is ToolContext


def _fault(parameter: inspect.Parameter, hint: object) -> str | None:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return f"it takes *{name}; name every parameter"
    if parameter.kind is parameter.POSITIONAL_ONLY:
        return f"parameter {name!r} is positional only; a model gives arguments by name"
    if hint is None:
        return f"parameter {name!r} has no annotation"
    return None


def _field(parameter: inspect.Parameter, said: str | None) -> object:
    default = ... if parameter.default is parameter.empty else parameter.default
    return Field(default=default, alias=parameter.name, description=said)


def tidy(schema: object) -> object:
    """A schema without titles, references and ``| None`` of optional parameters: less for the model to read."""
    assert isinstance(schema, dict)
    return _tidy(schema, schema.get("$defs", {}), ())


def _tidy(node: object, defs: dict[str, object], inside: tuple[str, ...]) -> object:
    if isinstance(node, list):
        return [_tidy(one, defs, inside) for one in node]
    if not isinstance(node, dict):
        return node
    if isinstance(reference := node.get("$ref"), str):
        name = reference.removeprefix("#/$defs/")
        if name in inside:
            raise ValueError(f"{name} contains itself; use a flatter type")
        rest = {key: value for key, value in node.items() if key != "$ref"}
        target = defs[name]
        assert isinstance(target, dict)
        return _tidy({**target, **rest}, defs, (*inside, name))
    out: dict[str, object] = {}
    for key, value in node.items():
        if key == "$defs" or (key == "title" and isinstance(value, str)):
            continue
        if key in ("properties", "patternProperties") and isinstance(value, dict):
            out[key] = {name: _tidy(one, defs, inside) for name, one in value.items()}
        elif key in ("default", "const", "enum", "examples"):
            out[key] = value
        else:
            out[key] = _tidy(value, defs, inside)
    return _without_null(out)


def _without_null(node: dict[str, object]) -> dict[str, object]:
    """``X | None = None`` is an X that may be left out."""
    if node.get("default", ...) is not None or not isinstance(choices := node.get("anyOf"), list):
        return node
    left = [one for one in choices if one != {"type": "null"}]
    rest = {key: value for key, value in node.items() if key not in ("default", "anyOf")}
    return {**left[0], **rest} if len(left) == 1 else {**rest, "anyOf": left}


def _faults(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False)
    lines = [_fault_line(one["loc"], one["msg"], one["type"], one.get("input")) for one in found[:MOST_FAULTS]]
    if len(found) > MOST_FAULTS:
        lines.append(f"and {len(found) - MOST_FAULTS} more")
    return "; ".join(lines)


def _fault_line(place: tuple[int | str, ...], message: str, kind: str, given: object) -> str:
    name = ".".join(map(str, place)) or "arguments"
    if kind == "missing":
        return f"{name}: required, but missing"
    if kind == "extra_forbidden":
        return f"{name}: no such parameter"
    shown = repr(given)
    return f"{name}: {message} (got {shown if len(shown) <= 60 else shown[:60] + '…'})"

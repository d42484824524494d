"""Plain Python functions as tools, prompts and resources: their schemas, and how they are called."""

from __future__ import annotations

import inspect
import types
import typing
from typing import Any, Callable, Literal, Optional, Union

from .._arguments import signature_of

Function = Callable[..., Any]

CONTEXT = "context"

_SIMPLE: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    tuple: "array",
    dict: "object",
    type(None): "null",
}


def input_schema(function: Function) -> dict[str, Any]:
    """Derive the JSON Schema of a function's arguments from its signature.

    Annotations of ``str``, ``int``, ``float``, ``bool``, ``list``, ``dict``, ``Optional``, ``Union`` and
    ``Literal`` are understood; ``Annotated[str, {...}]`` adds keys to the schema of that argument. Everything
    else admits any value.
    """
    parameters = _parameters(function)
    if parameters is None:
        return {"type": "object"}
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    required = []
    open_ended = False
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            open_ended = True
            continue
        described = _schema_of(_hint(function, parameter))
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif parameter.default is not None and isinstance(parameter.default, (str, int, float, bool)):
            described["default"] = parameter.default
        schema["properties"][parameter.name] = described
    if required:
        schema["required"] = required
    if not open_ended:
        schema["additionalProperties"] = False
    return schema


def prompt_arguments(function: Function) -> list[dict[str, Any]]:
    """Derive the argument list of a prompt from a function's signature."""
    return [
        {"name": parameter.name, "required": parameter.default is parameter.empty}
        for parameter in _parameters(function) or ()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]


def first_paragraph(function: Function) -> Optional[str]:
    """Return the first paragraph of a function's docstring: the default description."""
    text = inspect.getdoc(function) if inspect.isroutine(function) else None
    return text.split("\n\n")[0].replace("\n", " ") if text else None


def call(function: Function, context: Any, arguments: dict[str, Any]) -> Any:
    """Call a function with ``arguments``, and with ``context`` first if its first parameter has that name.

    Raises:
        TypeError: The arguments do not fit.
    """
    given = (context,) if _takes_context(function) else ()
    return function(*given, **arguments)


def arguments_fault(function: Function, arguments: dict[str, Any]) -> Optional[str]:
    """Say why the arguments do not fit a function, ``None`` if they do."""
    signature = signature_of(function)
    if signature is None:
        return None
    try:
        signature.bind(*((None,) if _takes_context(function) else ()), **arguments)
    except TypeError as error:
        return str(error)
    return None


def _takes_context(function: Function) -> bool:
    signature = signature_of(function)
    return signature is not None and next(iter(signature.parameters), None) == CONTEXT


def _parameters(function: Function) -> Optional[list[inspect.Parameter]]:
    signature = signature_of(function)
    if signature is None:
        return None
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].name == CONTEXT:
        del parameters[0]
    return [parameter for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]


def _hint(function: Function, parameter: inspect.Parameter) -> Any:
    if parameter.annotation is parameter.empty:
        return Any
    # Not asked of the function itself: before Python 3.11 `get_type_hints` wraps the hints of arguments whose
    # default is None, which fails for Annotated[..., {}]. And one bad annotation must not spoil the others.
    holder = types.SimpleNamespace(__annotations__={"hint": parameter.annotation})
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(holder, names, include_extras=True)["hint"]
    except Exception:
        return Any


def _schema_of(hint: Any) -> dict[str, Any]:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        schema = _schema_of(args[0])
        for extra in args[1:]:
            schema.update(extra if isinstance(extra, dict) else {})
        return schema
    if origin is Literal:
        return {"enum": list(args)}
    # ``int | None`` has an origin of its own from Python 3.10 on.
    if origin is Union or type(hint).__name__ == "UnionType":
        return _schema_of_union(args)
    kind = _SIMPLE.get(origin or hint)
    if kind is None:
        return {}
    if kind == "array" and args:
        return {"type": "array", "items": _schema_of(args[0])}
    return {"type": kind}


def _schema_of_union(args: tuple[Any, ...]) -> dict[str, Any]:
    schemas = [_schema_of(arg) for arg in args]
    if {} in schemas:
        return {}
    return {"anyOf": schemas}


def call_override(function: Function, message: dict[str, Any], context: Any) -> Any:
    """Call what `FakeServer.on` was given: with the message, and with the context if it takes two."""
    signature = signature_of(function)
    if signature is not None and len(signature.parameters) > 1:
        return function(message, context)
    return function(message)

"""Arguments of tools that travel in headers, too (``x-mcp-header``, 2026-07-28).

Servers compare them with the body, so every value is derived from the very values that are sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Optional, Union

from ..errors import UsageError
from .codec import to_json_value
from .headers import TOKEN, encode_header_value

PARAM_HEADER_KEYWORD = "x-mcp-header"
PARAM_HEADER_PREFIX = "Mcp-Param-"
LARGEST_INTEGER = 2**53 - 1


class ParamHeader(NamedTuple):
    """A parameter of a tool that travels in a header too.

    Attributes:
        name: The header, ``Mcp-Param-...``.
        path: The keys that lead to the value in the arguments.
    """

    name: str
    path: tuple[str, ...]


class InvalidParamHeader(ValueError):
    """An ``x-mcp-header`` annotation breaks the rules; the tool must not be offered over HTTP.

    Attributes:
        reason: What is wrong, with the place in the schema.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def param_headers(
    compiled: tuple[ParamHeader, ...], arguments: Optional[Mapping[str, Any]]
) -> dict[str, str]:
    """Build the ``Mcp-Param-*`` headers of a call.

    A value that is absent or null has no header. Neither has an array or an object, which the
    schema does not admit at that place: the server is left to refuse it.

    Raises:
        UsageError: An integer is outside of ±(2**53 - 1). The specification forbids it there, since
            an intermediary may read it as a float and route by another number than the tool gets.
    """
    headers: dict[str, str] = {}
    for name, path in compiled:
        text = _header_text(_value_at(arguments, path), path)
        if text is not None:
            headers[name] = encode_header_value(text)
    return headers


def _value_at(arguments: Any, path: tuple[str, ...]) -> Any:
    value = arguments
    for key in path:
        value = _as_sent(value)
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return _as_sent(value)


def _as_sent(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float, Mapping, list, tuple)):
        return value
    try:
        return to_json_value(value)
    except TypeError:
        return None


def _header_text(value: Any, path: tuple[str, ...]) -> Optional[str]:
    """Write a value as the body has it; an enumeration's member is its value there."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not value.is_integer():
            return float.__repr__(value)
        value = int(value)
    if not isinstance(value, int):
        return None
    if abs(value) > LARGEST_INTEGER:
        raise UsageError(
            f"argument {'.'.join(path)} is too large an integer: the tool has it sent in an HTTP header, "
            f"which admits ±{LARGEST_INTEGER}"
        )
    return int.__repr__(value)


# --- reading the annotations of a schema -----------------------------------------------------------------

# Only keywords whose values are schemas are entered: what stands under ``default``, ``examples``,
# ``enum`` or ``const`` is data and may look like anything.
_ONE_SCHEMA = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_MANY_SCHEMAS = frozenset(
    {
        "$defs",
        "allOf",
        "anyOf",
        "definitions",
        "dependencies",
        "dependentSchemas",
        "items",
        "oneOf",
        "patternProperties",
        "prefixItems",
    }
)


class _Place(NamedTuple):
    """A schema within the schema.

    ``path`` is ``None`` once the way from the root has left ``properties``; ``steps`` is the way as
    a linked list, cheap to extend and written out only for a complaint.
    """

    schema: dict[str, Any]
    path: Optional[tuple[str, ...]]
    steps: Any

    def pointer(self) -> str:
        """Write the place as a JSON Pointer."""
        steps: list[str] = []
        link = self.steps
        while link is not None:
            link, step = link
            steps.append(str(step).replace("~", "~0").replace("/", "~1"))
        return "#" + "".join(f"/{step}" for step in reversed(steps))


def compile_param_headers(input_schema: Any) -> tuple[ParamHeader, ...]:
    """Collect the ``x-mcp-header`` annotations of a tool's input schema; mostly there are none.

    Raises:
        InvalidParamHeader: An annotation breaks a rule of the specification.
    """
    found: list[ParamHeader] = []
    seen: dict[str, str] = {}
    for place in _places(input_schema):
        if PARAM_HEADER_KEYWORD not in place.schema:
            continue
        fault = _annotation_fault(place)
        if fault is not None:
            raise InvalidParamHeader(f"{place.pointer()}: {fault}")
        token = place.schema[PARAM_HEADER_KEYWORD]
        earlier = seen.setdefault(token.lower(), place.pointer())
        if earlier != place.pointer():
            raise InvalidParamHeader(
                f"{place.pointer()}: {PARAM_HEADER_KEYWORD} {token!r} is taken by {earlier} already"
            )
        found.append(ParamHeader(PARAM_HEADER_PREFIX + token, place.path or ()))
    return tuple(found)


def _places(root: Any) -> Iterator[_Place]:
    """Give every schema within a schema, without recursion: its depth is the server's choice."""
    if not isinstance(root, dict):
        return
    waiting = [_Place(root, (), None)]
    for place in waiting:  # grows meanwhile
        yield place
        for keyword, value in place.schema.items():
            if keyword == "properties" and isinstance(value, dict):
                link = (place.steps, keyword)
                for name, child in value.items():
                    if isinstance(child, dict):
                        path = None if place.path is None else (*place.path, name)
                        waiting.append(_Place(child, path, (link, name)))
            elif isinstance(value, dict) and keyword in _ONE_SCHEMA:
                waiting.append(_Place(value, None, (place.steps, keyword)))
            elif isinstance(value, (dict, list)) and keyword in _MANY_SCHEMAS:
                link = (place.steps, keyword)
                for step, child in _children(value):
                    if isinstance(child, dict):
                        waiting.append(_Place(child, None, (link, step)))


def _children(value: Union[dict[str, Any], list[Any]]) -> Iterator[tuple[Union[str, int], Any]]:
    return iter(value.items()) if isinstance(value, dict) else iter(enumerate(value))


def _annotation_fault(place: _Place) -> Optional[str]:
    token = place.schema[PARAM_HEADER_KEYWORD]
    if not place.path:
        return f"{PARAM_HEADER_KEYWORD} must stand on a property that is reached through properties alone"
    if not isinstance(token, str):
        return f"{PARAM_HEADER_KEYWORD} must be a string, not {type(token).__name__}"
    if not token:
        return f"{PARAM_HEADER_KEYWORD} must not be empty"
    if not TOKEN.fullmatch(token):
        return f"{PARAM_HEADER_KEYWORD} {token[:100]!r} cannot be part of a header's name"
    kind = place.schema.get("type")
    if not isinstance(kind, str) or kind not in ("string", "integer", "boolean"):
        return f"{PARAM_HEADER_KEYWORD} needs the type string, integer or boolean, not {_shown_type(kind)}"
    return None


def _shown_type(kind: Any) -> str:
    if kind is None:
        return "a missing one"
    return kind[:100] if isinstance(kind, str) else f"a {type(kind).__name__}"

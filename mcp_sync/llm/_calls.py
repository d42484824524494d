"""The calls in what a model said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import UsageError
from ._names import check_vendor

JSON = Mapping[str, Any]


class ToolCall(NamedTuple):
    """A call that a model wants.

    Attributes:
        id: What its result is told apart by; empty if the vendor has none.
        name: The tool, by the name that the vendor knows.
        arguments: Its arguments.
        fault: Why they cannot be read; empty if they can.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    fault: str = ""


def tool_calls(response: Any, vendor: str) -> list[ToolCall]:
    """Return the calls that a model wants, in order.

    Args:
        response: The response of the vendor, or the message, or the list of blocks, items or calls in it; as
            the vendor's library gives it, or as dicts.
        vendor: The format; see `mcp_sync.llm`.

    Raises:
        UsageError: There is no such format, or that is no response.
    """
    reader = _READERS[check_vendor(vendor)]
    found = _plain(response)
    if not isinstance(found, (Mapping, list)):
        raise UsageError(f"that is no response of {vendor}: {type(response).__name__}")
    return list(reader(found))


def _plain(value: Any) -> Any:
    """Return dicts and lists instead of the objects of a library."""
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump()
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_plain(each) for each in value]
    return value


def _items(found: Any, *path: str) -> list[JSON]:
    """Return the list at the end of a path, of which any beginning may be missing; lists give their first."""
    if isinstance(found, Mapping):
        for key in path:
            inner = found.get(key) if isinstance(found, Mapping) else None
            if inner is None:
                continue
            is_last = key == path[-1]
            found = inner[0] if isinstance(inner, list) and inner and not is_last else inner
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _anthropic(found: Any) -> Iterator[ToolCall]:
    for block in _items(found, "content"):
        if block.get("type") == "tool_use":
            yield _call(block.get("id"), block.get("name"), block.get("input"))


def _openai(found: Any) -> Iterator[ToolCall]:
    for item in _items(found, "output"):
        if item.get("type") == "function_call":
            yield _call(item.get("call_id"), item.get("name"), item.get("arguments"))


def _openai_chat(found: Any) -> Iterator[ToolCall]:
    for call in _items(found, "choices", "message", "tool_calls"):
        function = call.get("function")
        if isinstance(function, Mapping):
            yield _call(call.get("id"), function.get("name"), function.get("arguments"))


def _gemini(found: Any) -> Iterator[ToolCall]:
    for part in _items(found, "candidates", "content", "parts"):
        # The library also has the bare calls.
        call = part.get("functionCall") or part.get("function_call") or ("args" in part and part)
        if isinstance(call, Mapping):
            yield _call(call.get("id"), call.get("name"), call.get("args"))


def _anybody(found: Any) -> Iterator[ToolCall]:
    for call in [found] if isinstance(found, Mapping) else _items(found):
        yield _call(call.get("id"), call.get("name"), call.get("arguments"))


def _call(id: Any, name: Any, arguments: Any) -> ToolCall:
    call = ToolCall(str(id or ""), str(name or ""), {})
    if arguments is None or arguments == "":
        return call
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            return call._replace(fault=f"the arguments are no JSON: {error}")
    if not isinstance(arguments, Mapping):
        return call._replace(fault="the arguments are no JSON object")
    return call._replace(arguments=dict(arguments))


_READERS = {
    "anthropic": _anthropic,
    "openai": _openai,
    "openai-chat": _openai_chat,
    "gemini": _gemini,
    "plain": _anybody,
}

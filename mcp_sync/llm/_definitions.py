"""Tools as vendors want them described."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ._gemini import gemini_schema
from ._names import KEY_RULES, changed, check_vendor, vendor_name
from ._schemas import flat, strict_schema

if TYPE_CHECKING:
    from .. import types

JSON = dict[str, Any]

# The API of OpenAI refuses longer ones.
_LONGEST_DESCRIPTION = 1024


def tool_definitions(tools: Iterable[types.Tool], vendor: str, *, strict: bool = False) -> list[JSON]:
    """Return tools in the format of a vendor, ready for its parameter ``tools``.

    What a vendor does not accept is left out or rewritten; the server checks its arguments anyway.
    Anthropic and OpenAI take no ``anyOf``, ``oneOf``, ``allOf`` or ``$ref`` at the top of a schema, so
    alternatives are put together there. Gemini takes a part of OpenAPI's schemas: references are put in,
    what holds itself ends as an object.

    Args:
        tools: The tools.
        vendor: The format; see `mcp_sync.llm`.
        strict: Have OpenAI keep to the schema. Optional arguments may be null then, which `run_tool_calls`
            leaves out. A tool whose schema cannot be made strict is not.

    Raises:
        UsageError: There is no such format, two tools have the same name, or these are no tools.
    """
    check_vendor(vendor)
    made = [_WRITERS[vendor](tool, vendor_name(tool.name, vendor), strict) for tool in checked_tools(tools)]
    names = [(each.get("function") or each)["name"] for each in made]
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else ()
    if twice:
        raise UsageError(f"two tools have the name {sorted(twice)[0]!r}")
    if vendor == "gemini":
        return [{"functionDeclarations": made}] if made else []
    return made


def checked_tools(tools: Any) -> list[types.Tool]:
    """Return tools as a list.

    Raises:
        UsageError: They are something else: a client, say, or one page of a list.
    """
    found = list(tools) if isinstance(tools, Iterable) else None
    if found is None or not all(hasattr(each, "input_schema") for each in found):
        raise UsageError(f"tools must be some such as list(client.tools()), not {type(tools).__name__}")
    return found


def _described(tool: types.Tool, name: str) -> JSON:
    text = tool.description or tool.title
    return {"name": name, "description": text} if text else {"name": name}


def _plain(tool: types.Tool, name: str, strict: bool) -> JSON:
    return {**_described(tool, name), "parameters": tool.input_schema or {"type": "object", "properties": {}}}


def _anthropic(tool: types.Tool, name: str, strict: bool) -> JSON:
    schema = flat(tool.input_schema)
    rule = KEY_RULES["anthropic"]
    words = {key: changed(key, rule) for key in schema["properties"]}
    if any(key != word for key, word in words.items()):
        properties = {words[key]: value for key, value in schema["properties"].items()}
        schema = {**schema, "properties": properties}
        if "required" in schema:
            schema["required"] = [words.get(key, key) for key in schema["required"]]
    return {**_described(tool, name), "input_schema": schema}


def _openai(tool: types.Tool, name: str, strict: bool) -> JSON:
    schema = flat(tool.input_schema)
    exact = strict_schema(schema) if strict else None
    made = _described(tool, name)
    if "description" in made:
        made["description"] = made["description"][:_LONGEST_DESCRIPTION]
    return {**made, "parameters": exact or schema, "strict": exact is not None}


def _openai_chat(tool: types.Tool, name: str, strict: bool) -> JSON:
    return {"type": "function", "function": _openai(tool, name, strict)}


def _gemini(tool: types.Tool, name: str, strict: bool) -> JSON:
    schema = gemini_schema(flat(tool.input_schema))
    made = _described(tool, name)
    return {**made, "parameters": schema} if schema.get("properties") else made


_WRITERS = {
    "anthropic": _anthropic,
    "openai": lambda tool, name, strict: {"type": "function", **_openai(tool, name, strict)},
    "openai-chat": _openai_chat,
    "gemini": _gemini,
    "plain": _plain,
}

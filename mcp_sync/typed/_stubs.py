"""A Python module with a typed method for each tool of a server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Union

from ._names import class_name, identifiers
from ._parameters import Parameter, parameters_of
from ._schema import Reader, wrapped
from ._text import docstring, literal
from ._types import USED_NAMES, Types

if TYPE_CHECKING:
    from .. import types
    from ..session import ClientSession

_HEAD = '''"""The tools of an MCP server, typed. Made by "mcp-sync stubs": make it anew, do not edit it."""

# ruff: noqa
from __future__ import annotations

import typing as t

import typing_extensions as te

from mcp_sync.typed import OMITTED, Omitted, Returns, ToolCalls
from mcp_sync.types import CallToolResult
'''
_CLASS = '''

class Tools(ToolCalls):
    """The tools, as methods. ``Tools(client, timeout=5)`` has options of `Client.call_tool` for each call."""
'''
_OURS = frozenset({"OMITTED", "Omitted", "Returns", "ToolCalls", "CallToolResult", "Tools"})


def generate_stubs(tools: Union[ClientSession, Iterable[types.Tool]]) -> str:
    """Return the text of a Python module with a typed method for each tool.

    The module has a class ``Tools``, made with a client, and a `TypedDict` for each object that tools take or
    return. A method returns what its tool's output schema says, checked, and raises `ToolFailed` if the tool
    fails; without an output schema it returns the ``CallToolResult``. ``mypy --strict`` accepts it. The
    same tools give the same text, in whatever order they come. Names and texts of servers cannot become code.

    Args:
        tools: A client, which is asked, or tools.
    """
    listed: Any = getattr(tools, "tools", None)
    found: Any = tools if listed is None else listed()
    by_name: dict[str, types.Tool] = {tool.name: tool for tool in found}
    names = identifiers(by_name, "tool", USED_NAMES | _OURS)
    kinds = Types({*names.values(), *USED_NAMES, *_OURS})
    returns: list[str] = []
    methods = [_method(by_name[name], names[name], kinds, returns) for name in sorted(by_name)]
    text = [_HEAD, *("\n\n" + each for each in kinds.classes)]
    text += ["\n\n", *returns] if returns else []
    return "".join([*text, _CLASS, *methods])


def _method(tool: types.Tool, name: str, kinds: Types, returns: list[str]) -> str:
    parameters, is_open = parameters_of(tool.input_schema, kinds, (tool.name,))
    kind, checker = _result(tool, name, kinds, returns)
    words = ["self"]
    if parameters:
        words += ["*", *map(_written, parameters)]
    # What a name of a parameter could hide is not used in the body.
    more = "_more" if is_open else ""
    if is_open:
        words.append(f"**{more}: t.Any")
    given = "".join(f"{literal(each.key)}: {each.name}, " for each in parameters)
    given = f"{{{given}{f'**{more}, ' if more else ''}}}".replace(", }", "}")
    call = f"self._call({literal(tool.name)}, {given}{f', {checker}' if checker else ''})"
    signature = "".join(f"        {word},\n" for word in words)
    about = docstring(describe(tool, parameters, show_defaults=False), "        ")
    return f"\n    def {name}(\n{signature}    ) -> {kind}:\n{about}        return {call}\n"


def _written(each: Parameter) -> str:
    if each.required:
        return f"{each.name}: {each.type}"
    if each.default is not None:
        return f"{each.name}: {each.type} = {each.default}"
    return f"{each.name}: t.Union[{each.type}, Omitted] = OMITTED"


def _result(tool: types.Tool, name: str, kinds: Types, returns: list[str]) -> tuple[str, str]:
    """Return the type of a tool's result, and the name of what checks it."""
    schema: Any = tool.output_schema
    if not schema:
        return "CallToolResult", ""
    value = wrapped(Reader(schema).plain(schema))
    kind = kinds.of(schema if value is None else value, schema, (tool.name, "result"), gives=False)
    checker = f"_{class_name([name])}Returns"
    checker = kinds.unique(checker)
    returns.append(f"{checker}: Returns[{kind}] = Returns({kind})\n")
    return kind, checker


def describe(tool: types.Tool, parameters: Iterable[Parameter], show_defaults: bool) -> str:
    """Return the docstring of a tool: what the server says about it, and about its arguments."""
    title = tool.title or (tool.annotations.title if tool.annotations is not None else None)
    lines = [tool.description or title or f"Call the tool {tool.name!r}."]
    told = []
    for each in parameters:
        about = " ".join(each.description.split())
        default = f"(default: {each.default})" if show_defaults and each.default is not None else ""
        if about or default:
            told.append(f"    {each.name}: {' '.join(filter(None, [about, default]))}")
    return "\n".join([*lines, *(["", "Args:", *told] if told else [])])

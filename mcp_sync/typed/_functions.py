"""``client.tool``: the tools of a server as functions with a signature and a docstring."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Optional

from .._protocol.visible import clean
from ..errors import MCPError, UsageError
from ._names import identifiers
from ._parameters import Parameter, parameters_of
from ._stubs import describe
from ._types import Types

if TYPE_CHECKING:
    from .. import types
    from ..session import ClientSession


class Shown:
    """An annotation that is shown as it would be written."""

    def __init__(self, text: str) -> None:
        self._text = text.replace("t.List[", "list[").replace("t.Dict[", "dict[").replace("t.", "")

    def __repr__(self) -> str:
        return self._text


class ToolFunction:
    """A tool that is called like a function, with its arguments by name.

    It returns the ``CallToolResult``. Options of `Client.call_tool` go into `with_options`:
    ``client.tool.search.with_options(timeout=5)(query="x")``.

    Attributes:
        definition: The tool as the server describes it.

    Raises:
        TypeError: An argument is missing or not given by name, or the tool has none of that name.
    """

    def __init__(self, client: ClientSession, tool: types.Tool, options: Mapping[str, Any]) -> None:
        self.definition = tool
        self._client = client
        self._options = dict(options)
        self._parameters, self._is_open = parameters_of(tool.input_schema, Types(flat=True), (tool.name,))
        # Interpreters show these in terminals.
        self.__name__ = self.__qualname__ = clean(tool.name)
        self.__doc__ = clean(describe(tool, self._parameters, show_defaults=True))
        self.__signature__ = _signature(self._parameters, self._is_open)

    def __call__(self, /, *unnamed: Any, **arguments: Any) -> Any:
        if unnamed:
            known = ", ".join(each.name for each in self._parameters)
            raise TypeError(f"tool {self.__name__!r} takes its arguments by name: {known or 'it has none'}")
        return self._client.call_tool(self.definition.name, self._named(arguments), **self._options)

    def _named(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments under the names of the server."""
        keys = {each.name: each.key for each in self._parameters}
        keys.update({each.key: each.key for each in self._parameters})
        if not self._is_open:
            for name in arguments.keys() - keys.keys():
                known = ", ".join(each.name for each in self._parameters) or "none"
                raise TypeError(f"tool {self.__name__!r} has no argument {name!r}; it has: {known}")
        given = {keys.get(name, name): value for name, value in arguments.items()}
        missing = [each.name for each in self._parameters if each.required and each.key not in given]
        if missing:
            raise TypeError(f"tool {self.__name__!r} needs {', '.join(missing)}")
        return given

    def with_options(self, **options: Any) -> ToolFunction:
        """Return the same function with options of `Client.call_tool`, such as ``timeout=5``.

        With ``result_type=Model`` it returns a value of that type.
        """
        return ToolFunction(self._client, self.definition, {**self._options, **options})

    def _repr_html_(self) -> str:
        return self.definition._repr_html_()

    def __repr__(self) -> str:
        return f"<tool {self.__name__!r} {self.__signature__}>"


def _signature(parameters: list[Parameter], is_open: bool) -> inspect.Signature:
    kind = inspect.Parameter.KEYWORD_ONLY
    found = [
        inspect.Parameter(each.name, kind, default=_default(each), annotation=Shown(each.type))
        for each in parameters
    ]
    if is_open:
        rest = identifiers(["arguments"], "arg", {each.name for each in parameters})["arguments"]
        found.append(inspect.Parameter(rest, inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(found, return_annotation=Shown("CallToolResult"))


def _default(each: Parameter) -> Any:
    if each.required:
        return inspect.Parameter.empty
    return Shown(each.default if each.default is not None else "...")


class ToolFunctions:
    """The tools of a server, as attributes: ``client.tool.search(query="x")``.

    Tools whose names cannot be written after a dot: ``client.tool["odd name"]``; any name of the server works
    there. Attributes and ``dir()`` also have them under the names that stubs use. The first use lists the
    tools; a name that is missing has them listed again. The server learns of nothing but the call.

    Raises:
        AttributeError: There is no such tool (``KeyError`` with brackets).
    """

    def __init__(self, client: ClientSession) -> None:
        self._client = client

    def __getattr__(self, name: str) -> ToolFunction:
        # What interpreters and notebooks look for is no tool, and not worth a request.
        if not name.startswith("_"):
            tool = self._find(name, by_word=True)
            if tool is not None:
                return ToolFunction(self._client, tool, {})
        raise AttributeError(f"there is no tool {name!r}")

    def __getitem__(self, name: str) -> ToolFunction:
        tool = self._find(name, by_word=False)
        if tool is None:
            raise KeyError(name)
        return ToolFunction(self._client, tool, {})

    def _find(self, name: str, by_word: bool) -> Optional[types.Tool]:
        for fresh in (False, True):
            tools = self._listed(fresh)
            if name in tools:
                return tools[name]
            if by_word:
                for real, word in identifiers(tools, "tool").items():
                    if word == name:
                        return tools[real]
        return None

    def _listed(self, fresh: bool = False) -> dict[str, types.Tool]:
        known = self._client._listed_tools
        if known is None or fresh:
            cache = "refresh" if fresh and known is not None else "use"
            known = {tool.name: tool for tool in self._client.tools(cache=cache)}
            self._client._listed_tools = known
        return known

    def refresh(self) -> None:
        """List the tools again. A tool of this name is ``client.tool["refresh"]``."""
        self._listed(fresh=True)

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed())

    def __len__(self) -> int:
        return len(self._listed())

    def __contains__(self, name: object) -> bool:
        return name in self._listed()

    def __dir__(self) -> list[str]:
        try:
            return [*super().__dir__(), *identifiers(self._listed(), "tool").values()]
        except (MCPError, UsageError):
            # Who presses Tab wants no traceback.
            return list(super().__dir__())

    def _ipython_key_completions_(self) -> list[str]:
        try:
            return list(self._listed())
        except MCPError:
            return []

    def __repr__(self) -> str:
        return f"<tools of {self._client!r}>"

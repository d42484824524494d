"""Runs the calls that a model wants."""

from __future__ import annotations

import contextvars
from collections.abc import Iterable, Iterator
from typing import Any, Optional

from .. import types
from .._concurrency.cancel import CancelToken
from .._concurrency.fork import no_fork
from .._concurrency.threads import spawn
from ..errors import InputRequired, MCPError, UsageError
from ._calls import ToolCall, tool_calls
from ._definitions import checked_tools
from ._names import KEY_RULES, changed, check_vendor, is_changed, tool_name
from ._results import tool_results
from ._schemas import without_nulls

JSON = dict[str, Any]

_LONGEST_ERROR = 2000
_LOOK = 1.0


def run_tool_calls(
    client: Any,
    response: Any,
    *,
    vendor: str,
    tools: Optional[Iterable[types.Tool]] = None,
    parallel: int = 1,
    **options: Any,
) -> list[JSON]:
    """Run the calls that a model wants, and return their results in the vendor's format and in order.

    A call that fails, for whatever reason, gives an error result: the model may do something about it.
    What comes back goes into the next request: as the content of a message of the user (Anthropic), as items
    of the input (Responses), as messages (Chat Completions), as parts of a content of the user (Gemini).

    Args:
        client: A client or a `ClientGroup`.
        response: What the model said; see `tool_calls`. Without calls in it, nothing happens.
        vendor: The format; see `mcp_sync.llm`.
        tools: The tools that the model was offered: no others are called then. Without them all can be, and
            they are listed if the way back from a name, or a null, needs it.
        parallel: How many calls run at the same time, on threads.
        options: Of `Client.call_tool`, for each call: ``timeout=30``, for one.

    Raises:
        UsageError: There is no such format, or that is no response, or these are no tools.
        InputRequired: With ``on_input="raise"``: after all other calls have ended.
    """
    if not isinstance(parallel, int) or parallel < 1:
        raise UsageError(f"parallel is a number of calls from 1, not {parallel!r}")
    for name in ("raise_on_error", "result_type"):
        if name in options:
            raise UsageError(f"{name} makes no sense here: results are for the model")
    calls = tool_calls(response, check_vendor(vendor))
    run = _Run(client, calls, vendor, options, None if tools is None else checked_tools(tools))
    run.all(min(parallel, len(calls)))
    return tool_results(zip(calls, run.outcome()), vendor)


class _Run:
    """The calls of one response."""

    def __init__(
        self,
        client: Any,
        calls: list[ToolCall],
        vendor: str,
        options: JSON,
        tools: Optional[list[types.Tool]],
    ) -> None:
        self._client = client
        self._calls = calls
        self._vendor = vendor
        self._token = options.get("cancel") or CancelToken()
        self._options = {**options, "cancel": self._token}
        self._offered = None if tools is None else {tool.name: tool for tool in tools}
        self._listed: Optional[dict[str, types.Tool]] = self._offered
        self._results: list[Optional[types.CallToolResult]] = [None] * len(calls)
        self._raised: list[BaseException] = []

    def all(self, parallel: int) -> None:
        """Run all calls; each thread takes the next that waits."""
        waiting = iter(range(len(self._calls)))
        if parallel <= 1:
            self._work(waiting)
            return
        name = str(getattr(self._client, "name", "tools"))
        threads = []
        try:
            for _ in range(parallel):
                context = contextvars.copy_context()
                threads.append(spawn(name, "tool-call", context.run, self._work, waiting))
            for thread in threads:
                while thread.is_alive():
                    thread.join(_LOOK)
        except BaseException:
            self._token.cancel("interrupted")
            raise

    def _work(self, waiting: Iterator[int]) -> None:
        for index in waiting:
            try:
                self._results[index] = self._one(self._calls[index])
            except InputRequired as required:
                self._raised.append(required)
            except MCPError as error:
                self._results[index] = _failed(str(error))

    def _one(self, call: ToolCall) -> types.CallToolResult:
        if call.fault:
            return _failed(call.fault)
        name, arguments = call.name, call.arguments
        if is_changed(name):
            name = tool_name(name, self._tools(), self._vendor)
        if self._offered is not None and name not in self._offered:
            return _failed(f"there is no tool {call.name!r}")
        if _needs_schema(arguments):
            tool = self._tools().get(name)
            if tool is not None:
                arguments = _as_the_server_wants(arguments, tool.input_schema, self._vendor)
        result: types.CallToolResult = self._client.call_tool(name, arguments, **self._options)
        return result

    def _tools(self) -> dict[str, types.Tool]:
        if self._listed is None:
            self._listed = {tool.name: tool for tool in self._client.tools()}
        return self._listed

    def outcome(self) -> list[types.CallToolResult]:
        """Return the results.

        Raises:
            InputRequired: A call needs input.
        """
        if self._raised:
            raise self._raised[0]
        return [_failed("the call was not made") if each is None else each for each in self._results]


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text[:_LONGEST_ERROR])], is_error=True)


def _needs_schema(value: Any) -> bool:
    """Whether something in the arguments can only be understood with the schema of the tool."""
    if isinstance(value, dict):
        return any(is_changed(key) or each is None or _needs_schema(each) for key, each in value.items())
    return isinstance(value, list) and any(map(_needs_schema, value))


def _as_the_server_wants(arguments: JSON, schema: Any, vendor: str) -> JSON:
    rule = KEY_RULES.get(vendor)
    if rule is not None:
        with no_fork():
            from ._schemas import flat
        keys = {changed(key, rule): key for key in flat(schema)["properties"]}
        arguments = {keys.get(key, key): value for key, value in arguments.items()}
    found: JSON = without_nulls(arguments, schema)
    return found

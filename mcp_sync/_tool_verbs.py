"""The verbs for tools: list and call them, with the headers and the checks that their schemas ask for."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union, overload

from . import types
from ._arguments import as_dict, check_instance, page_params
from ._calls import Calls, Headers, Meta, call_options, pausing, resumable
from ._concurrency.cancel import CancelToken
from ._concurrency.deadline import Deadline
from ._concurrency.fork import no_fork
from ._engine.call_options import CallOptions
from ._engine.connection import Connection
from ._engine.tools import ToolIndex
from ._protocol import methods
from .errors import HeaderMismatch, OutputInvalid, ToolFailed
from .handlers import ProgressCallback
from .options import UNSET, TimeoutArgument, check_validation

if TYPE_CHECKING:
    from .typed import Pins, ToolFunctions
    from .typed._pins import Guard

logger = logging.getLogger("mcp_sync.session")

R = TypeVar("R")


class ToolVerbs(Calls):
    """What `ClientSession` documents, as far as it concerns tools."""

    _tools: ToolIndex
    _validation: str
    # What stands before calls, after `pin_tools`; and the tools that `tool` has listed.
    _pins: Optional[Guard] = None
    _listed_tools: Optional[dict[str, types.Tool]] = None

    def list_tools(
        self,
        cursor: Optional[str] = None,
        *,
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
        cache: str = "use",
    ) -> types.ListToolsResult:
        """Return one page of the server's tools. `tools` follows the pages."""
        options = call_options(meta, cancel, headers, cache=cache)
        return self._list_tools(cursor, options, self._deadline(timeout))

    def _list_tools(
        self, cursor: Optional[str], options: CallOptions, deadline: Deadline
    ) -> types.ListToolsResult:
        params = page_params(cursor)
        engine, spec, model = self._engine, methods.LIST_TOOLS, types.ListToolsResult
        cache = engine.plan.cache
        if cache is not None:
            return cache.call(engine, spec, params, model, options, deadline, self._learn)
        # Before the call: it may be gone when the result is there.
        connection = engine.connection(deadline, options.cancel)
        result = engine.call(spec, params, model, options, deadline)
        self._learn(result, connection)
        return result

    def _learn(self, result: types.ListToolsResult, connection: Connection) -> None:
        self._tools.learn(result, self._mirrors(connection))

    def tools(
        self, *, timeout: TimeoutArgument = UNSET, headers: Headers = None, cache: str = "use"
    ) -> Iterator[types.Tool]:
        """Iterate over all tools; ``timeout`` bounds each page.

        Raises:
            InvalidResult: The server's pages never end (a cursor comes twice, or ``Limits.pages``).
        """
        return self._all(
            lambda cursor: self.list_tools(cursor, timeout=timeout, headers=headers, cache=cache), "tools"
        )

    @overload
    def call_tool(
        self,
        name: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        result_type: None = None,
        timeout: TimeoutArgument = UNSET,
        progress_callback: Optional[ProgressCallback] = None,
        reset_on_progress: bool = False,
        raise_on_error: bool = False,
        validation: Optional[str] = None,
        on_input: str = "answer",
        resumption_token: Optional[str] = None,
        on_resumption_token_update: Optional[Callable[[str], None]] = None,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> types.CallToolResult: ...

    @overload
    def call_tool(
        self,
        name: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        result_type: type[R],
        timeout: TimeoutArgument = UNSET,
        progress_callback: Optional[ProgressCallback] = None,
        reset_on_progress: bool = False,
        raise_on_error: bool = False,
        validation: Optional[str] = None,
        on_input: str = "answer",
        resumption_token: Optional[str] = None,
        on_resumption_token_update: Optional[Callable[[str], None]] = None,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> R: ...

    @overload
    def call_tool(
        self,
        name: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        result_type: Any,
        timeout: TimeoutArgument = UNSET,
        progress_callback: Optional[ProgressCallback] = None,
        reset_on_progress: bool = False,
        raise_on_error: bool = False,
        validation: Optional[str] = None,
        on_input: str = "answer",
        resumption_token: Optional[str] = None,
        on_resumption_token_update: Optional[Callable[[str], None]] = None,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> Any: ...

    def call_tool(
        self,
        name: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        result_type: Any = None,
        timeout: TimeoutArgument = UNSET,
        progress_callback: Optional[ProgressCallback] = None,
        reset_on_progress: bool = False,
        raise_on_error: bool = False,
        validation: Optional[str] = None,
        on_input: str = "answer",
        resumption_token: Optional[str] = None,
        on_resumption_token_update: Optional[Callable[[str], None]] = None,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> Any:
        """Call a tool and return its result. Never sent twice when the server may have acted.

        A server may make a task of the call (`mcp_sync.tasks`), which is followed to its end then: within the
        same time, with the callbacks of the client for what it asks. If the call ends first, the task is
        cancelled. ``start_task`` does not wait.

        Args:
            name: The tool.
            arguments: What JSON can hold; models are dumped.
            result_type: Return a value of this type instead, made from the structured content (or from the
                text as JSON, where there is none): a pydantic model, a dataclass, a TypedDict, or a plain
                type such as ``list[int]``. What servers wrap as ``{"result": value}`` is unwrapped.
            timeout: See the class.
            progress_callback: ``f(progress, total, message)``; has seen everything before this returns.
            reset_on_progress: Ask for progress although nobody takes it, so that it resets the clock of
                ``Timeouts.silence``.
            raise_on_error: Raise `ToolFailed` if the tool reports an error.
            validation: Overrides the session's.
            on_input: What happens when the server asks for input (2026-07-28): ``"answer"`` has the
                callbacks answer; ``"raise"`` raises `InputRequired`, with which `resume` goes on later and
                elsewhere. It declares elicitation, forms and URLs, for this call by itself, and runs no
                callback.
            resumption_token: Do not call, but take up an earlier call of this tool where its response broke,
                perhaps that of another process: the last token that it was given. Needs its session
                (``session_id=``) and a server that keeps its events (Streamable HTTP up to 2025-11-25;
                "Resumability and Redelivery" in the transports of the specification).
            on_resumption_token_update: ``f(token)``, on the calling thread, with each token that comes.
            meta: See the class.
            cancel: See the class.
            headers: HTTP headers of this request alone.

        Raises:
            ToolFailed: Only with ``raise_on_error`` or ``result_type``.
            TaskGone: The server has forgotten the task that it made of the call.
            OutputInvalid: Only with ``validation="strict"``, or if it is not of the ``result_type``.
            PinMismatch: After `pin_tools`: the tool is not the one that was pinned.
            InputRequired: Only with ``on_input="raise"``.
            UrlElicitationRequired: The user has to visit a page first (2025-11-25). With an
                ``elicitation_callback`` that agrees to each visit, the call waits until the server says
                that they are over, and is made once more; this is raised if they are not in time. Without
                one it is raised at once: send the user there and call again.
            UsageError: Arguments that JSON cannot hold.
            NotSupported: A ``resumption_token`` where there is no resumption; ``on_input="raise"`` before
                2026-07-28.
        """
        if not isinstance(name, str):
            check_instance("the name of a tool", name, str)
        if result_type is not None:
            with no_fork():
                from .typed._results import checked_type, typed_result
            checked_type(result_type)  # Before anything is sent.
        params = {"name": name, "arguments": as_dict("arguments", arguments)}
        options = call_options(meta, cancel, headers, progress_callback, reset_on_progress)
        if on_input != "answer":
            options = pausing(options, on_input)
        if resumption_token is not None or on_resumption_token_update is not None:
            options = resumable(options, resumption_token, on_resumption_token_update)
        if validation is not None:
            check_validation(validation)
        deadline = self._deadline(timeout)
        result = self._call_tool(params, options, deadline)
        if result.is_error or self._tools.schemas:
            self._judge(name, result, raise_on_error, validation, deadline)
        return result if result_type is None else typed_result(name, result, result_type)

    @property
    def tool(self) -> ToolFunctions:
        """The tools as functions: ``client.tool.search(query="x")``, for interpreters and notebooks.

        Names that are no identifiers go into brackets: ``client.tool["odd name"]``. The first use lists the
        tools. See `mcp_sync.typed`.
        """
        with no_fork():
            from .typed import ToolFunctions
        return ToolFunctions(self)  # type: ignore[arg-type]

    def pin_tools(
        self,
        lockfile: Union[str, os.PathLike[str]],
        *,
        update: bool = False,
        recheck: Optional[float] = 60.0,
        timeout: TimeoutArgument = UNSET,
    ) -> Pins:
        """Call only those tools from now on that are as a lock file says.

        If there is no such file, the tools of the server are written to it; keep it with your code. Names,
        titles, descriptions, schemas and hints count. Tools that are new are refused as well. Calls by
        ``call_tool`` and ``start_task`` are held against it, of this client and of the views that
        ``for_principal`` makes later. The tools are listed again before a call when the server said that they
        have changed, on a new connection, and after some time.

        Args:
            lockfile: Where it is.
            update: Write it anew, whatever it says.
            recheck: After how many seconds the tools are listed again, if the server does not tell of
                changes; 0 for before each call, ``None`` for never.
            timeout: See the class.

        Raises:
            PinMismatch: The server has changed tools; says how.
            UsageError: The file cannot be read or written, or is no lock file.
        """
        with no_fork():
            from .typed._pins import pin_tools
        return pin_tools(self, lockfile, update, recheck, timeout)  # type: ignore[arg-type]

    def _judge(
        self,
        name: str,
        result: types.CallToolResult,
        raise_on_error: bool,
        validation: Optional[str],
        deadline: Deadline,
    ) -> None:
        """Raise what a caller wants raised of a result."""
        if result.is_error:
            if raise_on_error:
                raise ToolFailed(f"tool {name} failed: {result.text[:500]}", result=result)
        else:
            self._check_output(name, result, validation or self._validation, deadline)

    def _call_tool(
        self, params: dict[str, Any], options: CallOptions, deadline: Deadline
    ) -> types.CallToolResult:
        if self._pins is not None:
            self._pins.check(self, params["name"], options, deadline)  # type: ignore[arg-type]
        if self._tools.only_as_tasks and params["name"] in self._tools.only_as_tasks:
            with no_fork():
                from .tasks._calling import call_as_task, takes_tasks

            if takes_tasks(self._engine, options, deadline):
                return call_as_task(self, params, options, deadline)
        engine, spec, model = self._engine, methods.CALL_TOOL, types.CallToolResult
        given = self._mirrored(options, params, deadline) if self._tools.mirrored else options
        try:
            return engine.call(spec, params, model, given, deadline)
        except HeaderMismatch:
            if not self._mirrors(engine.latest(deadline)):
                raise
            self._relist(options, deadline)
        return engine.call(spec, params, model, self._mirrored(options, params, deadline), deadline)

    @staticmethod
    def _mirrors(connection: Connection) -> bool:
        """Whether arguments that a tool marks with ``x-mcp-header`` are sent as HTTP headers too."""
        return connection.channel.is_http and connection.era.mirrors_arguments

    def _mirrored(self, options: CallOptions, params: Mapping[str, Any], deadline: Deadline) -> CallOptions:
        """Return the options of a call, with the headers that the schema of the tool asks for."""
        headers = self._tools.headers(params)
        if not headers or not self._mirrors(self._engine.connection(deadline, options.cancel)):
            return options
        return options._replace(headers={**options.headers, **headers})

    def _relist(self, options: CallOptions, deadline: Deadline) -> None:
        """After a refusal for the sake of such headers: the schema has changed, or was never listed."""
        plain = CallOptions(headers=options.headers, cancel=options.cancel)
        for _ in self._all(lambda cursor: self._list_tools(cursor, plain, deadline), "tools"):
            pass

    def _check_output(
        self, name: str, result: types.CallToolResult, validation: str, deadline: Deadline
    ) -> None:
        if validation == "off":
            return
        fault = self._tools.output_fault(name, result.structured_content, deadline)
        if fault is None:
            return
        if validation == "strict":
            raise OutputInvalid(f"output of tool {name} is invalid: {fault}", result=result)
        logger.warning("Output of tool %s is invalid: %s", name, fault)

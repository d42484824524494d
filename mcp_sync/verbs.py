"""The verbs of the protocol as blocking methods. Each is written once, for `ClientSession` and `Client`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Optional, TypeVar, Union

from pydantic import BaseModel

from . import types
from ._arguments import as_dict, as_uri, check_callback, check_instance, check_level
from ._concurrency.cancel import CancelToken
from ._concurrency.deadline import Deadline
from ._engine.connection import NO_OPTIONS, CallOptions, Connection
from ._engine.engine import Engine
from ._engine.tools import ToolIndex
from ._protocol import methods
from ._protocol.headers import checked_headers
from ._protocol.methods import MethodSpec
from .errors import HeaderMismatch, InvalidResult, NotSupported, OutputInvalid, ToolFailed, UsageError
from .handlers import ProgressCallback
from .options import UNSET, Limits, TimeoutArgument, Timeouts, check_seconds, check_validation

logger = logging.getLogger("mcp_sync.session")

M = TypeVar("M", bound=BaseModel)
Meta = Optional[Mapping[str, Any]]
Headers = Optional[Mapping[str, str]]


class Verbs:
    """What `ClientSession` documents: all methods that make a call."""

    _engine: Engine
    _tools: ToolIndex
    _timeout: TimeoutArgument
    _timeouts: Timeouts
    _limits: Limits
    _validation: str

    # --- tools ----------------------------------------------------------------------------------------

    def list_tools(
        self,
        cursor: Optional[str] = None,
        *,
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> types.ListToolsResult:
        """Return one page of the server's tools. `tools` follows the pages."""
        return self._list_tools(cursor, _options(meta, cancel, headers), self._deadline(timeout))

    def _list_tools(
        self, cursor: Optional[str], options: CallOptions, deadline: Deadline
    ) -> types.ListToolsResult:
        # Before the call: the connection may be gone when the result is there.
        mirrors = self._mirrors(self._engine.connection(deadline, options.cancel))
        params = {} if cursor is None else {"cursor": cursor}
        result = self._engine.call(methods.LIST_TOOLS, params, types.ListToolsResult, options, deadline)
        self._tools.learn(result, mirrors)
        return result

    def tools(self, *, timeout: TimeoutArgument = UNSET, headers: Headers = None) -> Iterator[types.Tool]:
        """Iterate over all tools; ``timeout`` bounds each page.

        Raises:
            InvalidResult: The server's pages never end (a cursor comes twice, or ``Limits.pages``).
        """
        return self._all(lambda cursor: self.list_tools(cursor, timeout=timeout, headers=headers), "tools")

    def call_tool(
        self,
        name: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        timeout: TimeoutArgument = UNSET,
        progress_callback: Optional[ProgressCallback] = None,
        reset_on_progress: bool = False,
        raise_on_error: bool = False,
        validation: Optional[str] = None,
        resumption_token: Optional[str] = None,
        on_resumption_token_update: Optional[Callable[[str], None]] = None,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> types.CallToolResult:
        """Call a tool and return its result. Never sent twice when the server may have acted.

        Args:
            name: The tool.
            arguments: What JSON can hold; models are dumped.
            timeout: See the class.
            progress_callback: ``f(progress, total, message)``; has seen everything before this returns.
            reset_on_progress: Ask for progress although nobody takes it, so that it resets the clock of
                ``Timeouts.silence``.
            raise_on_error: Raise `ToolFailed` if the tool reports an error.
            validation: Overrides the session's.
            resumption_token: Do not call, but take up an earlier call of this tool where its response broke,
                perhaps that of another process: the last token that it was given. Needs its session
                (``session_id=``) and a server that keeps its events (Streamable HTTP up to 2025-11-25;
                "Resumability and Redelivery" in the transports of the specification).
            on_resumption_token_update: ``f(token)``, on the calling thread, with each token that comes.
            meta: See the class.
            cancel: See the class.
            headers: HTTP headers of this request alone.

        Raises:
            ToolFailed: Only with ``raise_on_error``.
            OutputInvalid: Only with ``validation="strict"``.
            UsageError: Arguments that JSON cannot hold.
            NotSupported: A ``resumption_token`` where there is no resumption.
        """
        check_instance("the name of a tool", name, str)
        if validation is not None:
            check_validation(validation)
        given = as_dict("arguments", arguments)
        options = _options(meta, cancel, headers, progress_callback, reset_on_progress)
        if resumption_token is not None or on_resumption_token_update is not None:
            options = _resumable(options, resumption_token, on_resumption_token_update)
        deadline = self._deadline(timeout)
        result = self._call_tool(name, given, options, deadline)
        if result.is_error:
            if raise_on_error:
                raise ToolFailed(f"tool {name} failed: {result.text[:500]}", result=result)
        else:
            self._check_output(name, result, validation or self._validation, deadline)
        return result

    def _call_tool(
        self, name: str, arguments: dict[str, Any], options: CallOptions, deadline: Deadline
    ) -> types.CallToolResult:
        params = {"name": name, "arguments": arguments}
        if not self._mirrors(self._engine.connection(deadline, options.cancel)):
            return self._engine.call(methods.CALL_TOOL, params, types.CallToolResult, options, deadline)
        try:
            mirrored = self._mirrored(options, name, arguments)
            return self._engine.call(methods.CALL_TOOL, params, types.CallToolResult, mirrored, deadline)
        except HeaderMismatch:
            # The tool's schema may have changed since it was listed, or was never listed.
            self._relist(options, deadline)
            mirrored = self._mirrored(options, name, arguments)
            return self._engine.call(methods.CALL_TOOL, params, types.CallToolResult, mirrored, deadline)

    @staticmethod
    def _mirrors(connection: Connection) -> bool:
        """Whether arguments that a tool marks with ``x-mcp-header`` are sent as HTTP headers too."""
        return connection.channel.is_http and connection.era.mirrors_arguments

    def _mirrored(self, options: CallOptions, name: str, arguments: Mapping[str, Any]) -> CallOptions:
        headers = self._tools.headers(name, arguments)
        return options._replace(headers={**options.headers, **headers}) if headers else options

    def _relist(self, options: CallOptions, deadline: Deadline) -> None:
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

    # --- resources ------------------------------------------------------------------------------------

    def list_resources(
        self,
        cursor: Optional[str] = None,
        *,
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> types.ListResourcesResult:
        """Return one page of the server's resources. `resources` follows the pages."""
        options = _options(meta, cancel, headers)
        return self._page(methods.LIST_RESOURCES, types.ListResourcesResult, cursor, options, timeout)

    def resources(
        self, *, timeout: TimeoutArgument = UNSET, headers: Headers = None
    ) -> Iterator[types.Resource]:
        """Iterate over all resources; ``timeout`` bounds each page."""
        return self._all(
            lambda cursor: self.list_resources(cursor, timeout=timeout, headers=headers), "resources"
        )

    def list_resource_templates(
        self,
        cursor: Optional[str] = None,
        *,
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> types.ListResourceTemplatesResult:
        """Return one page of the server's resource templates. `resource_templates` follows the pages."""
        model = types.ListResourceTemplatesResult
        options = _options(meta, cancel, headers)
        return self._page(methods.LIST_RESOURCE_TEMPLATES, model, cursor, options, timeout)

    def resource_templates(
        self, *, timeout: TimeoutArgument = UNSET, headers: Headers = None
    ) -> Iterator[types.ResourceTemplate]:
        """Iterate over all resource templates; ``timeout`` bounds each page."""
        return self._all(
            lambda cursor: self.list_resource_templates(cursor, timeout=timeout, headers=headers),
            "resource_templates",
        )

    def read_resource(
        self,
        uri: str,
        *,
        timeout: TimeoutArgument = UNSET,
        progress_callback: Optional[ProgressCallback] = None,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> types.ReadResourceResult:
        """Return the contents of a resource.

        Raises:
            ResourceNotFound, InvalidParams: No such resource (older servers, 2026-07-28).
        """
        options = _options(meta, cancel, headers, progress_callback)
        params = {"uri": as_uri(uri)}
        return self._call(methods.READ_RESOURCE, params, types.ReadResourceResult, options, timeout)

    def subscribe_resource(
        self,
        uri: str,
        *,
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
    ) -> types.EmptyResult:
        """Have the server notify ``message_handler`` when a resource changes (up to 2025-11-25).

        A `Client` that has to open another session subscribes there again.
        """
        options = _options(meta, cancel)
        result = self._call(methods.SUBSCRIBE, {"uri": as_uri(uri)}, types.EmptyResult, options, timeout)
        self._engine.plan.subscriptions.add(as_uri(uri))
        return result

    def unsubscribe_resource(
        self,
        uri: str,
        *,
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
    ) -> types.EmptyResult:
        """End what `subscribe_resource` began (up to 2025-11-25)."""
        options = _options(meta, cancel)
        self._engine.plan.subscriptions.discard(as_uri(uri))
        return self._call(methods.UNSUBSCRIBE, {"uri": as_uri(uri)}, types.EmptyResult, options, timeout)

    # --- prompts and completion -----------------------------------------------------------------------

    def list_prompts(
        self,
        cursor: Optional[str] = None,
        *,
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> types.ListPromptsResult:
        """Return one page of the server's prompts. `prompts` follows the pages."""
        options = _options(meta, cancel, headers)
        return self._page(methods.LIST_PROMPTS, types.ListPromptsResult, cursor, options, timeout)

    def prompts(self, *, timeout: TimeoutArgument = UNSET, headers: Headers = None) -> Iterator[types.Prompt]:
        """Iterate over all prompts; ``timeout`` bounds each page."""
        return self._all(
            lambda cursor: self.list_prompts(cursor, timeout=timeout, headers=headers), "prompts"
        )

    def get_prompt(
        self,
        name: str,
        arguments: Optional[Mapping[str, str]] = None,
        *,
        timeout: TimeoutArgument = UNSET,
        progress_callback: Optional[ProgressCallback] = None,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> types.GetPromptResult:
        """Return a prompt, filled with arguments (strings, says the specification)."""
        check_instance("the name of a prompt", name, str)
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = as_dict("arguments", arguments)
        options = _options(meta, cancel, headers, progress_callback)
        return self._call(methods.GET_PROMPT, params, types.GetPromptResult, options, timeout)

    def complete(
        self,
        ref: Union[types.PromptReference, types.ResourceTemplateReference, Mapping[str, Any]],
        argument: Mapping[str, str],
        context_arguments: Optional[Mapping[str, str]] = None,
        *,
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> types.CompleteResult:
        """Return completions for an argument of a prompt or of a resource template.

        Args:
            ref: ``PromptReference(name=...)`` or ``ResourceTemplateReference(uri=...)``.
            argument: ``{"name": ..., "value": what was typed so far}``.
            context_arguments: Arguments that are settled already.
            timeout: See the class.
            meta: See the class.
            cancel: See the class.
            headers: HTTP headers of this request alone.
        """
        given = ref if isinstance(ref, Mapping) else ref.to_wire()
        params: dict[str, Any] = {"ref": given, "argument": as_dict("argument", argument)}
        if context_arguments is not None:
            params["context"] = {"arguments": as_dict("context_arguments", context_arguments)}
        options = _options(meta, cancel, headers)
        return self._call(methods.COMPLETE, params, types.CompleteResult, options, timeout)

    # --- everything else ------------------------------------------------------------------------------

    def send_ping(self, *, timeout: TimeoutArgument = UNSET, meta: Meta = None) -> types.EmptyResult:
        """See whether the server answers; by ``server/discover`` on 2026-07-28, which has no ping."""
        deadline = self._deadline(timeout)
        spec = self._engine.connection(deadline).era.ping
        self._engine.call_raw(spec, {}, _options(meta), deadline)
        return types.EmptyResult()

    def set_logging_level(self, level: types.LoggingLevel, *, timeout: TimeoutArgument = UNSET) -> None:
        """Set the lowest level of log messages that the server sends; part of each request on 2026-07-28."""
        check_level(level)
        deadline = self._deadline(timeout)
        if not self._engine.connection(deadline).era.level_per_request:
            params = {"level": level}
            self._engine.call(methods.SET_LEVEL, params, types.EmptyResult, NO_OPTIONS, deadline)
        self._engine.plan.log_level = self._engine.plan.request_level = level

    def send_progress_notification(
        self,
        progress_token: types.ProgressToken,
        progress: float,
        total: Optional[float] = None,
        message: Optional[str] = None,
    ) -> None:
        """Report progress of a request that the server made (up to 2025-11-25)."""
        params: dict[str, Any] = {"progressToken": progress_token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self._notify_legacy("notifications/progress", params)

    def send_roots_list_changed(self) -> None:
        """Tell the server that the roots have changed (up to 2025-11-25)."""
        self._notify_legacy("notifications/roots/list_changed", {})

    def _notify_legacy(self, method: str, params: Mapping[str, Any]) -> None:
        deadline = self._deadline(UNSET)
        connection = self._engine.connection(deadline)
        version = connection.era.version
        if not connection.era.client_notifications:
            raise NotSupported(f"{method} does not exist in {version}", method=method, version=version)
        connection.notify(method, params, deadline)

    def request(
        self,
        method: str,
        params: Optional[Mapping[str, Any]] = None,
        result_type: Any = dict,
        *,
        timeout: TimeoutArgument = UNSET,
        progress_callback: Optional[ProgressCallback] = None,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> Any:
        """Send any request.

        Args:
            method: The method.
            params: Its params, without ``_meta``.
            result_type: A pydantic model for the result, or ``dict`` for the result as it came.
            timeout: See the class.
            progress_callback: ``f(progress, total, message)``.
            meta: See the class.
            cancel: See the class.
            headers: HTTP headers of this request alone.
        """
        options = _options(meta, cancel, headers, progress_callback)
        check_instance("the method", method, str)
        spec = methods.spec_of(method)
        deadline = self._deadline(timeout)
        if not (result_type is dict or callable(getattr(result_type, "model_validate", None))):
            raise UsageError(f"result_type must be dict or a pydantic model, not {result_type!r}")
        if result_type is dict:
            return self._engine.call_raw(spec, as_dict("params", params), options, deadline)
        return self._engine.call(spec, as_dict("params", params), result_type, options, deadline)

    def notify(
        self, method: str, params: Optional[Mapping[str, Any]] = None, *, timeout: TimeoutArgument = UNSET
    ) -> None:
        """Send any notification."""
        deadline = self._deadline(timeout)
        self._engine.connection(deadline).notify(method, as_dict("params", params), deadline)

    # --- shared by the verbs --------------------------------------------------------------------------

    def _deadline(self, timeout: TimeoutArgument) -> Deadline:
        """Return the deadline of a call."""
        if timeout is UNSET:
            timeout = self._timeout
        if timeout is UNSET:
            return Deadline(self._timeouts.total, self._timeouts.silence)
        return deadline_of(timeout)

    def _call(
        self,
        spec: MethodSpec,
        params: dict[str, Any],
        model: type[M],
        options: CallOptions,
        timeout: TimeoutArgument,
    ) -> M:
        return self._engine.call(spec, params, model, options, self._deadline(timeout))

    def _page(
        self,
        spec: MethodSpec,
        model: type[M],
        cursor: Optional[str],
        options: CallOptions,
        timeout: TimeoutArgument,
    ) -> M:
        params = {} if cursor is None else {"cursor": cursor}
        return self._call(spec, params, model, options, timeout)

    def _all(self, fetch: Callable[[Optional[str]], Any], items: str) -> Iterator[Any]:
        """Follow the pages that ``fetch`` returns, up to ``Limits.pages``.

        Raises:
            InvalidResult: A cursor came twice, or there are too many pages. A list is never cut silently.
        """
        cursor: Optional[str] = None
        seen: set[str] = set()
        while True:
            page = fetch(cursor)
            cursor = page.next_cursor
            # Some servers send an empty cursor for "no more".
            if cursor and cursor in seen:
                raise InvalidResult(f"the server sent the cursor {cursor!r} twice while listing {items}")
            yield from getattr(page, items)
            if not cursor:
                return
            seen.add(cursor)
            if len(seen) >= self._limits.pages:
                raise InvalidResult(f"more than {self._limits.pages} pages of {items} (Limits.pages)")


def _options(
    meta: Meta = None,
    cancel: Optional[CancelToken] = None,
    headers: Headers = None,
    progress: Optional[ProgressCallback] = None,
    wants_progress: bool = False,
) -> CallOptions:
    if meta is None and cancel is None and headers is None and progress is None and not wants_progress:
        return NO_OPTIONS
    if cancel is not None:
        check_instance("cancel", cancel, CancelToken)
    check_callback("progress_callback", progress)
    return CallOptions(
        as_dict("meta", meta), checked_headers(headers) or {}, cancel, progress, wants_progress
    )


def _resumable(
    options: CallOptions, token: Optional[str], take: Optional[Callable[[str], None]]
) -> CallOptions:
    check_callback("on_resumption_token_update", take)
    if token is not None:
        check_instance("resumption_token", token, str)
        if not token:
            raise UsageError("resumption_token is empty")
    return options._replace(resumption_token=token or "", on_resumption_token=take)


def deadline_of(timeout: TimeoutArgument) -> Deadline:
    check_seconds("timeout", timeout)
    assert timeout is None or isinstance(timeout, (int, float))
    return Deadline(timeout)

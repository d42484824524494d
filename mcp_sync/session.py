"""`ClientSession`: the verbs of the protocol as blocking methods."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar, Union

from pydantic import BaseModel

from . import types
from ._concurrency.cancel import CancelToken
from ._concurrency.deadline import Deadline
from ._concurrency.threads import client_name
from ._engine.answers import Answers
from ._engine.connection import CallOptions, Connection
from ._engine.engine import Engine, Plan
from ._engine.opening import Identity
from ._engine.router import Router
from ._engine.tools import ToolIndex
from ._protocol import methods
from ._protocol.eras import client_capabilities
from ._protocol.methods import MethodSpec
from ._protocol.negotiation import LEGACY, Negotiation, check_mode, discover, negotiate
from ._protocol.versions import LATEST_MODERN, TRAITS
from ._version import __version__
from .errors import HeaderMismatch, InvalidResult, NotSupported, OutputInvalid, ToolFailed, UsageError
from .handlers import (
    Callbacks,
    ElicitationCallback,
    ListRootsCallback,
    LoggingCallback,
    MessageHandler,
    ProgressCallback,
    SamplingCallback,
)
from .options import UNSET, Limits, Retry, TimeoutArgument, Timeouts, check_seconds
from .transports._base import Settings, Target

logger = logging.getLogger("mcp_sync.session")

M = TypeVar("M", bound=BaseModel)
Page = TypeVar("Page", types.ListToolsResult, types.ListResourcesResult, types.ListPromptsResult,
               types.ListResourceTemplatesResult)
Meta = Optional[Mapping[str, Any]]
Headers = Optional[Mapping[str, str]]

_VALIDATION = ("warn", "strict", "off")


class ClientSession:
    """A session over one transport, with the explicit life cycle of the official SDK.

    One session serves any number of threads. It does not open by itself (`Client` does): call
    `initialize` or `discover` first. When the connection is lost, calls in flight and all later calls
    fail with the cause.

    All methods that talk to the server take:

    - ``timeout``: seconds, a hard bound on the whole call; ``None`` for no bound. Without it a call may
      stay silent for ``Timeouts.silence`` and last ``Timeouts.total`` at most.
    - ``meta``: entries for the request's ``_meta``.
    - ``cancel``: a `CancelToken`.

    and raise, beside what they list: `CallTimeout`, `CallCancelled`, `ClientClosed`, `TransportError`
    and its kinds, `RemoteError` and its kinds, and `ProtocolError` if the server breaks the rules.

    Args:
        transport: What `streamablehttp_client`, `stdio_client` and the like yield, or a target.
        timeout: The default for the calls' ``timeout``.
        timeouts: The other bounds on time.
        limits: Bounds on sizes and counts.
        client_info: How the client introduces itself.
        sampling_callback: ``f(context, params)`` returns a ``CreateMessageResult``.
        elicitation_callback: ``f(context, params)`` returns an ``ElicitResult``.
        list_roots_callback: ``f(context)`` returns a ``ListRootsResult``.
        logging_callback: ``f(params)`` for each log message of the server.
        message_handler: ``f(message)`` for every notification, server request and transport fault.
        log_level: The lowest level of log messages that the server should send. Default: the server's
            choice up to 2025-11-25; on 2026-07-28 "info" with a ``logging_callback``, else none at all.
        retry: What is repeated by itself.
        validation: What happens if structured output does not match the tool's output schema, once the
            tool was listed: ``"warn"`` (a log message), ``"strict"`` (`OutputInvalid`) or ``"off"``.
        extensions: Extensions to declare (2026-07-28): identifiers, or a mapping to their settings.
        name: A name for log messages and threads.

    Raises:
        UsageError: An argument makes no sense.
    """

    _reopen = False

    def __init__(
        self,
        transport: Target,
        *,
        timeout: TimeoutArgument = UNSET,
        timeouts: Timeouts = Timeouts(),  # noqa: B008  (immutable)
        limits: Limits = Limits(),  # noqa: B008
        client_info: Optional[types.Implementation] = None,
        sampling_callback: Optional[SamplingCallback] = None,
        elicitation_callback: Optional[ElicitationCallback] = None,
        list_roots_callback: Optional[ListRootsCallback] = None,
        logging_callback: Optional[LoggingCallback] = None,
        message_handler: Optional[MessageHandler] = None,
        log_level: Optional[types.LoggingLevel] = None,
        retry: Retry = Retry(),  # noqa: B008
        validation: str = "warn",
        extensions: Union[Mapping[str, Any], tuple[str, ...], list[str]] = (),
        name: Optional[str] = None,
    ) -> None:
        self._check_arguments(transport, timeout, validation)
        self.name = name or client_name()
        self._timeout = timeout
        self._timeouts = timeouts
        self._validation = validation
        self._tools = ToolIndex()
        callbacks = Callbacks(
            sampling_callback, elicitation_callback, list_roots_callback, logging_callback, message_handler
        )
        info = client_info or types.Implementation(name="mcp-sync", version=__version__)
        answers = Answers(callbacks, weakref.ref(self))
        router = Router(self.name, callbacks, answers, limits.queue_length, limits.handler_threads)
        declared = dict(extensions) if isinstance(extensions, Mapping) else {key: {} for key in extensions}
        identity = Identity(info.to_wire(), lambda version: _capabilities(version, callbacks, declared))
        plan = Plan(
            target=transport,
            mode=LEGACY,
            settings=Settings(self.name, timeouts, limits, retry),
            identity=identity,
            listening=callbacks.listening,
            reopen=self._reopen,
            log_level=log_level,
            # A stateless server sends log messages only where a level was asked for.
            request_level=log_level or ("info" if logging_callback is not None else None),
        )
        self._limits = limits
        self._engine = Engine(plan, router)

    @staticmethod
    def _check_arguments(transport: Any, timeout: TimeoutArgument, validation: str) -> None:
        if not callable(getattr(transport, "channel", None)):
            raise UsageError(f"a transport or target is needed, not {type(transport).__name__}")
        if timeout is not UNSET:
            check_seconds("timeout", timeout)
        if validation not in _VALIDATION:
            raise UsageError(f'validation must be "warn", "strict" or "off", not {validation!r}')

    # --- life cycle ------------------------------------------------------------------------------

    def __enter__(self: S) -> S:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} to {self._engine.plan.target!r}>"

    def initialize(self, *, timeout: TimeoutArgument = UNSET) -> types.InitializeResult:
        """Open the session with the handshake of the revisions up to 2025-11-25.

        Returns:
            The server's answer. On a session that is open already, the answer of then.

        Raises:
            NegotiationFailed: No revision in common.
            ConnectFailed: Nobody there.
        """
        connection = self._open(lambda: negotiate(LEGACY), timeout)
        if connection.era.traits.modern:
            raise UsageError("the session was opened with discover()")
        return types.InitializeResult.model_validate(connection.era.server)

    def discover(self, *, timeout: TimeoutArgument = UNSET) -> types.DiscoverResult:
        """Open the session on revision 2026-07-28, which has no handshake, by ``server/discover``.

        Returns:
            The server's answer. On a session that is open already, the answer of then.

        Raises:
            NegotiationFailed: The server does not speak that revision.
            ConnectFailed: Nobody there.
        """
        connection = self._open(lambda: discover(LATEST_MODERN), timeout)
        if not connection.era.traits.modern:
            raise UsageError("the session was opened with initialize()")
        return types.DiscoverResult.model_validate(connection.era.server)

    def _open(self, negotiation: Optional[Callable[[], Negotiation]], timeout: TimeoutArgument) -> Connection:
        bound = self._timeouts.open if timeout is UNSET else timeout
        return self._engine.open(_deadline(bound), negotiation)

    def close(self, timeout: Optional[float] = None) -> None:
        """Close the session. Idempotent, from any thread, also from a callback; never raises.

        Every call in flight fails with `ClientClosed`, and so does every later one. On legacy HTTP the
        session is ended on the server; a server process is ended with all its children.

        Args:
            timeout: Seconds that it may take; default ``Timeouts.close``.
        """
        self._engine.close(Deadline(self._timeouts.close if timeout is None else timeout))

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._engine.closed

    # --- what is known of the server -----------------------------------------------------------------

    def _connected(self) -> Connection:
        return self._engine.connection(self._deadline(UNSET))

    @property
    def server_info(self) -> Optional[types.Implementation]:
        """Name and version of the server, ``None`` as long as it has not told."""
        info = self._connected().server_info
        return types.Implementation.model_validate(info) if info is not None else None

    @property
    def server_capabilities(self) -> types.ServerCapabilities:
        """What the server offers; empty where it was not asked (a ``mode`` that is a version)."""
        return types.ServerCapabilities.model_validate(self._connected().era.server.get("capabilities") or {})

    @property
    def instructions(self) -> Optional[str]:
        """The server's instructions for a model that uses it."""
        text = self._connected().era.server.get("instructions")
        return text if isinstance(text, str) else None

    @property
    def protocol_version(self) -> str:
        """The protocol revision in use."""
        return self._connected().era.version

    @property
    def session_id(self) -> Optional[str]:
        """The session id of legacy Streamable HTTP, else ``None``."""
        return self._connected().channel.session_id

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
        options = _options(meta, cancel, headers)
        result = self._page(methods.LIST_TOOLS, types.ListToolsResult, cursor, options, timeout)
        connection = self._connected()
        self._tools.learn(result, connection.channel.is_http and connection.era.traits.modern)
        return result

    def tools(self, *, timeout: TimeoutArgument = UNSET, headers: Headers = None) -> Iterator[types.Tool]:
        """Iterate over all tools; ``timeout`` bounds each page. See `_all` for the guards."""
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
            meta: See the class.
            cancel: See the class.
            headers: HTTP headers of this request alone.

        Raises:
            ToolFailed: Only with ``raise_on_error``.
            OutputInvalid: Only with ``validation="strict"``.
            UsageError: Arguments that JSON cannot hold.
        """
        if not isinstance(name, str):
            raise UsageError(f"the name of a tool is a string, not {type(name).__name__}")
        given = dict(arguments) if arguments is not None else {}
        options = _options(meta, cancel, headers, progress_callback, reset_on_progress)
        result = self._call_tool(name, given, options, self._deadline(timeout))
        if result.is_error:
            if raise_on_error:
                raise ToolFailed(f"tool {name} failed: {result.text[:500]}", result=result)
        else:
            self._check_output(name, result, validation or self._validation)
        return result

    def _call_tool(
        self, name: str, arguments: dict[str, Any], options: CallOptions, deadline: Deadline
    ) -> types.CallToolResult:
        params = {"name": name, "arguments": arguments}
        connection = self._engine.connection(deadline)
        mirrored = connection.channel.is_http and connection.era.traits.modern
        given = options.headers
        if mirrored:
            options.headers = {**given, **self._tools.headers(name, arguments)}
        try:
            return self._engine.call(methods.CALL_TOOL, params, types.CallToolResult, options, deadline)
        except HeaderMismatch:
            if not mirrored:
                raise
            # The tool's schema may have changed since it was listed, or was never listed.
            self._relist(deadline)
            options.headers = {**given, **self._tools.headers(name, arguments)}
            return self._engine.call(methods.CALL_TOOL, params, types.CallToolResult, options, deadline)

    def _relist(self, deadline: Deadline) -> None:
        for _ in self.tools(timeout=deadline.remaining()):
            pass

    def _check_output(self, name: str, result: types.CallToolResult, validation: str) -> None:
        if validation == "off":
            return
        fault = self._tools.output_fault(name, result.structured_content)
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
        return self._call(methods.READ_RESOURCE, {"uri": str(uri)}, types.ReadResourceResult, options, timeout)

    def subscribe_resource(
        self,
        uri: str,
        *,
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
    ) -> types.EmptyResult:
        """Have the server notify ``message_handler`` when a resource changes (up to 2025-11-25)."""
        options = _options(meta, cancel)
        return self._call(methods.SUBSCRIBE, {"uri": str(uri)}, types.EmptyResult, options, timeout)

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
        return self._call(methods.UNSUBSCRIBE, {"uri": str(uri)}, types.EmptyResult, options, timeout)

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
        return self._all(lambda cursor: self.list_prompts(cursor, timeout=timeout, headers=headers), "prompts")

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
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = dict(arguments)
        options = _options(meta, cancel, headers, progress_callback)
        return self._call(methods.GET_PROMPT, params, types.GetPromptResult, options, timeout)

    def complete(
        self,
        ref: Union[types.PromptReference, types.ResourceTemplateReference],
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
        params: dict[str, Any] = {"ref": ref.to_wire(), "argument": dict(argument)}
        if context_arguments is not None:
            params["context"] = {"arguments": dict(context_arguments)}
        options = _options(meta, cancel, headers)
        return self._call(methods.COMPLETE, params, types.CompleteResult, options, timeout)

    # --- everything else ------------------------------------------------------------------------------

    def send_ping(self, *, timeout: TimeoutArgument = UNSET, meta: Meta = None) -> types.EmptyResult:
        """See whether the server answers; by ``server/discover`` on 2026-07-28, which has no ping."""
        deadline = self._deadline(timeout)
        modern = self._engine.connection(deadline).era.traits.modern
        spec = methods.DISCOVER if modern else methods.PING
        self._engine.call_raw(spec, {}, _options(meta), deadline)
        return types.EmptyResult()

    def set_logging_level(self, level: types.LoggingLevel, *, timeout: TimeoutArgument = UNSET) -> None:
        """Set the lowest level of log messages that the server sends; part of each request on 2026-07-28."""
        deadline = self._deadline(timeout)
        if not self._engine.connection(deadline).era.traits.modern:
            params = {"level": level}
            self._engine.call(methods.SET_LEVEL, params, types.EmptyResult, CallOptions(), deadline)
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
        if connection.era.traits.modern:
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
        spec = methods.spec_of(method)
        deadline = self._deadline(timeout)
        if result_type is dict:
            return self._engine.call_raw(spec, dict(params or {}), options, deadline)
        return self._engine.call(spec, dict(params or {}), result_type, options, deadline)

    def notify(
        self, method: str, params: Optional[Mapping[str, Any]] = None, *, timeout: TimeoutArgument = UNSET
    ) -> None:
        """Send any notification."""
        deadline = self._deadline(timeout)
        self._engine.connection(deadline).notify(method, dict(params or {}), deadline)

    # --- shared by the verbs --------------------------------------------------------------------------

    def _deadline(self, timeout: TimeoutArgument) -> Deadline:
        """Return the deadline of a call."""
        if timeout is UNSET:
            timeout = self._timeout
        if timeout is UNSET:
            return Deadline(self._timeouts.total, self._timeouts.silence)
        return _deadline(timeout)

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

    def _all(self, fetch: Callable[[Optional[str]], Page], items: str) -> Iterator[Any]:
        """Follow the pages, up to ``Limits.pages``.

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


S = TypeVar("S", bound=ClientSession)


def _options(
    meta: Meta = None,
    cancel: Optional[CancelToken] = None,
    headers: Headers = None,
    progress: Optional[ProgressCallback] = None,
    progress_token: bool = False,
) -> CallOptions:
    return CallOptions(dict(meta or {}), dict(headers or {}), cancel, progress, progress_token)


def _deadline(timeout: TimeoutArgument) -> Deadline:
    check_seconds("timeout", timeout)
    assert timeout is None or isinstance(timeout, (int, float))
    return Deadline(timeout)


def _capabilities(version: str, callbacks: Callbacks, extensions: Mapping[str, Any]) -> dict[str, Any]:
    check_mode(version)
    return client_capabilities(
        TRAITS[version],
        sampling=callbacks.sampling is not None,
        elicitation=callbacks.elicitation is not None,
        roots=callbacks.list_roots is not None,
        extensions=extensions,
    )

"""`ClientSession`: one session with a server, from opening to closing. Its calls are in `mcp_sync.verbs`."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar

from . import types
from ._arguments import check_callback, check_instance, check_level
from ._calls import deadline_of
from ._concurrency.deadline import Deadline
from ._concurrency.fork import no_fork
from ._concurrency.threads import client_name
from ._engine.assembly import build_engine
from ._engine.connection import Connection
from ._engine.extensions import extensions_of
from ._engine.tools import ToolIndex
from ._protocol.negotiation import LEGACY, Negotiation, discover, negotiate
from ._protocol.versions import LATEST_MODERN
from ._unpicklable import Unpicklable
from .errors import UsageError
from .extensions import ExtensionsArgument
from .handlers import (
    Callbacks,
    ElicitationCallback,
    ListRootsCallback,
    LoggingCallback,
    MessageHandler,
    SamplingCallback,
)
from .logs import ToLogging
from .options import (
    UNSET,
    CacheOptions,
    Limits,
    Retry,
    TimeoutArgument,
    Timeouts,
    check_seconds,
    check_validation,
)
from .tasks._extension import Tasks
from .transports._base import Settings, Target
from .verbs import Verbs

if TYPE_CHECKING:
    from ._engine.cache import ResponseCache
    from .principals import Principals
    from .stats import Stats
    from .trace import TraceArgument
    from .tracing import TracingArgument

_DEFAULT_EXTENSIONS = extensions_of([Tasks()])
# The callbacks that are called with a context and params, not with one of them.
_TAKING_PARAMS = ("sampling", "elicitation")


class ClientSession(Unpicklable, Verbs):
    """A session over one transport, with the explicit life cycle of the official SDK.

    One session serves any number of threads. It does not open by itself (`Client` does): call
    `initialize` or `discover` first. When the connection is lost, calls in flight and all later calls
    fail with the cause.

    Methods that talk to the server take, where it makes sense:

    - ``timeout``: seconds, a hard bound on the whole call; ``None`` for no bound. Without it a call may
      stay silent for ``Timeouts.silence`` and last ``Timeouts.total`` at most.
    - ``meta``: entries for the request's ``_meta``.
    - ``cancel``: a `CancelToken`.
    - ``cache``: for lists and resources, where the client keeps answers: ``"use"`` them; ``"refresh"`` to ask
      the server and keep its answer; ``"bypass"`` to leave the cache aside.

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
        extensions: Extensions (2026-07-28): objects of `mcp_sync.extensions`, or identifiers that are only
            declared, perhaps as a mapping to their settings. They replace the default, which is
            ``[mcp_sync.tasks.Tasks()]``; ``()`` is none.
        cache: Which answers are kept for as long as the server says; by default none.
        tracing: Who is told of each call: an observer such as `mcp_sync.otel.OpenTelemetry`, or a function
            that returns the trace context that servers get (`mcp_sync.tracing`).
        trace: Writes down what goes over the wire: ``True`` to standard error, or a function that takes
            lines, or a `mcp_sync.trace.Trace`. Default: by the environment variable ``MCP_SYNC_TRACE``.
        name: A name for log messages and threads.

    Raises:
        UsageError: An argument makes no sense.
    """

    _reopen = False
    # The views for its users, once there are any.
    _principals: Optional[Principals]

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
        extensions: Optional[ExtensionsArgument] = None,
        cache: Optional[CacheOptions] = None,
        tracing: TracingArgument = None,
        trace: TraceArgument = None,
        name: Optional[str] = None,
    ) -> None:
        self._check_arguments(transport, timeout, validation)
        check_instance("timeouts", timeouts, Timeouts)
        check_instance("limits", limits, Limits)
        check_instance("retry", retry, Retry)
        if client_info is not None:
            check_instance("client_info", client_info, types.Implementation)
        if log_level is not None:
            check_level(log_level)
        if name is not None:
            check_instance("name", name, str)
        self.name = name or client_name()
        self._timeout = timeout
        self._timeouts = timeouts
        self._validation = validation
        self._tools = ToolIndex()
        self._subscriptions = []
        self._jobs = {}
        self._principals = None
        if isinstance(logging_callback, ToLogging):
            logging_callback = logging_callback.for_client(self.name)
        callbacks = Callbacks(
            sampling_callback, elicitation_callback, list_roots_callback, logging_callback, message_handler
        )
        for field, callback in vars(callbacks).items():
            count = 2 if field in _TAKING_PARAMS else 1
            check_callback(f"the callback for {field.replace('_', ' ')}", callback, count)
        self._limits = limits
        self._engine = build_engine(
            transport,
            weakref.ref(self),
            Settings(self.name, timeouts, limits, retry),
            callbacks,
            _DEFAULT_EXTENSIONS if extensions is None else extensions_of(extensions),
            client_info=client_info,
            log_level=log_level,
            reopen=self._reopen,
        )
        if cache is not None:
            check_instance("cache", cache, CacheOptions)
            with no_fork():
                from ._engine.cache import keep_answers
            keep_answers(self._engine, cache)
        if tracing is not None:
            with no_fork():
                from ._engine.observing import Tracing
                from .tracing import as_observer
            self._engine.plan.tracing = Tracing(as_observer(tracing), transport)
        variable = os.environ.get("MCP_SYNC_TRACE")
        if trace is not None or variable:
            with no_fork():
                from .trace import as_trace
            self._engine.plan.trace = as_trace(trace, variable)

    @staticmethod
    def _check_arguments(transport: Any, timeout: TimeoutArgument, validation: str) -> None:
        if not callable(getattr(transport, "channel", None)):
            raise UsageError(
                "a session needs a transport: what stdio_client() and the like yield in a with statement, or "
                f"a target, not {type(transport).__name__}; Client also takes URLs and commands"
            )
        if timeout is not UNSET:
            check_seconds("timeout", timeout)
        check_validation(validation)

    # --- life cycle ------------------------------------------------------------------------------

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *exc_info: object) -> None:
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
            UsageError: The transport has a ``session_id``, which a `Client` takes up.
        """
        if self._engine.takes_up:
            raise UsageError("session_id names an open session: take it up with Client(..., mode=revision)")
        connection = self._open(lambda: negotiate(LEGACY), timeout)
        if not connection.era.handshake:
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
        if connection.era.handshake:
            raise UsageError("the session was opened with initialize()")
        return types.DiscoverResult.model_validate(connection.era.server)

    def _open(self, negotiation: Optional[Callable[[], Negotiation]], timeout: TimeoutArgument) -> Connection:
        bound = self._timeout if timeout is UNSET else timeout
        # Without a bound of the caller's, that of the opening itself ends the wait: it knows the reason.
        return self._engine.open(deadline_of(None if bound is UNSET else bound), negotiation)

    def close(self, timeout: Optional[float] = None) -> None:
        """Close the session. Idempotent, from any thread, also from a callback.

        Every call in flight fails with `ClientClosed`, and so does every later one. On legacy HTTP the
        session is ended on the server; a server process is ended with all its children.

        Args:
            timeout: Seconds that it may take; default ``Timeouts.close``.

        Raises:
            UsageError: ``timeout`` is no number of seconds. Nothing else.
        """
        check_seconds("timeout", timeout)
        deadline = Deadline(self._timeouts.close if timeout is None else timeout)
        principals = self._principals
        self._engine.end()
        if principals is not None:
            principals.close(deadline)
        self._engine.close(deadline)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._engine.closed

    @property
    def cache(self) -> ResponseCache:
        """The answers that are kept: ``clear(method=None)`` forgets them, ``stats`` counts.

        Raises:
            UsageError: None are kept.
        """
        cache = self._engine.plan.cache
        if cache is None:
            raise UsageError("this client keeps no answers: make it with cache=CacheOptions()")
        return cache

    @property
    def stats(self) -> Stats:
        """What it has done so far, in numbers; a view of ``for_principal`` counts on its own."""
        engine = self._engine
        cache = engine.plan.cache
        return engine.counters.stats(
            engine.router.worker.dropped, engine.in_flight, None if cache is None else cache.stats
        )

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


S = TypeVar("S", bound=ClientSession)

"""`Client`: a session that chooses its transport, opens itself and negotiates the revision."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union, cast

from . import transports, types
from ._concurrency.fork import no_fork
from ._protocol.negotiation import AUTO, check_mode
from ._protocol.versions import HANDSHAKE_VERSIONS
from .errors import UsageError
from .extensions import ExtensionsArgument
from .handlers import (
    ElicitationCallback,
    ListRootsCallback,
    LoggingCallback,
    MessageHandler,
    SamplingCallback,
)
from .options import UNSET, CacheOptions, Limits, Retry, TimeoutArgument, Timeouts
from .session import ClientSession
from .transports._base import Target

if TYPE_CHECKING:
    from .principals import PrincipalView
    from .trace import TraceArgument
    from .tracing import TracingArgument

C = TypeVar("C", bound="Client")

# How long the end of a client may take that could not be opened, in seconds.
_CLOSE_UNOPENED = 0.25


class Client(ClientSession):
    """A blocking client of one MCP server.

    It opens on first use, by ``with`` or by `open`, and opens anew on the next call after its
    connection was lost (calls that were in flight then fail with the cause). Any number of threads may
    share it. Everything else is documented at `ClientSession`.

    Args:
        target: A URL (``http://``, ``https://``, ``ws://``, ``wss://``), a command with its arguments as a
            list, or a target of `mcp_sync.transports`. An HTTP URL means Streamable HTTP, or HTTP with SSE
            where the server speaks nothing else.
        auth: A ``requests`` auth object (with a URL only).
        headers: HTTP headers for every request (with a URL only).
        session: A ``requests.Session`` to use as it is (with an HTTP URL only).
        session_id: Take up a legacy HTTP session instead of opening one (with an HTTP URL only);
            ``mode`` must be a revision with a handshake then.
        mode: ``"auto"`` asks the server for the stateless revision first and falls back to the
            handshake; ``"legacy"`` goes for the handshake at once; a version string pins the revision.

    Example:
        >>> with Client(["python", "server.py"]) as client:
        ...     print(client.call_tool("add", {"a": 1, "b": 2}).structured_content)
    """

    _reopen = True

    def __init__(
        self,
        target: Union[str, list[str], tuple[str, ...], Target],
        *,
        auth: Any = None,
        headers: Optional[Mapping[str, str]] = None,
        mode: str = AUTO,
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
        session: Any = None,
        session_id: Optional[str] = None,
        name: Optional[str] = None,
    ) -> None:
        check_mode(mode)
        given = {"auth": auth, "headers": headers, "session": session, "session_id": session_id}
        super().__init__(
            make_target(target, {key: value for key, value in given.items() if value is not None}),
            timeout=timeout,
            timeouts=timeouts,
            limits=limits,
            client_info=client_info,
            sampling_callback=sampling_callback,
            elicitation_callback=elicitation_callback,
            list_roots_callback=list_roots_callback,
            logging_callback=logging_callback,
            message_handler=message_handler,
            log_level=log_level,
            retry=retry,
            validation=validation,
            extensions=extensions,
            cache=cache,
            tracing=tracing,
            trace=trace,
            name=name,
        )
        self._engine.plan.mode = mode
        if self._engine.takes_up and mode not in HANDSHAKE_VERSIONS:
            known = ", ".join(HANDSHAKE_VERSIONS)
            raise UsageError(f"session_id needs mode= the session's revision: {known}")

    def __enter__(self: C) -> C:
        try:
            return self.open()
        except BaseException:
            # Within the time of the caller, or at Ctrl-C: a stubborn process is killed, not waited for.
            self.close(min(_CLOSE_UNOPENED, self._timeouts.close or _CLOSE_UNOPENED))
            raise

    def open(self: C, *, timeout: TimeoutArgument = UNSET) -> C:
        """Open the connection now instead of on first use. Idempotent; returns the client.

        Args:
            timeout: Seconds; default: that of the client, and at most ``Timeouts.open``.

        Raises:
            ConnectFailed: Nobody there.
            NegotiationFailed: No revision in common.
            CallTimeout: Not within the time.
        """
        self._open(None, timeout)
        return self

    def for_principal(
        self, key: str, auth: Any = None, headers: Optional[Mapping[str, str]] = None
    ) -> PrincipalView:
        """Return a view of this client for one of its users: a `Client` with credentials of its own.

        It is cheap, so make one for each request of a web application. All views and the client share
        connections to the server, settings and callbacks, and what was found out about the server; over HTTP
        they never share credentials, cookies, sessions, or answers in a cache that are for one user. On the
        stateless revision a view opens without a request and without a thread; on older ones it opens a
        session of its own.

        Over WebSocket a view with ``auth`` or ``headers`` opens a connection of its own. Otherwise, as with
        server processes and servers in memory, it uses that of the client, whose server cannot tell the users
        apart; the cache, envelopes and handles of tasks still do.

        To close a view harms nobody; to close the client closes its views.

        Args:
            key: Who it is: a name that means the same user everywhere, such as the primary key.
            auth: The user's credentials, as for the client: ``BearerToken(...)``, or
                ``oauth.for_principal(key)``. A view never uses those of the client, nor ``.netrc``.
            headers: The user's headers. Of those of the client only ``User-Agent`` and ``Accept-Language`` go
                with the calls of a view: any other could be a credential. Name here what it needs.

        Raises:
            UsageError: There is no place for credentials, or the client has a ``requests.Session``, with one
                jar of cookies for all.
            ClientClosed: It is closed.

        Example:
            >>> mcp = Client("https://example.com/mcp")
            >>> def view(request):
            ...     auth = BearerToken(request.user.token)
            ...     with mcp.for_principal(str(request.user.pk), auth=auth) as client:
            ...         return client.call_tool("inbox").text
        """
        with no_fork():
            from .principals import view_for
        return view_for(self, key, auth, headers)


def make_target(target: Any, http: Mapping[str, Any]) -> Target:
    """Turn what a user may pass as target into one.

    Args:
        target: A URL, a command, or a target.
        http: Options that belong to a URL.

    Raises:
        UsageError: It is none of these, or has options that do not belong to it.
    """
    if isinstance(target, str):
        if target.lower().startswith(("http://", "https://")):
            with no_fork():
                from .transports._url import ServerURL
            return ServerURL(target, **http)
        if target.lower().startswith(("ws://", "wss://")):
            return _websocket(target, http)
    elif http:
        raise UsageError(f"{', '.join(http)} belong to a URL; with a target, set them there")
    elif _is_command(target):
        return transports.Stdio(target[0], tuple(target[1:]))
    elif callable(getattr(target, "channel", None)):
        return cast("Target", target)
    elif callable(getattr(target, "handle", None)):
        raise UsageError(f"a server in this process is reached by InMemory({type(target).__name__}(...))")
    raise UsageError(
        'a target is a URL ("https://host/mcp"), a command as a list (["python", "server.py"]) or an object '
        f"of mcp_sync.transports, not {_kind_of(target)}"
    )


def _kind_of(target: Any) -> str:
    """Say what was passed, without its content: it may hold a secret, wherever it stands."""
    if isinstance(target, str):
        return "another string (a command goes into a list, and a URL has no space before it)"
    if isinstance(target, (list, tuple)) and target:
        return "one with other things than strings in it"
    return f"a {type(target).__name__}" if target or target is None else f"an empty {type(target).__name__}"


def _websocket(url: str, options: Mapping[str, Any]) -> Target:
    for name in ("session", "session_id"):
        if name in options:
            raise UsageError(f"{name} belongs to an HTTP URL, and means nothing to a WebSocket")
    return transports.WebSocket(url, **options)


def _is_command(target: Any) -> bool:
    parts = isinstance(target, (list, tuple)) and target
    return bool(parts) and all(isinstance(part, (str, os.PathLike)) for part in target)

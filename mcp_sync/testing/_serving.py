"""The ways in which a fake server can be reached from outside of the process."""

from __future__ import annotations

from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, Literal, Optional, cast

if TYPE_CHECKING:
    import ssl

    from ._faults import FaultPlan
    from ._http import HTTPEndpoint, Intercept
    from ._server import FakeServer


class Serving:
    """What `FakeServer` inherits: one method for each transport."""

    def serve_stdio(
        self,
        stdin: Optional[IO[bytes]] = None,
        stdout: Optional[IO[bytes]] = None,
        *,
        faults: Optional[FaultPlan] = None,
    ) -> None:
        """Serve one client over standard input and output (or two other streams) until the input ends.

        Requests are answered at the same time, each by a thread of its own. To end earlier, raise from a
        signal handler. With the standard streams, ``print`` writes to standard error meanwhile.

        Args:
            stdin: Where to read, default: standard input.
            stdout: Where to write, default: standard output.
            faults: What is to go wrong.
        """
        from ._stdio import serve_lines, serve_standard_streams

        _check_plan(faults)
        if stdin is None or stdout is None:
            serve_standard_streams(cast("FakeServer", self), faults)
        else:
            serve_lines(cast("FakeServer", self), stdin, stdout, faults)

    def serve_http(
        self,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        path: str = "/mcp",
        answers: Literal["json", "sse"] = "json",
        sessions: bool = True,
        get_stream: bool = True,
        event_ids: bool = False,
        check_headers: bool = True,
        intercept: Optional[Intercept] = None,
        faults: Optional[FaultPlan] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> HTTPEndpoint:
        """Serve any number of clients over Streamable HTTP until the returned endpoint is closed.

        ::

            with server.serve_http() as endpoint, Client(endpoint.url) as client:
                ...

        Args:
            port: The port, 0 for a free one. What clients of this process remember of a server that had it
                before is forgotten then.
            host: The address to listen at.
            path: The path of the endpoint.
            answers: ``"json"``, or ``"sse"`` to answer every request with an event stream. Anything that
                is sent before a response makes its answer an event stream in either case.
            sessions: Whether ``initialize`` hands out an ``Mcp-Session-Id``.
            get_stream: Whether the standalone GET stream is offered.
            event_ids: Whether events of the handshake era carry ids, and broken streams can be taken up.
            check_headers: Whether the headers of stateless requests are compared with their bodies.
            intercept: Sees each HTTP request first, and may answer it.
            faults: What is to go wrong.
            ssl_context: Serve HTTPS with it.
        """
        from ._http_handler import StreamableHandler

        return self._listen(
            StreamableHandler,
            (host, port),
            path,
            intercept=intercept,
            faults=faults,
            ssl_context=ssl_context,
            answers=answers,
            sessions=sessions,
            get_stream=get_stream,
            event_ids=event_ids,
            check_headers=check_headers,
        )

    def serve_sse(
        self,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        path: str = "/sse",
        intercept: Optional[Intercept] = None,
        faults: Optional[FaultPlan] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> HTTPEndpoint:
        """Serve any number of clients over HTTP+SSE, as the first revision has it; see `serve_http`."""
        from ._http_sse import SSEHandler

        return self._listen(
            SSEHandler, (host, port), path, intercept=intercept, faults=faults, ssl_context=ssl_context
        )

    def serve_websocket(
        self,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        path: str = "/ws",
        intercept: Optional[Intercept] = None,
        faults: Optional[FaultPlan] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> HTTPEndpoint:
        """Serve any number of clients over WebSocket, with the subprotocol ``mcp``; see `serve_http`."""
        from ._http_websocket import WebSocketHandler

        endpoint = self._listen(
            WebSocketHandler, (host, port), path, intercept=intercept, faults=faults, ssl_context=ssl_context
        )
        endpoint.url = f"ws{endpoint.url[len('http') :]}"
        return endpoint

    def _listen(self, handler: Any, address: tuple[str, int], path: str, **options: Any) -> HTTPEndpoint:
        from ._http import HTTPEndpoint

        _check_plan(options["faults"])
        endpoint = HTTPEndpoint(cast("FakeServer", self), handler, address, path, **options)
        if address[1] == 0:
            _forget_predecessors(endpoint.url)
        return endpoint


def _check_plan(faults: Any) -> None:
    if faults is not None and not callable(getattr(faults, "meet", None)):
        example = 'FaultPlan({"tools/call": [Fault.drop()]})'
        raise TypeError(f"faults must be a FaultPlan, as in {example}, not {faults!r:.80}")


def _forget_predecessors(url: str) -> None:
    """Drop what clients of this process have found out about servers that had this port before."""
    from .._engine import known_servers
    from ..errors import UsageError
    from ..transports._url import ServerURL
    from ..transports._websocket.target import WebSocket

    with suppress(UsageError):  # No client takes that URL.
        known_servers.forget(ServerURL(url).identity())
        known_servers.forget(WebSocket(f"ws{url[len('http') :]}").identity())

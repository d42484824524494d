"""Context managers that open a transport, as the official SDK has them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Optional

from .._concurrency.deadline import Deadline
from .._concurrency.fork import no_fork
from ..errors import UsageError
from ._base import Channel, Settings, Target


class OpenedTransport:
    """A target for a `ClientSession`; ends its connection when the ``with`` block ends.

    The connection itself is made when the session is initialized. Each further session gets another one.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._channels: list[tuple[Channel, Optional[float]]] = []
        self._closed = False

    def __repr__(self) -> str:
        return repr(self._target)

    if not TYPE_CHECKING:  # What checks types knows already that it cannot be unpacked.

        def __iter__(self) -> NoReturn:
            raise UsageError(
                "there are no streams to unpack: write `as transport`, and ClientSession(transport)"
            )

    def identity(self) -> Hashable:
        """See `Target.identity`."""
        return self._target.identity()

    @property
    def session_id(self) -> Optional[str]:
        """See `Target`."""
        return getattr(self._target, "session_id", None)

    @property
    def handshake_first(self) -> bool:
        """See `Target`."""
        return getattr(self._target, "handshake_first", False)

    def channel(self, settings: Settings) -> Channel:
        """See `Target.channel`.

        Raises:
            UsageError: The ``with`` block has ended.
        """
        if self._closed:
            raise UsageError("the transport was closed: its with block has ended")
        channel = self._target.channel(settings)
        self._channels.append((channel, settings.timeouts.close))
        return channel

    def close(self) -> None:
        """End the connections, and refuse another one."""
        self._closed = True
        for channel, seconds in self._channels:
            channel.close(Deadline(seconds))


@contextmanager
def _opened(target: Target) -> Iterator[OpenedTransport]:
    transport = OpenedTransport(target)
    try:
        yield transport
    finally:
        transport.close()


@contextmanager
def streamablehttp_client(url: str, **options: Any) -> Iterator[OpenedTransport]:
    """Open Streamable HTTP, with the arguments of `StreamableHTTP`."""
    with no_fork():
        from ._http.target import StreamableHTTP
    with _opened(StreamableHTTP(url, **options)) as transport:
        yield transport


@contextmanager
def sse_client(url: str, **options: Any) -> Iterator[OpenedTransport]:
    """Open HTTP with SSE, the transport of revision 2024-11-05, with the arguments of `LegacySSE`."""
    with no_fork():
        from ._legacy_sse.target import LegacySSE
    with _opened(LegacySSE(url, **options)) as transport:
        yield transport


@contextmanager
def stdio_client(command: Any, *arguments: Any, **options: Any) -> Iterator[OpenedTransport]:
    """Open a server process, with the arguments of `Stdio`, or a `Stdio` itself."""
    with no_fork():
        from ._stdio.target import Stdio
    target = command if isinstance(command, Stdio) else Stdio(command, *arguments, **options)
    with _opened(target) as transport:
        yield transport


@contextmanager
def websocket_client(url: str, **options: Any) -> Iterator[OpenedTransport]:
    """Open a WebSocket, with the arguments of `WebSocket`."""
    with no_fork():
        from ._websocket.target import WebSocket
    with _opened(WebSocket(url, **options)) as transport:
        yield transport

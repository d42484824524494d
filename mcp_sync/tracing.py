"""Watching the calls of a client from outside: ``Client(..., tracing=...)``.

What is passed there is an `Observer`, such as `mcp_sync.otel.OpenTelemetry`, or a plain function that returns
the trace context of the moment, for servers to take up (``_meta`` of the request, SEP-414):

>>> client = Client(url, tracing=lambda: {"traceparent": my_tracer.current_traceparent()})
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Protocol, Union

from .errors import UsageError


@dataclass(frozen=True)
class Peer:
    """Where a server is, as far as it is known.

    Attributes:
        transport: ``"tcp"``, ``"pipe"``, or empty for a server in memory.
        protocol: ``"http"``, ``"websocket"`` or empty.
        address: The host name or address, empty if there is none.
        port: The port.
    """

    transport: str = ""
    protocol: str = ""
    address: str = ""
    port: Optional[int] = None


@dataclass
class ObservedCall:
    """A call that an `Observer` is told of.

    Attributes:
        client: The name of the client.
        method: The method, such as ``"tools/call"``.
        name: The tool or the prompt, else empty.
        uri: The URI of the resource, else empty.
        params: The params of the request. Not to be changed.
        peer: Where the server is.
        principal: The user, for a view of ``client.for_principal``.
        meta: What an observer puts in here is sent in ``_meta``, unless the caller has set it.
        request_id: The id of the request that was sent last; ``None`` before.
        sent: How many requests it took so far: several where some were repeated, or input was asked for.
        protocol_version: The revision that was spoken, empty before.
        session_id: The session that it was sent in, if there are sessions.
    """

    client: str
    method: str
    name: str
    uri: str
    params: Mapping[str, Any] = field(repr=False)
    peer: Peer
    principal: Optional[str] = None
    meta: dict[str, Any] = field(default_factory=dict)
    request_id: Optional[int] = None
    sent: int = 0
    protocol_version: str = ""
    session_id: Optional[str] = None

    def sending(self, request_id: int) -> None:
        """Note the id of a request that is about to be sent."""
        self.request_id = request_id
        self.sent += 1


class Observer(Protocol):
    """Is told when calls begin and end. What it raises is logged and harms no call.

    Both are called on the thread that makes the call. What a subscription waits for counts as no call, nor do
    answers from the cache, and the opening of a connection.
    """

    def begin(self, call: ObservedCall) -> Any:
        """Note that a call begins; what this returns is handed to `end`."""

    def end(
        self,
        call: ObservedCall,
        begun: Any,
        result: Optional[Mapping[str, Any]],
        error: Optional[BaseException],
    ) -> None:
        """Note that it has ended.

        Args:
            call: The call.
            begun: What `begin` returned.
            result: The result as it came; ``None`` after an error.
            error: Why there is none.
        """


class ContextProvider:
    """An observer that only adds a trace context to requests.

    Args:
        context: Returns it; ``None`` and empty for none.
    """

    def __init__(self, context: Callable[[], Optional[Mapping[str, Any]]]) -> None:
        self._context = context

    def begin(self, call: ObservedCall) -> None:
        """Add it."""
        call.meta.update(self._context() or {})

    def end(
        self,
        call: ObservedCall,
        begun: Any,
        result: Optional[Mapping[str, Any]],
        error: Optional[BaseException],
    ) -> None:
        """Do nothing."""


TracingArgument = Union[Observer, Callable[[], Optional[Mapping[str, Any]]], None]


def as_observer(tracing: Any) -> Observer:
    """Return what a user has passed as ``tracing`` as an observer.

    Raises:
        UsageError: It is none.
    """
    if not isinstance(tracing, type):
        if callable(getattr(tracing, "begin", None)) and callable(getattr(tracing, "end", None)):
            observer: Observer = tracing
            return observer
        if callable(tracing):
            return ContextProvider(tracing)
    raise UsageError(
        "tracing must be an observer with begin and end, such as mcp_sync.otel.OpenTelemetry(), or a "
        f"function that returns a mapping for _meta, not {tracing!r:.100}"
    )

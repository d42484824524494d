"""The event stream of the server, and the thread that reads it."""

from __future__ import annotations

import logging
import socket
import threading
import weakref
from typing import Union
from urllib.parse import quote, urldefrag, urljoin, urlsplit, urlunsplit

from ..._concurrency.deadline import Deadline
from ..._concurrency.threads import spawn
from ..._protocol.urls import origin
from ...errors import ConnectFailed, ConnectionLost, MCPError, ProtocolError
from .._duplex import Intake
from .._event_stream import EventStream
from .._http.errors import root_of, translated
from .._http.exchange import Exchange
from .._http.reply import Reply

logger = logging.getLogger("mcp_sync.transports.http")

# What may stand in a URL, with the percent signs that are there already.
_URL_CHARACTERS = "!#$%&'()*+,/:;=?@[]~"


class ServerStream:
    """Everything that the server sends, and where it wants to be sent to.

    The thread that opens it reads up to the first ``endpoint`` event, a thread of its own all the rest. It
    knows the channel's `Intake` only weakly: a channel that nobody uses any more must not be kept alive.

    Args:
        reply: The response to the GET.
        url: Where that came from, redirects done.
        exchange: The exchange of the GET.
        peer: How the server is named.
        limit: The most bytes that an event may have.

    Attributes:
        endpoint: Where messages are sent to, ``""`` until the server has said it.
        threads: The reading thread, once it runs.
    """

    def __init__(self, reply: Reply, url: str, exchange: Exchange, peer: str, limit: int) -> None:
        self._reply = reply
        self._url = url
        self._exchange = exchange
        self._peer = peer
        self._events = EventStream(iter(reply.read1, b""), limit, ("message", "endpoint"))
        self._data = iter(self._events)
        self.endpoint = ""
        self.threads: list[threading.Thread] = []

    def await_endpoint(self, intake: Intake) -> None:
        """Read until the server has named its endpoint, within the bounds of the exchange.

        Raises:
            ConnectFailed: The stream ended without.
            ProtocolError: The endpoint is on another server.
        """
        for data in self._data:
            self._take(data, intake)
            if self.endpoint:
                return
            # What is at hand is read even then, and a server may never stop to send comments.
            if self._exchange.deadline.expired:
                raise socket.timeout("no endpoint in time")
        junk = self._events.junk.decode("utf-8", "replace")
        text = f"the event stream of {self._peer} ended before it named an endpoint"
        raise ConnectFailed(f"{text}; it held {junk!r}" if junk else text)

    def start(self, owner: str, intake: Intake) -> None:
        """Read on, without a bound, on a thread of its own.

        Raises:
            ConnectFailed: There is no thread to be had.
        """
        unbound = Deadline(None)
        self._exchange.deadline = unbound
        self._reply.hurry(unbound)
        try:
            self.threads.append(spawn(owner, "reader", self._run, weakref.ref(intake)))
        except RuntimeError as error:
            raise ConnectFailed(f"there is no thread to be had for {self._peer}: {error}") from error

    def stop(self) -> None:
        """Have the thread end. From any thread; does not block."""
        self._exchange.abort()

    def close(self) -> None:
        """Close the connection. Only for the thread that reads."""
        self._reply.close()

    def abandon(self) -> None:
        """In a forked child, where the thread does not exist: close the inherited socket."""
        self._exchange.drop()

    # --- on the reading thread -------------------------------------------------------------------

    def _run(self, intake: weakref.ref[Intake]) -> None:
        try:
            fault = self._read(intake)
        finally:
            self.close()
        receiver = intake()
        if receiver is not None and not self._exchange.aborted:
            receiver.lose(fault)
        # Frames of the fault may know this one.
        del receiver, fault

    def _read(self, intake: weakref.ref[Intake]) -> MCPError:
        """Read to the end; return why that is the end."""
        try:
            for data in self._data:
                receiver = intake()
                if receiver is None:
                    break
                self._take(data, receiver)
                # While this waits for the next event, it must not hold on to these.
                del receiver, data
        except Exception as error:
            return self._loss(error)
        return ConnectionLost(f"{self._peer} ended its event stream")

    def _loss(self, error: Exception) -> MCPError:
        # Its frames would keep the client alive.
        fault = translated(error.with_traceback(None), self._exchange, "GET", self._peer)
        if fault is error and not isinstance(error, MCPError):
            logger.error("The stream of %s cannot be read any more", self._peer, exc_info=error)
            fault = ConnectionLost(f"the event stream of {self._peer} cannot be read any more")
        if fault is not error:
            root = root_of(error)
            fault.__cause__ = root and root.with_traceback(None)
        assert isinstance(fault, MCPError)
        return fault

    # --- on either -------------------------------------------------------------------------------

    def _take(self, data: Union[str, bytes], intake: Intake) -> None:
        if not data:
            return
        if self._events.kind == "message":
            intake.deliver(data if isinstance(data, bytes) else data.encode())
        else:
            text = data if isinstance(data, str) else data.decode("utf-8", "replace")
            self.endpoint = resolved(self._url, text, self._peer)


def resolved(url: str, reference: str, peer: str) -> str:
    """Return the endpoint that a server names, relative to its stream (RFC 3986 section 5).

    Args:
        url: Where the stream came from.
        reference: The data of the event.
        peer: How the server is named.

    Raises:
        ProtocolError: It is no URL, or one of another origin, which must not get what is meant for this one.
    """
    try:
        target = urldefrag(urljoin(url, quote(reference.strip(), safe=_URL_CHARACTERS))).url
        here, there = origin(url), origin(target)
    except ValueError as error:
        raise ProtocolError(f"{peer} named an endpoint that is no URL") from error
    if here != there:
        raise ProtocolError(
            f"{peer} named an endpoint at {_shown(there)}, another origin than its own, {_shown(here)}: "
            "messages would go to another server"
        )
    parts = urlsplit(target)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _shown(place: tuple[str, str, object]) -> str:
    scheme, host, port = place
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}" if port is None else f"{scheme}://{name}:{port}"

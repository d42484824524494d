"""The ordinary path: through a session that the user brought, or a response that a hook brought."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Mapping
from typing import Any, Optional

import requests

from ..._concurrency.deadline import Deadline
from .exchange import Exchange
from .inflating import CHUNK, Inflater
from .reply import is_authorized, joined, secrets_in

# How long the end of a body is waited for whose answer has come, so that its connection can be kept.
_DRAIN_SECONDS = 0.05


class SessionReply:
    """Reads a `requests.Response` of whatever origin.

    urllib3's own reading waits for more than has arrived, in ways that differ from version to version. So
    this reads from the http.client response below it, where there is one.
    """

    def __init__(self, response: requests.Response, exchange: Exchange) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.url = response.url
        self._response: Any = response
        self._request = response.request
        self._deadline = exchange.deadline
        self._exchange: Optional[Exchange] = exchange
        self._source = getattr(response.raw, "_fp", None)
        self._sock: Any = _socket_of(response.raw)
        coding = (response.headers.get("content-encoding") or "").lower()
        self._inflate = Inflater(coding) if coding in Inflater.CODINGS else None
        self._chunks: Any = None
        is_plain = not coding or coding == "identity" or self._inflate is not None
        if response._content_consumed or not is_plain or not hasattr(self._source, "read1"):  # type: ignore[attr-defined]
            self._chunks, self._inflate = response.iter_content(CHUNK), None

    def publish(self) -> None:
        """Have the exchange know the socket."""
        if self._sock is not None and self._exchange is not None:
            self._exchange.publish(self._sock)

    def is_authorized(self) -> bool:
        """Whether the request carried credentials."""
        return self._response is not None and is_authorized(self._response)

    def secrets(self) -> list[str]:
        """Return what was secret of the request."""
        return secrets_in(self._request)

    def read1(self) -> bytes:
        """Return what is at hand, or wait for some of it; ``b""`` at the end."""
        if self._chunks is not None:
            self._check()
            return next(self._chunks, b"")
        return self._read() if self._inflate is None else self._inflate.next(self._read, self._check)

    def _check(self) -> None:
        if self._exchange is not None:
            self._exchange.check(self._deadline)

    def _read(self) -> bytes:
        self._arm()
        source: Any = self._source
        data = bytes(source.read1(CHUNK))
        left = getattr(source, "length", None)
        if not data and left:
            raise http.client.IncompleteRead(b"", left)
        return data

    def _arm(self) -> None:
        if self._sock is not None:
            left = self._deadline.remaining()
            if left == 0.0:  # What is at hand would be read in any case, and some peers never stop to send.
                raise socket.timeout("the deadline has passed")
            self._sock.settimeout(left)

    def read(self, limit: int) -> bytes:
        """Return the whole body, of at most ``limit`` bytes."""
        return joined(iter(self.read1, b""), limit)

    def hurry(self, deadline: Deadline) -> None:
        """Bound what is still to be read by another deadline."""
        self._deadline = deadline

    def release(self) -> None:
        """Give the connection back if the body ends soon, else close it."""
        if self._exchange is None:
            return
        if self._chunks is None and not self._at_end():
            self.close()
            return
        exchange = self._exchange
        if self._sock is None or exchange.withdraw(self._sock):
            release = getattr(self._response.raw, "release_conn", None)
            if release is not None:
                release()
        self.close()

    def _at_end(self) -> bool:
        self._deadline = Deadline(_DRAIN_SECONDS)
        try:
            source: Any = self._source
            while not source.isclosed() and source.length != 0:
                if not self._read():
                    break
            source.close()
        except Exception:
            return False
        return True

    def close(self) -> None:
        """Close the connection."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.withdraw(self._sock)
            self._response.close()
            # An error that keeps this alive must not keep the connection of the user's session.
            self._response = self._source = self._sock = self._chunks = None


def _socket_of(raw: Any) -> Any:
    """Dig the socket out of urllib3's response, where there is one."""
    for path in (("_connection", "sock"), ("_fp", "fp", "raw", "_sock")):
        item = raw
        for name in path:
            item = getattr(item, name, None)
        if hasattr(item, "settimeout"):
            return item
    return None


def send_through(
    session: requests.Session,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: Optional[bytes],
    exchange: Exchange,
    options: Mapping[str, Any],
) -> SessionReply:
    """Send a request through a user's session, which is used as it is.

    Its read timeout bounds each wait for the head of the response; that the head comes drop by drop, or
    that another thread ends the exchange, is noticed only after that.
    """
    left = exchange.deadline.remaining()
    connect = exchange.connect if left is None else min(left, exchange.connect or left)
    exchange.session = True
    exchange.mark_sent()
    response = session.request(
        method,
        url,
        data=body,
        headers=dict(headers),
        timeout=(_positive(connect), _positive(left)),
        allow_redirects=False,
        stream=True,
        **options,
    )
    return reply_of(response, exchange)


def reply_of(response: requests.Response, exchange: Exchange) -> SessionReply:
    """Make a reply of any response, whose socket belongs to the exchange from now on."""
    try:
        reply = SessionReply(response, exchange)
        reply.publish()
    except BaseException:
        response.close()
        raise
    return reply


def _positive(seconds: Optional[float]) -> Optional[float]:
    return None if seconds is None else max(seconds, 0.001)

"""The handshake: a GET that changes the connection to WebSocket (RFC 6455, section 4).

It is sent as `_http` sends requests, with authorization, proxies, TLS, redirects within the origin, and a
deadline for all of it together.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from ..._protocol.urls import public_url
from ...errors import CallTimeout, ConnectFailed, ConnectionLost, HTTPStatusError, TransportError
from .._http.errors import translated
from .._http.exchange import Exchange
from .._http.reply import DirectReply
from .._http.responses import ResponseReader
from .._http.senders import DirectSender
from .target import WebSocket

SUBPROTOCOL = "mcp"
_DOING = "WebSocket handshake"
_VERSION = "13"
_SWITCHING_PROTOCOLS = 101
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Handshake:
    """Opens a connection.

    Args:
        target: Where to.

    Attributes:
        secrets: What was secret of the handshake, once the connection stands.

    Raises:
        UsageError: The host cannot be one.
    """

    def __init__(self, target: WebSocket) -> None:
        self._sender = DirectSender(target.as_http(), upgrading=True)
        self._peer = public_url(target.url)
        self.secrets: list[str] = []

    def shake(self, exchange: Exchange, reader: ResponseReader) -> tuple[Any, bytes]:
        """Connect and agree on WebSocket.

        Args:
            exchange: What bounds it.
            reader: Reads what the server says where it refuses.

        Returns:
            The socket, and what has been read of the first messages already.

        Raises:
            HTTPStatusError: The server does not change to WebSocket.
            ConnectFailed: There is no connection, or it is not one for MCP.
            CallTimeout: Not within the deadline.
        """
        try:
            return self._shake(exchange, reader)
        except Exception as error:
            fault = _fault(error, exchange, self._peer)
            if fault is error:
                raise
            raise fault from error
        finally:
            self._sender.close()

    def _shake(self, exchange: Exchange, reader: ResponseReader) -> tuple[Any, bytes]:
        key = base64.b64encode(os.urandom(16)).decode("ascii")
        headers = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": _VERSION,
            "Sec-WebSocket-Key": key,
            "Sec-WebSocket-Protocol": SUBPROTOCOL,
        }
        with closing(self._sender.send("GET", headers, None, exchange, _DOING)) as reply:
            if reply.status != _SWITCHING_PROTOCOLS:
                reader.reject(reply, exchange, _DOING)
            problem = _problem(reply.headers, key)
            if not problem and isinstance(reply, DirectReply):
                self.secrets = reply.secrets()
                return reply.detach()
            problem = problem or "a hook of auth= has taken the connection"
            raise ConnectFailed(f"{_DOING}: {self._peer} cannot be used: {problem}")

    def abandon(self) -> None:
        """In a forked child: drop what was inherited."""
        self._sender.abandon()


def _problem(headers: Mapping[str, str], key: str) -> str:
    """Say what is wrong with an answer that changes the protocol, ``""`` if nothing is."""
    tokens = [token.strip().lower() for token in headers.get("connection", "").split(",")]
    if headers.get("upgrade", "").strip().lower() != "websocket" or "upgrade" not in tokens:
        return "it changed to another protocol than WebSocket"
    digest = hashlib.sha1((key + _GUID).encode("ascii"), usedforsecurity=False).digest()
    if headers.get("sec-websocket-accept", "").strip() != base64.b64encode(digest).decode("ascii"):
        return "its Sec-WebSocket-Accept is missing or does not belong to this handshake"
    if headers.get("sec-websocket-extensions", "").strip():
        return "it chose an extension that was not offered"
    chosen = headers.get("sec-websocket-protocol", "").strip()
    if chosen != SUBPROTOCOL:
        what = f"it chose the subprotocol {chosen[:40]!r}" if chosen else "it chose no subprotocol"
        return f"{what}, where {SUBPROTOCOL!r} was offered; is it a server for MCP?"
    return ""


def _fault(error: Exception, exchange: Exchange, peer: str) -> Exception:
    """Say in our terms why there is no connection: no request has been sent, whatever happened."""
    fault = translated(error, exchange, _DOING, peer)
    if isinstance(fault, ConnectionLost):
        return ConnectFailed(str(fault))
    if isinstance(fault, HTTPStatusError):
        _show_as_given(fault)
    if isinstance(fault, (TransportError, CallTimeout)):
        fault.request_sent = False
    return fault


def _show_as_given(fault: HTTPStatusError) -> None:
    """Have a refusal name its URL with the scheme that users write, not with that of the request."""
    sent = fault.url
    fault.url = "ws" + sent[len("http") :]
    text = str(fault).replace(f"{_DOING}: {sent}", f"{_DOING}: {fault.url}", 1)
    fault.args = (text, *fault.args[1:])

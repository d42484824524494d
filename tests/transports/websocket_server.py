"""The server's side of a WebSocket in scripts, byte by byte, and what the tests of the channel share."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable, Optional, Union

from http_server import PATIENCE, ScriptedServer, Turn
from stdio_support import Recorder, Running, settings

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.options import Limits
from mcp_sync.transports import WebSocket

__all__ = ["PATIENCE", "Peer", "ScriptedServer", "Turn", "at", "connected", "frame", "hang", "serving"]

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(payload: bytes, opcode: int = TEXT, final: bool = True) -> bytes:
    """Build a frame as servers send it."""
    first, length = (0x80 if final else 0) | opcode, len(payload)
    if length < 126:
        return struct.pack("!BB", first, length) + payload
    if length < 1 << 16:
        return struct.pack("!BBH", first, 126, length) + payload
    return struct.pack("!BBQ", first, 127, length) + payload


class Peer:
    """A server that has got the request of a handshake."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.sock = turn.sock
        self.headers = turn.headers
        self._source = self.sock.makefile("rb")

    def shake(self, behind: bytes = b"", **fields: Optional[str]) -> None:
        """Agree to WebSocket; the fields replace those of the answer, ``None`` leaves one out.

        ``behind`` leaves in the same piece.
        """
        digest = hashlib.sha1((self.headers["sec-websocket-key"] + GUID).encode()).digest()
        usual = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": base64.b64encode(digest).decode(),
            "Sec-WebSocket-Protocol": "mcp",
        }
        given = {name.replace("_", "-"): value for name, value in fields.items()}
        answer = {name: value for name, value in {**usual, **given}.items() if value is not None}
        self.turn.head_and(answer, behind, 101)

    def shake_and_stall(self, go_on: threading.Event) -> None:
        """Shake hands, and read nothing before the test goes on; what is on the way is little."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        self.shake()
        self.turn.wait(go_on)

    def read(self) -> tuple[int, bytes]:
        """Read a frame, which must be masked: its opcode and what it carries."""
        head = self._source.read(2)
        if len(head) < 2:
            raise ConnectionError("the client has gone")
        assert head[0] & 0xF0 == 0x80, "the client sends whole messages"
        assert head[1] & 0x80, "the frames of clients are masked"
        length = head[1] & 0x7F
        if length >= 126:
            length = int.from_bytes(self._source.read(2 if length == 126 else 8), "big")
        mask = self._source.read(4)
        masked = self._source.read(length)
        if len(masked) < length:
            raise ConnectionError("the client has gone")
        repeated = (mask * (length // 4 + 1))[:length]
        number = int.from_bytes(masked, "big") ^ int.from_bytes(repeated, "big")
        return head[0] & 0x0F, number.to_bytes(length, "big")

    def message(self) -> Any:
        """Read a message."""
        opcode, payload = self.read()
        assert opcode == TEXT, (opcode, payload)
        return json.loads(payload)

    def write(self, data: bytes) -> None:
        """Send raw bytes."""
        self.sock.sendall(data)

    def send(self, value: Any, opcode: int = TEXT) -> None:
        """Send a message."""
        self.write(frame(json.dumps(value).encode(), opcode))

    def answer(self, message: Any, result: Any = None) -> None:
        """Answer a request with its own params, unless told otherwise."""
        result = message.get("params") if result is None else result
        self.send({"jsonrpc": "2.0", "id": message["id"], "result": result or {}})

    def close(self, code: Optional[int] = None, reason: str = "") -> None:
        """Send a close frame."""
        payload = b"" if code is None else struct.pack("!H", code) + reason.encode()
        self.write(frame(payload, CLOSE))

    def serve(self) -> None:
        """Answer what comes, until the client closes."""
        while True:
            opcode, payload = self.read()
            if opcode == CLOSE:
                self.write(frame(payload, CLOSE))
                return
            if opcode == PING:
                self.write(frame(payload, PONG))
            elif opcode == TEXT:
                message = json.loads(payload)
                if "id" in message and "method" in message:
                    self.answer(message)

    def wait_for_end(self) -> bytes:
        """Read until the client ends the connection; return the last bytes."""
        self.sock.settimeout(PATIENCE)
        rest = b""
        try:
            while data := self.sock.recv(65536):
                rest = data
        except ConnectionError:
            pass
        return rest

    def end(self) -> None:
        """Let the reader of the socket go."""
        self._source.close()


Script = Callable[[Peer], None]


def hang(peer: Peer) -> None:
    """Shake hands, and do nothing until the client ends the connection."""
    peer.shake()
    peer.wait_for_end()


@contextmanager
def at(script: Script, tls: Optional[ssl.SSLContext] = None) -> Iterator[ScriptedServer]:
    """Serve each connection by a script, and end it afterwards."""

    def run(turn: Turn) -> None:
        peer = Peer(turn)
        try:
            script(peer)
        finally:
            peer.end()
        turn.close()

    with ScriptedServer(run, tls) as server:
        server.url = server.url.replace("http", "ws", 1)
        yield server


@contextmanager
def connected(url: str, limits: Optional[Limits] = None, **options: Any) -> Iterator[Running]:
    """Connect a channel; close it in the end."""
    channel: Any = WebSocket(url, **options).channel(settings(limits))
    inbound = Recorder()
    try:
        channel.start(inbound, Deadline(PATIENCE))
        yield Running(channel, inbound)
    finally:
        channel.close(Deadline(PATIENCE))


@contextmanager
def serving(script: Script, limits: Optional[Limits] = None, **options: Any) -> Iterator[Running]:
    """Run a script for one channel, and connect that."""
    with at(script) as server, connected(server.url, limits, **options) as running:
        yield running


def fragments(payload: Union[str, bytes], *cuts: int) -> list[bytes]:
    """Cut a message into frames."""
    data = payload.encode() if isinstance(payload, str) else payload
    bounds = [0, *cuts, len(data)]
    parts = [data[start:end] for start, end in zip(bounds, bounds[1:])]
    last = len(parts) - 1
    return [frame(part, CONTINUATION if n else TEXT, n == last) for n, part in enumerate(parts)]


def refuse_connections() -> tuple[socket.socket, int]:
    """Return a bound port that nobody listens on, with the socket that holds it."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock, sock.getsockname()[1]

"""The fake server on WebSocket: one message per text frame."""

from __future__ import annotations

import base64
import hashlib
import struct
import threading
from typing import BinaryIO, Optional, cast

from ._http_answers import Answering
from ._http_faults import HTTPLine
from ._pump import Pump
from ._rpc import Message, encode

SUBPROTOCOL = "mcp"

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUATION, _TEXT, _CLOSE, _PING = 0x0, 0x1, 0x8, 0x9
_PONG = 0xA
_CONTROL = 0x8


class WebSocketHandler(Answering):
    """Serves one client for as long as its connection stands."""

    def do_GET(self) -> None:
        """Change to the WebSocket protocol and take messages until the client closes."""
        request = self.admitted(self.endpoint.path)
        if request is None:
            return
        key = request.headers.get("sec-websocket-key")
        if request.headers.get("upgrade", "").lower() != "websocket" or key is None:
            self.reply(426, {"Upgrade": "websocket", "Connection": "Upgrade"})
            return
        self.close_connection = True
        self.wfile.write(self.head(101, self._agreement(key, request.headers)))
        self._line = _FrameLine(self)
        pump = Pump(self.endpoint.server, self._line, self.endpoint.faults)
        try:
            for data in iter(self._receive, None):
                pump.take(data)
        finally:
            pump.close()

    def _agreement(self, key: str, headers: dict[str, str]) -> dict[str, str]:
        digest = hashlib.sha1((key + _GUID).encode(), usedforsecurity=False).digest()
        fields = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": base64.b64encode(digest).decode("ascii"),
        }
        offered = [name.strip() for name in headers.get("sec-websocket-protocol", "").split(",")]
        if SUBPROTOCOL in offered:
            fields["Sec-WebSocket-Protocol"] = SUBPROTOCOL
        return fields

    def _receive(self) -> Optional[bytes]:
        """Return the next whole message, ``None`` at the end."""
        message = bytearray()
        while True:
            frame = _read_frame(cast("BinaryIO", self.rfile))
            if frame is None:
                return None
            final, opcode, payload = frame
            if opcode == _CLOSE:
                self._write(_CLOSE, payload)
                return None
            if opcode == _PING:
                self._write(_PONG, payload)
            elif opcode < _CONTROL:
                message += payload
                if final:
                    return bytes(message)

    def _write(self, opcode: int, payload: bytes) -> None:
        with self._line.lock:
            self._line.put(_frame(opcode, payload))


class _FrameLine(HTTPLine):
    """A WebSocket connection, as the line of a client."""

    def __init__(self, handler: Answering) -> None:
        super().__init__(handler)
        # Keeps frames apart, so it is held while one is written; only a fault waits under it.
        self.lock = threading.RLock()

    def write(self, message: Message) -> None:
        with self.lock:
            self.put(self.frame(message))

    def frame(self, message: Message) -> bytes:
        return _frame(_TEXT, encode(message))

    def put(self, data: bytes) -> None:
        try:
            self.handler.wfile.write(data)
        except OSError:
            pass  # the client hung up, which the reader notices


def _frame(opcode: int, payload: bytes) -> bytes:
    length = len(payload)
    if length < 126:
        return struct.pack("!BB", 0x80 | opcode, length) + payload
    if length < 1 << 16:
        return struct.pack("!BBH", 0x80 | opcode, 126, length) + payload
    return struct.pack("!BBQ", 0x80 | opcode, 127, length) + payload


def _read_frame(source: BinaryIO) -> Optional[tuple[bool, int, bytes]]:
    """Read one frame of a client: whether it ends a message, its opcode and what it carries."""
    head = source.read(2)
    if len(head) < 2:
        return None
    length = head[1] & 0x7F
    if length >= 126:
        size = 2 if length == 126 else 8
        length = int.from_bytes(source.read(size), "big")
    mask = source.read(4) if head[1] & 0x80 else bytes(4)
    payload = source.read(length)
    if len(mask) < 4 or len(payload) < length:
        return None
    return bool(head[0] & 0x80), head[0] & 0x0F, _unmasked(payload, mask)


def _unmasked(payload: bytes, mask: bytes) -> bytes:
    repeated = (mask * (len(payload) // 4 + 1))[: len(payload)]
    number = int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")
    return number.to_bytes(len(payload), "big")

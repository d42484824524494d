"""A canned MCP server over WebSocket: 2026-07-28, one thread for each connection, precomputed answers."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import struct
import sys
import threading

import canned_answers as canned

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
ANSWERS = {
    "server/discover": canned.discover(),
    "tools/list": canned.small_list(),
    "tools/call": canned.small_call(),
    "ping": canned.response({}),
}
UNKNOWN = canned.error(-32601, "Method not found")


def serve(sock: socket.socket) -> None:
    """Shake hands, then answer message by message until the client leaves."""
    with sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(65_536)
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
        key = {name.lower(): value for name, value in fields.items()}[b"sec-websocket-key"]
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
        sock.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Protocol: mcp\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        buffer = b""
        while data := sock.recv(65_536):
            buffer += data
            buffer = answer_all(sock, buffer)


def answer_all(sock: socket.socket, buffer: bytes) -> bytes:
    """Answer the whole text messages in the buffer; return the rest."""
    while len(buffer) >= 6:
        length, start = buffer[1] & 0x7F, 6
        if length == 126:
            length, start = int.from_bytes(buffer[2:4], "big"), 8
        if len(buffer) < start + length:
            break
        opcode, mask = buffer[0] & 0x0F, buffer[start - 4 : start]
        masked, buffer = buffer[start : start + length], buffer[start + length :]
        if opcode == 1:
            repeated = (mask * (length // 4 + 1))[:length]
            plain = int.from_bytes(masked, "big") ^ int.from_bytes(repeated, "big")
            answer(sock, json.loads(plain.to_bytes(length, "big")))
    return buffer


def answer(sock: socket.socket, message: dict[str, object]) -> None:
    """Answer one message."""
    if "id" in message:
        body = ANSWERS.get(str(message["method"]), UNKNOWN)
        body = body.replace(canned.ID, json.dumps(message["id"]).encode(), 1)
        head = (
            struct.pack("!BB", 0x81, len(body))
            if len(body) < 126
            else struct.pack("!BBH", 0x81, 126, len(body))
        )
        sock.sendall(head + body)


def main() -> None:
    """Print the port, then serve until standard input ends; keep to a core if one is given."""
    if sys.argv[1:]:
        os.sched_setaffinity(0, [int(sys.argv[1])])
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)

    def accept() -> None:
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()

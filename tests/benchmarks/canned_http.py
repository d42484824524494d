"""A canned MCP server over HTTP: one thread, `selectors`, precomputed answers.

It must be much faster than the clients it serves, so that a difference between them is theirs.
The path chooses the behaviour: `/json`, `/sse`, `/legacy` (session id and handshake), `/slow` (answers after
20 ms), `/big-json`, `/big-sse`, `/pages`, `/progress`, `/kept` (lists stay fresh); `/stream` is HTTP with
SSE, of the first revision.
`GET /stats` tells and resets the connection counts.
"""

from __future__ import annotations

import heapq
import json
import selectors
import socket
import sys
import time
from typing import Any

import canned_answers as canned

SESSION_ID = "canned-session"


class Answers:
    """What each path answers to each method, and how."""

    def __init__(self) -> None:
        modern = {
            "server/discover": canned.discover(),
            "tools/list": canned.small_list(),
            "tools/call": canned.small_call(),
        }
        legacy = {
            "initialize": canned.initialize(),
            "tools/list": canned.small_list(modern=False),
            "tools/call": canned.small_call(modern=False),
            "ping": canned.response({}),
        }
        big = canned.big_call()
        self.bodies: dict[str, dict[str, bytes]] = {
            "/json": modern,
            "/sse": modern,
            "/slow": modern,
            "/pages": modern,
            "/kept": {**modern, "tools/list": canned.small_list(ttl_ms=3_600_000)},
            "/progress": modern,
            "/big-json": {**modern, "tools/call": big},
            "/big-sse": {**modern, "tools/call": big},
            "/legacy": legacy,
            "/messages": legacy,
        }
        self.pages = canned.pages()
        self.progress = canned.progress_stream()
        self.unknown = canned.error(-32601, "Method not found")

    def make(self, path: str, message: dict[str, Any]) -> bytes:
        """Return the whole HTTP response for one request."""
        if "id" not in message:
            return b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
        method = message["method"]
        request_id = json.dumps(message["id"]).encode()
        if path == "/progress" and method == "tools/call":
            token = json.dumps(message["params"]["_meta"]["progressToken"]).encode()
            stream = self.progress.replace(canned.TOKEN, token).replace(canned.ID, request_id)
            return _event_stream(stream)
        if path == "/pages" and method == "tools/list":
            body = self.pages[message["params"].get("cursor", "")]
        else:
            found = self.bodies[path].get(method)
            if found is None:
                return _json(self.unknown.replace(canned.ID, request_id, 1), status=b"404 Not Found")
            body = found
        body = body.replace(canned.ID, request_id, 1)
        if path in {"/sse", "/big-sse"} and method == "tools/call":
            return _event_stream(canned.sse(body))
        if path == "/legacy" and method == "initialize":
            return _json(body, extra=b"mcp-session-id: " + SESSION_ID.encode() + b"\r\n")
        return _json(body)

    def on_stream(self, message: dict[str, Any]) -> bytes:
        """Return what goes to the stream of HTTP with SSE for one message, if anything does."""
        if "id" not in message:
            return b""
        body = self.bodies["/messages"].get(message["method"], self.unknown)
        return _chunk(canned.sse(body.replace(canned.ID, json.dumps(message["id"]).encode(), 1)))


def _json(body: bytes, status: bytes = b"200 OK", extra: bytes = b"") -> bytes:
    head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\n%scontent-length: %d\r\n\r\n"
    return head % (status, extra, len(body)) + body


EVENTS_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _event_stream(body: bytes) -> bytes:
    step = 65_536
    chunks = [body[at : at + step] for at in range(0, len(body), step)]
    return EVENTS_HEAD + b"".join(map(_chunk, chunks)) + b"0\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Connection:
    """One client connection: what came in, and what has not gone out yet."""

    __slots__ = ("incoming", "outgoing", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.incoming = bytearray()
        self.outgoing = memoryview(b"")


class Server:
    """The event loop; ends when its standard input ends, so that it never outlives its parent."""

    def __init__(self) -> None:
        self.answers = Answers()
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.listener.setblocking(False)
        self.streams: list[Connection] = []
        self.delayed: list[tuple[float, int, Connection, bytes]] = []
        self.sequence = 0
        self.open = self.peak = self.accepted = 0

    def run(self) -> None:
        """Print the port, then serve until standard input ends."""
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.selector.register(sys.stdin, selectors.EVENT_READ, None)
        print(self.listener.getsockname()[1], flush=True)
        while True:
            wait = max(0.0, self.delayed[0][0] - time.monotonic()) if self.delayed else None
            for key, _ in self.selector.select(wait):
                if key.data is None:
                    return
                key.data() if callable(key.data) else self.ready(key.data)
            self.release()

    def accept(self) -> None:
        """Take in one connection."""
        sock, _ = self.listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.selector.register(sock, selectors.EVENT_READ, Connection(sock))
        self.open += 1
        self.accepted += 1
        self.peak = max(self.peak, self.open)

    def ready(self, connection: Connection) -> None:
        """Go on writing, else read and answer every whole request that has come."""
        try:
            if connection.outgoing:
                self.flush(connection)
                return
            data = connection.sock.recv(262_144)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.drop(connection)
            return
        connection.incoming += data
        while self.answer_one(connection):
            pass

    def answer_one(self, connection: Connection) -> bool:
        """Answer the first request in the buffer; False when it is not whole yet."""
        end = connection.incoming.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(connection.incoming[:end])
        length = _content_length(head)
        if len(connection.incoming) < end + 4 + length:
            return False
        body = bytes(connection.incoming[end + 4 : end + 4 + length])
        del connection.incoming[: end + 4 + length]
        verb, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        if path == "/stream" and verb == "GET":
            self.open_stream(connection)
            return True
        if verb != "POST" or path == "/stream":
            self.send(connection, self.other(verb, path))
            return True
        message = json.loads(body)
        if path.startswith("/messages?"):
            self.send(connection, b"HTTP/1.1 202 Accepted\r\ncontent-length: 8\r\n\r\nAccepted")
            self.send(self.streams[int(path.partition("=")[2])], self.answers.on_stream(message))
            return True
        answer = self.answers.make(path, message)
        if path == "/slow" and message["method"] == "tools/call":
            self.sequence += 1
            due = time.monotonic() + canned.SLOW_SECONDS
            heapq.heappush(self.delayed, (due, self.sequence, connection, answer))
        else:
            self.send(connection, answer)
        return True

    def open_stream(self, connection: Connection) -> None:
        """Open a stream of HTTP with SSE, which names the URL for messages."""
        self.streams.append(connection)
        endpoint = b"event: endpoint\r\ndata: /messages?session_id=%d\r\n\r\n" % (len(self.streams) - 1)
        self.send(connection, EVENTS_HEAD + _chunk(endpoint))

    def other(self, verb: str, path: str) -> bytes:
        """Answer what is not a POST: the statistics, the end of a session, the refused GET stream."""
        if verb == "GET" and path == "/stats":
            told = {"open": self.open, "peak": self.peak, "accepted": self.accepted}
            self.peak, self.accepted = self.open, 0
            return _json(json.dumps(told).encode())
        if verb == "DELETE":
            return b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
        return b"HTTP/1.1 405 Method Not Allowed\r\nallow: POST\r\ncontent-length: 0\r\n\r\n"

    def release(self) -> None:
        """Send the delayed answers that are due."""
        now = time.monotonic()
        while self.delayed and self.delayed[0][0] <= now:
            _, _, connection, answer = heapq.heappop(self.delayed)
            if connection.sock.fileno() >= 0:
                self.send(connection, answer)

    def send(self, connection: Connection, answer: bytes) -> None:
        """Write an answer, or as much of it as the socket takes now."""
        pending = connection.outgoing
        connection.outgoing = memoryview(bytes(pending) + answer if pending else answer)
        self.flush(connection)

    def flush(self, connection: Connection) -> None:
        """Write what is left; watch for writability only while something is."""
        try:
            sent = connection.sock.send(connection.outgoing)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self.drop(connection)
            return
        connection.outgoing = connection.outgoing[sent:]
        events = selectors.EVENT_WRITE if connection.outgoing else selectors.EVENT_READ
        if self.selector.get_key(connection.sock).events != events:
            self.selector.modify(connection.sock, events, connection)

    def drop(self, connection: Connection) -> None:
        """Forget a connection that its client has left."""
        if connection.sock.fileno() < 0:
            return
        self.selector.unregister(connection.sock)
        connection.sock.close()
        self.open -= 1


def _content_length(head: bytes) -> int:
    at = head.lower().find(b"\r\ncontent-length:")
    return int(head[at + 17 :].split(b"\r\n", 1)[0]) if at >= 0 else 0


if __name__ == "__main__":
    Server().run()

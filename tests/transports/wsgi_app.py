"""A WSGI application that serves MCP: a fake server behind the standard library's judge of WSGI."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Callable
from wsgiref.validate import validator

from mcp_sync.testing import FakeServer

Start = Callable[..., Any]


class App:
    """Serves a fake server at ``/mcp``.

    Args:
        server: The fake server.
        events: Whether answers are event streams.

    Attributes:
        seen: The environ of each request.
        threads: The threads that ran it.
        closed: How many event streams were closed.
        guard: Called with each environ; a status that it returns is the answer.
    """

    def __init__(self, server: FakeServer, events: bool = False) -> None:
        self.server = server
        self.events = events
        self.seen: list[dict[str, Any]] = []
        self.threads: set[str] = set()
        self.closed = 0
        self.guard: Callable[[dict[str, Any]], str] = lambda environ: ""
        self._sessions: dict[str, Any] = {}

    def wsgi(self) -> Any:
        """Return the application, with everybody watched who uses it."""
        return validator(self._answer)

    def _answer(self, environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
        self.seen.append(environ)
        self.threads.add(threading.current_thread().name)
        refusal = self.guard(environ)
        if refusal or environ["PATH_INFO"] != "/mcp":
            start_response(refusal or "404 Not Found", [("Content-Type", "text/plain")])
            return [b"no"]
        if environ["REQUEST_METHOD"] != "POST":
            start_response("405 Method Not Allowed", [("Content-Type", "text/plain")])
            return [b""]
        message = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        connection, headers = self._connection(environ, message)
        sent: list[Any] = []
        reply = connection.handle(message, sent.append)
        if reply is None:
            start_response("202 Accepted", [("Content-Type", "text/plain"), *headers])
            return [b""]
        if self.events or sent:
            start_response("200 OK", [("Content-Type", "text/event-stream"), *headers])
            return self._stream([*sent, reply])
        body = json.dumps(reply).encode()
        cookie = f"who={environ.get('HTTP_AUTHORIZATION', 'nobody').split()[-1]}"
        start_response("200 OK", [("Content-Type", "application/json"), ("Set-Cookie", cookie), *headers])
        return [body[:5], b"", body[5:]]

    def _connection(self, environ: dict[str, Any], message: Any) -> Any:
        if message.get("method") == "initialize":
            name = f"session-{len(self._sessions)}"
            self._sessions[name] = self.server.connect()
            return self._sessions[name], [("Mcp-Session-Id", name)]
        name = environ.get("HTTP_MCP_SESSION_ID", "")
        return self._sessions.get(name) or self.server.connect(), []

    def _stream(self, messages: list[Any]) -> Iterator[bytes]:
        try:
            for message in messages:
                yield b"data: " + json.dumps(message).encode() + b"\n\n"
            yield b": nobody waits for what follows\n\n"
            yield b": never read\n\n"
        finally:
            self.closed += 1

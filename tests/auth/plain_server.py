"""A small HTTP server of the standard library, answering as a test says."""

from __future__ import annotations

import http.server
import threading
from typing import Any, Callable, NamedTuple, Optional


class Request(NamedTuple):
    """What arrived; the names of ``headers`` are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int


class Reply(NamedTuple):
    """What goes back."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = {}


class PlainServer:
    """Listens on a loopback address while it is open, with one thread for each connection.

    Attributes:
        requests: What arrived so far.
        connections: How many connections were made.
    """

    def __init__(self, answer: Callable[[Request], Reply], host: str = "127.0.0.1") -> None:
        self.requests: list[Request] = []
        self.connections = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body in one write each, without waiting for the peer in between.
            disable_nagle_algorithm = True
            wbufsize = -1

            def setup(self) -> None:
                super().setup()
                outer.connections += 1
                self.number = outer.connections
                outer._sockets.append(self.connection)

            def handle_one(self) -> None:
                request = Request(
                    self.command,
                    self.path,
                    {name.lower(): value for name, value in self.headers.items()},
                    self._body(),
                    self.number,
                )
                outer.requests.append(request)
                reply = answer(request)
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            do_GET = do_POST = do_DELETE = handle_one

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)

            def log_message(self, *args: Any) -> None:
                pass

        self._sockets: list[Any] = []
        self._server = http.server.ThreadingHTTPServer((host, 0), Handler)
        self._server.daemon_threads = False
        self.port: int = self._server.server_address[1]
        self.origin = f"http://{host}:{self.port}"
        self._thread: Optional[threading.Thread] = None

    def __enter__(self) -> PlainServer:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="plain-server")
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        for sock in list(self._sockets):
            try:
                sock.shutdown(2)
            except OSError:
                pass
        self._server.server_close()
        assert self._thread is not None
        self._thread.join()

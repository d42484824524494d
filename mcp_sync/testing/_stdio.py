"""The fake server on a pair of byte streams: one message per line."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import threading
from typing import IO, TYPE_CHECKING, Optional

from .._concurrency.deadline import Deadline
from .._concurrency.threads import join_all, spawn
from ._exchange import Exchange
from ._rpc import PARSE_ERROR, Message, encode, error_response

if TYPE_CHECKING:
    from ._server import FakeServer

logger = logging.getLogger("mcp_sync.testing")

# Methods that run functions of the user. They get a thread each, so that a slow one holds nothing up.
_SLOW = ("tools/call", "prompts/get", "resources/read", "completion/complete", "subscriptions/listen")
_GRACE = 1.0


def serve_standard_streams(server: FakeServer) -> None:
    """Serve the client at the other end of standard input and output until the input ends.

    Meanwhile ``print`` writes to standard error, as nothing but messages may go to standard output.
    """
    # Not the usual streams: at exit Python flushes those, and aborts if a daemon thread holds their lock.
    source = io.BufferedReader(io.FileIO(0, closefd=False))
    sink = io.FileIO(1, "w", closefd=False)
    with source, sink, contextlib.redirect_stdout(sys.stderr):
        serve_lines(server, source, sink)


def serve_lines(server: FakeServer, source: IO[bytes], sink: IO[bytes]) -> None:
    """Serve one client: read messages from ``source`` until it ends, and write to ``sink``."""
    lines = _Lines(server, sink)
    try:
        for line in source:
            lines.take(line)
    finally:
        lines.close()


class _Lines:
    def __init__(self, server: FakeServer, sink: IO[bytes]) -> None:
        self._server = server
        self._sink: Optional[IO[bytes]] = sink
        self._connection = server.connect()
        self._connection.send = self._write
        self._threads: set[threading.Thread] = set()
        # Keeps the lines apart, so it is held while one is written; nothing else happens under it.
        self._lock = threading.Lock()

    def take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except ValueError as error:
            self._write(error_response(None, PARSE_ERROR, f"Parse error: {error}"))
            return
        accepted = self._connection.accept(message, self._write)
        if not isinstance(accepted, Exchange):
            self._write(accepted)
        elif accepted.method in _SLOW or accepted.method in self._server.overrides:
            self._threads = {thread for thread in self._threads if thread.is_alive()}
            self._threads.add(spawn("fake-server", "request", self._answer, accepted))
        else:
            self._answer(accepted)

    def _answer(self, exchange: Exchange) -> None:
        self._write(exchange.run())

    def _write(self, message: Optional[Message]) -> None:
        if message is None:
            return
        line = encode(message) + b"\n"
        with self._lock:
            if self._sink is not None:
                self._sink = _write_all(self._sink, line)

    def close(self) -> None:
        self._server.disconnect(self._connection)
        join_all(self._threads, Deadline(_GRACE))


def _write_all(sink: IO[bytes], data: bytes) -> Optional[IO[bytes]]:
    """Write everything; return ``None`` instead of the sink if nobody reads any more."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[sink.write(rest) :]
        sink.flush()
    except (OSError, ValueError):
        logger.info("The client no longer reads")
        return None
    return sink

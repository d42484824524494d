"""The fake server on a pair of byte streams: one message per line."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import threading
from typing import IO, TYPE_CHECKING, Optional

from ._pump import Pump
from ._rpc import Message, encode

if TYPE_CHECKING:
    from ._server import FakeServer

logger = logging.getLogger("mcp_sync.testing")


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
    pump = Pump(server, _LineWriter(sink).write)
    try:
        for line in source:
            pump.take(line)
    finally:
        pump.close()


class _LineWriter:
    """Writes messages as lines, as long as somebody reads them."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink: Optional[IO[bytes]] = sink
        # Keeps the lines apart, so it is held while one is written; nothing else happens under it.
        self._lock = threading.Lock()

    def write(self, message: Message) -> None:
        line = encode(message) + b"\n"
        with self._lock:
            if self._sink is not None:
                self._sink = _write_all(self._sink, line)


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

"""The fake server on a pair of byte streams: one message per line."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import sys
import threading
from typing import IO, TYPE_CHECKING, Optional

from ._pump import Pump
from ._rpc import Message, encode

if TYPE_CHECKING:
    from ._faults import Fault, FaultPlan
    from ._server import FakeServer

logger = logging.getLogger("mcp_sync.testing")


def serve_standard_streams(server: FakeServer, plan: Optional[FaultPlan]) -> None:
    """Serve the client at the other end of standard input and output until the input ends.

    Meanwhile ``print`` writes to standard error, as nothing but messages may go to standard output.
    """
    # Not the usual streams: at exit Python flushes those, and aborts if a daemon thread holds their lock.
    source = io.BufferedReader(io.FileIO(0, closefd=False))
    sink = io.FileIO(1, "w", closefd=False)
    with source, sink, contextlib.redirect_stdout(sys.stderr):
        _serve(server, source, _ProcessWriter(sink), plan)


def serve_lines(server: FakeServer, source: IO[bytes], sink: IO[bytes], plan: Optional[FaultPlan]) -> None:
    """Serve one client: read messages from ``source`` until it ends, and write to ``sink``."""
    _serve(server, source, _LineWriter(sink), plan)


def _serve(server: FakeServer, source: IO[bytes], writer: _LineWriter, plan: Optional[FaultPlan]) -> None:
    pump = Pump(server, writer, plan)
    try:
        for line in source:
            pump.take(line)
            if writer.is_dropped:
                break
    finally:
        pump.close()


class _LineWriter:
    """Writes messages as lines, as long as somebody reads them.

    Attributes:
        is_dropped: Whether a fault has ended the connection.
    """

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink: Optional[IO[bytes]] = sink
        self.is_dropped = False
        # Keeps the lines apart, so it is held while one is written; only a fault waits under it.
        self.lock = threading.RLock()

    def write(self, message: Message) -> None:
        line = self.frame(message)
        with self.lock:
            self.put(line)

    def frame(self, message: Message) -> bytes:
        return encode(message) + b"\n"

    def put(self, data: bytes) -> None:
        if self._sink is not None:
            self._sink = _write_all(self._sink, data)

    def ended(self) -> bool:
        return self._sink is None

    def drop(self) -> None:
        self.is_dropped = True
        self._mute()

    def _mute(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.close()

    def reset(self) -> None:
        self.drop()

    def end_process(self, fault: Fault) -> None:
        if fault.kind == "mute":
            self._mute()
        else:
            self.drop()


class _ProcessWriter(_LineWriter):
    """Writes to standard output, and ends with the process."""

    def drop(self) -> None:
        os._exit(0)

    def _mute(self) -> None:
        super()._mute()
        os.close(1)

    def end_process(self, fault: Fault) -> None:
        if fault.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.kind == "exit":
            os._exit(fault.returncode)
        super().end_process(fault)


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

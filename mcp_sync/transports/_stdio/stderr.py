"""What a server writes to standard error: read for as long as it lives, and its end kept."""

from __future__ import annotations

import codecs
import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, Callable, Optional

from ..._concurrency.notes import note
from ..._protocol.striking import without
from .pipes import BYTES, PipeReader, Wake

logger = logging.getLogger("mcp_sync.stdio")

_LINE_BYTES = 4096
_TAIL_BYTES = 64 * 1024


class StderrTail:
    """Reads the standard error of a server to its end, so that the server never waits for a reader.

    Args:
        sink: What else gets it: an object with ``write`` (text or binary), a callable that takes a line,
            or ``None``.
        lines: How many of the last lines are kept.
        secrets: What is struck out of them, and of the log. The sink gets all.
    """

    def __init__(self, sink: Any, lines: int, secrets: Sequence[str] = ()) -> None:
        self._secrets = secrets
        # Guards the lines and the open one; nothing foreign runs under it.
        self._lock = threading.RLock()
        self._lines: deque[bytes] = deque(maxlen=lines)
        self._size = 0
        self._open = b""
        self._forward = _forwarder(sink)
        self._line_sink = sink if callable(sink) and not hasattr(sink, "write") else None
        self._complained = False

    def drain(self, reader: PipeReader, wake: Wake) -> None:
        """Read until the end, and close both. The body of a thread.

        Args:
            reader: The pipe.
            wake: What ends its wait.
        """
        try:
            while reader.wait() is BYTES:
                chunk = reader.read()
                if not chunk:
                    break
                self._take(chunk)
        finally:
            reader.close()
            wake.close()
            self._tell_lines([self._open] if self._open else [])

    def text(self) -> str:
        """Return the last lines, among them one that is not ended yet."""
        with self._lock:
            lines = [*self._lines, self._open] if self._open else list(self._lines)
        return self._quoted("\n".join(_shown(line) for line in lines[-(self._lines.maxlen or 1) :]))

    def _quoted(self, text: str) -> str:
        """Return words of the server as errors and the log may repeat them."""
        return str(without(text, self._secrets)) if self._secrets else text

    def _take(self, chunk: bytes) -> None:
        if self._forward is not None:
            self._guarded(self._forward, chunk)
        *ended, rest = (self._open + chunk).split(b"\n")
        ended = [_last_drawn(line).rstrip(b"\r") for line in ended]
        with self._lock:
            for line in ended:
                self._add(line)
            self._open = _last_drawn(rest)
        self._tell_lines(ended)

    def _add(self, line: bytes) -> None:
        if len(self._lines) == self._lines.maxlen:
            self._size -= len(self._lines[0])
        self._lines.append(line)
        self._size += len(line)
        while self._size > _TAIL_BYTES:
            self._size -= len(self._lines.popleft())

    def _tell_lines(self, lines: list[bytes]) -> None:
        if self._line_sink is None and not logger.isEnabledFor(logging.DEBUG):
            return
        for line in lines:
            if self._line_sink is not None:
                self._guarded(self._line_sink, _shown(line))
            note(logger.log, logging.DEBUG, "stderr: %s", self._quoted(_shown(line)))

    def _guarded(self, forward: Callable[[Any], Any], data: Any) -> None:
        try:
            forward(data)
        except Exception as error:
            # The server must not stop because the place where its words should go is gone.
            level = logging.DEBUG if self._complained else logging.WARNING
            self._complained = True
            note(logger.log, level, "The standard error of the server could not be passed on: %r", error)


def _last_drawn(line: bytes) -> bytes:
    # A bar of progress is drawn over again and again: what stood there before is of no interest.
    if b"\r" in line:
        line = line[line.rstrip(b"\r").rfind(b"\r") + 1 :]
    return line[-_LINE_BYTES:]


def _shown(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8", "replace")


def _forwarder(sink: Any) -> Optional[Callable[[bytes], None]]:
    """Return what writes bytes to a file, text or binary: only a first write shows which it is."""
    if not hasattr(sink, "write"):
        return None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    binary = False

    def forward(chunk: bytes) -> None:
        nonlocal binary
        if not binary:
            text = decoder.decode(chunk)
            try:
                sink.write(text)
            except TypeError:
                binary = True
            except UnicodeEncodeError:
                sink.write(text.encode("ascii", "backslashreplace").decode("ascii"))
        if binary:
            sink.write(chunk)
        flush = getattr(sink, "flush", None)
        if flush is not None:
            flush()

    return forward

"""Faults of the answer to one request of HTTP."""

from __future__ import annotations

import re
import selectors
import socket
from typing import TYPE_CHECKING, Any, Callable, Optional

from ._disconnects import is_gone
from ._faults import Fault, FaultPlan
from ._striking import GARBAGE, Strike

if TYPE_CHECKING:
    from ._http_answers import Answering


_CHUNK = re.compile(rb"[0-9a-f]+\r\n(.+)\r\n", re.DOTALL)


class HTTPLine:
    """The TCP connection of a handler, as far as a fault deals with it."""

    def __init__(self, handler: Answering) -> None:
        self.handler = handler

    def put(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.handler.connection.sendall(data)

    def drop(self) -> None:
        """Close the connection."""
        self.handler.close_connection = True
        try:
            self.handler.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # The client was quicker.

    def reset(self) -> None:
        """Close the connection by a reset."""
        self.handler.close_connection = True
        try:
            self.handler.endpoint.reset_connection(self.handler.connection)
        except OSError:
            pass  # The client was quicker.

    def end_process(self, fault: Fault) -> None:
        """Close the connection: the process goes on."""
        self.drop()

    def ended(self) -> bool:
        """Whether the endpoint closes, or the client has gone."""
        return self.handler.endpoint.closing.is_set() or _has_hung_up(self.handler.connection)


class StruckFile:
    """What a handler writes to while the answer to a request goes wrong.

    Attributes:
        plain: What it wrote to before.
        is_result: Whether what comes now is the result.
        strike: The fault at work.
    """

    closed = False

    def __init__(self, handler: Answering, fault: Fault, plan: FaultPlan) -> None:
        self.plain: Any = handler.wfile
        self.is_result = False
        self._line = HTTPLine(handler)
        self.strike = Strike(fault, plan, self._line)
        self._fault = fault
        self._has_begun = False
        # What becomes of what is still to be written.
        self._goes_on: Callable[[bytes], object] = self._look

    def write(self, data: bytes) -> int:
        """Send bytes, as far as the fault lets them pass.

        Raises:
            BrokenPipeError: There is no connection any more.
        """
        self._goes_on(data)
        return len(data)

    def _look(self, data: bytes) -> None:
        cut = self._cut(data)
        if cut is None:
            self.plain.write(data)
            return
        fault = self._fault
        if fault.kind == "http":
            self._goes_on = len
            self.plain.write(
                self._line.handler.head(fault.status, {"Content-Length": "0", **dict(fault.headers)})
            )
        elif fault.kind == "garbage" and fault.at == "answer":
            self.plain.write(GARBAGE + b"\r\n\r\n")
            self._line.drop()
            self._break()
        elif fault.kind == "drip":
            self._goes_on = self._drip
            self.plain.write(data[:cut])
            self._drip(data[cut:])
        else:
            self._goes_on = self.plain.write
            if not self.strike.put(data, cut):
                self._break()

    def _cut(self, data: bytes) -> Optional[int]:
        """Return where in these bytes the fault strikes, ``None`` if it does not."""
        is_head, self._has_begun = not self._has_begun, True
        head = data.find(b"\r\n\r\n") + 4 if is_head else 0
        if is_head and self._fault.at in ("answer", "head"):
            return head // 2 if self._fault.at == "head" else 0
        if not self.is_result:
            return None
        size = len(data)
        return {"result": head, "body": head + (size - head) // 2, "end": size}.get(self._fault.at)

    def _break(self) -> None:
        self._goes_on = self._refuse
        self._refuse(b"")

    def _refuse(self, data: bytes) -> None:
        raise BrokenPipeError("a fault has ended the connection")

    def _drip(self, data: bytes) -> None:
        """Send byte after byte; a whole chunk as chunks of one byte."""
        match = _CHUNK.fullmatch(data)
        if match is None:
            self.strike.drip(data)
            return
        for byte in match[1]:
            self.strike.drip(b"1\r\n%c\r\n" % byte)

    def flush(self) -> None:
        """Do nothing: all has been sent."""

    def close(self) -> None:
        """Take no more."""
        self.closed = True


def _has_hung_up(sock: socket.socket) -> bool:
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(sock, selectors.EVENT_READ)
        except ValueError:  # closed
            return True
        if not selector.select(0):
            return False
    return is_gone(sock)

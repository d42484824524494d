"""One client on a channel that all its messages share."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Optional, Union

from .._concurrency.deadline import Deadline
from .._concurrency.threads import join_all, spawn
from ._exchange import Exchange
from ._rpc import PARSE_ERROR, error_response
from ._striking import Strike, fault_of

if TYPE_CHECKING:
    from ._faults import Fault, FaultPlan
    from ._server import FakeServer
    from ._striking import MessageLine

# Methods that run functions of the user, or wait: each gets a thread, so that a slow one holds nothing up.
_SLOW = (
    "tools/call",
    "prompts/get",
    "resources/read",
    "completion/complete",
    "subscriptions/listen",
    "tasks/result",
)
_GRACE = 1.0


class Pump:
    """Takes the messages of one client, one after the other, and writes what the server has to say.

    Args:
        server: Who answers.
        line: What takes the messages for the client, from any thread.
        plan: What is to go wrong.
        draws: Whether the fault of a message is looked up here.
    """

    def __init__(
        self, server: FakeServer, line: MessageLine, plan: Optional[FaultPlan] = None, *, draws: bool = True
    ) -> None:
        self._server = server
        self._line = line
        self._write = line.write
        self._plan = plan
        self._draws = draws
        self._connection = server.connect()
        self._connection.send = line.write
        # Guards the threads that answer; with HTTP+SSE several take messages at a time.
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()

    def take(self, data: Union[bytes, bytearray], met: Optional[Fault] = None) -> None:
        """Take one message as it came; blank ones are left out.

        Args:
            data: The message.
            met: The fault that it has met already.
        """
        if not data.strip():
            return
        try:
            message = json.loads(data)
        except ValueError as error:
            self._write(error_response(None, PARSE_ERROR, f"Parse error: {error}"))
            return
        fault = fault_of(self._plan, message) if self._draws else met
        if fault is not None and fault.at == "request" and not self._strike(fault).stop():
            return
        accepted = self._connection.accept(message, self._write)
        if isinstance(accepted, Exchange):
            accepted.fault = fault
            self._run(accepted)
        elif accepted is not None:
            self._write(accepted)

    def _run(self, exchange: Exchange) -> None:
        if exchange.fault or exchange.method in _SLOW or exchange.method in self._server.overrides:
            with self._lock:
                self._threads = {thread for thread in self._threads if thread.is_alive()}
                self._threads.add(spawn("fake-server", "request", self._answer, exchange))
        else:
            self._answer(exchange)

    def _answer(self, exchange: Exchange) -> None:
        reply = exchange.run()
        if reply is None:
            return
        if exchange.fault is None or exchange.fault.at == "request":
            self._write(reply)
        else:
            self._strike(exchange.fault).put_message(self._line.frame(reply), self._line)

    def _strike(self, fault: Fault) -> Strike:
        if self._plan is None or fault.kind == "http":
            raise ValueError(f"{fault} is of no use here: there is no HTTP")
        return Strike(fault, self._plan, self._line)

    def close(self) -> None:
        """Cancel what is in flight, and wait a moment for it."""
        self._server.disconnect(self._connection)
        with self._lock:
            threads = list(self._threads)
        join_all(threads, Deadline(_GRACE))

"""One client on a channel that all its messages share."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Callable, Union

from .._concurrency.deadline import Deadline
from .._concurrency.threads import join_all, spawn
from ._exchange import Exchange
from ._rpc import PARSE_ERROR, Message, error_response

if TYPE_CHECKING:
    from ._server import FakeServer

# Methods that run functions of the user. They get a thread each, so that a slow one holds nothing up.
_SLOW = ("tools/call", "prompts/get", "resources/read", "completion/complete", "subscriptions/listen")
_GRACE = 1.0


class Pump:
    """Takes the messages of one client, one after the other, and writes what the server has to say.

    Args:
        server: Who answers.
        write: Called with each message for the client, from any thread.
    """

    def __init__(self, server: FakeServer, write: Callable[[Message], object]) -> None:
        self._server = server
        self._write = write
        self._connection = server.connect()
        self._connection.send = write
        self._threads: set[threading.Thread] = set()

    def take(self, data: Union[bytes, bytearray]) -> None:
        """Take one message as it came; blank ones are left out."""
        if not data.strip():
            return
        try:
            message = json.loads(data)
        except ValueError as error:
            self._write(error_response(None, PARSE_ERROR, f"Parse error: {error}"))
            return
        accepted = self._connection.accept(message, self._write)
        if isinstance(accepted, Exchange):
            self._run(accepted)
        elif accepted is not None:
            self._write(accepted)

    def _run(self, exchange: Exchange) -> None:
        if exchange.method in _SLOW or exchange.method in self._server.overrides:
            self._threads = {thread for thread in self._threads if thread.is_alive()}
            self._threads.add(spawn("fake-server", "request", self._answer, exchange))
        else:
            self._answer(exchange)

    def _answer(self, exchange: Exchange) -> None:
        reply = exchange.run()
        if reply is not None:
            self._write(reply)

    def close(self) -> None:
        """Cancel what is in flight, and wait a moment for it."""
        self._server.disconnect(self._connection)
        join_all(self._threads, Deadline(_GRACE))

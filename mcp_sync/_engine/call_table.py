"""The calls in flight on one connection: which of them a message is for, and how they all end at once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, Optional

from .._concurrency.pending import PendingCall
from .._protocol import kinds
from ..errors import MCPError, SessionExpired, another
from ..transports._base import Channel

logger = logging.getLogger("mcp_sync.session")
# What a server says that could not read a message, and so knows no id of it: parse error, invalid request.
_UNREADABLE = (-32700, -32600)


class CallTable(dict[int, PendingCall]):
    """The calls in flight, by their ids. From any thread: single operations only.

    A call is taken out with ``pop``: a method would let a signal handler in first, which may raise.

    Args:
        channel: What the calls go through.

    Attributes:
        error: Why no call may begin any more, ``None`` while the connection lives.
    """

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.error: Optional[MCPError] = None
        self._channel = channel
        self._odd_ids_seen = False
        # Guards `error` against being set twice. No I/O. Re-entrant: a signal handler may close the client on
        # a thread that is just in here.
        self._lock = threading.RLock()

    def enter(self, call: PendingCall) -> None:
        """Put a call in.

        Raises:
            MCPError: No call may begin any more. It is in nevertheless.
        """
        # In this order, which is the reverse of that in `end`: so no call misses the loss.
        self[call.id] = call
        if self.error is not None:
            raise self._fresh(self.error, call)

    def retire(self, error: SessionExpired) -> None:
        """Let no new call begin. Those in flight each get an answer of their own, or the same refusal."""
        with self._lock:
            if self.error is None:
                self.error = error

    @property
    def retiring(self) -> bool:
        """Whether there are still calls in flight though no new one may begin."""
        return isinstance(self.error, SessionExpired) and bool(self)

    def end(self, error: MCPError) -> MCPError:
        """Fail every call in flight, and every later one; return why: only the first reason counts."""
        with self._lock:
            if self.error is None or isinstance(self.error, SessionExpired):
                self.error = error
            reason = self.error
            # Also the second time: a signal handler may have interrupted the first.
            calls = list(self.values())
        for call in calls:
            call.fail(self._fresh(reason, call))
        return reason

    def _fresh(self, reason: MCPError, call: PendingCall) -> MCPError:
        """Copy the reason of the end, so that each caller raises an exception of its own."""
        error = another(reason)
        if hasattr(error, "request_sent"):
            error.request_sent = call.request_sent
        return error

    # --- which call a message is for -------------------------------------------------------------

    def of_response(self, response: Mapping[str, Any], own: Optional[PendingCall]) -> Optional[PendingCall]:
        """Return the call that a response is for, ``None`` if there is none.

        Args:
            response: The response.
            own: The call on whose own stream it came, if on one.
        """
        if own is not None and own.resumes:
            return own
        raw = response.get("id")
        if type(raw) is int:
            return self.get(raw)
        if raw is None and response.get("error") is not None:
            # The server could not read the id. Its error belongs to the only call that it can.
            return own if own is not None else self._only_call(response)
        call = self.of_id(raw)
        if call is not None and not self._odd_ids_seen:
            self._odd_ids_seen = True
            logger.warning("%s answers with ids of another type (%r)", self._channel.peer, raw)
        return call

    def of_id(self, raw: Any) -> Optional[PendingCall]:
        """Return the call that a server means by an id, which it may have made something else of."""
        number = kinds.as_id(raw)
        return self.get(number) if number is not None else None

    def _only_call(self, message: Mapping[str, Any]) -> Optional[PendingCall]:
        """Return the call that a server must mean which could not read what it got: the only one there is."""
        parts = kinds.error_parts(message)
        calls = list(self.values())
        is_possible = self._channel.duplex and parts is not None and parts.code in _UNREADABLE
        return calls[0] if is_possible and len(calls) == 1 else None

"""Streams that are opened with GET: a broken response taken up again, and the server's own messages."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import closing
from typing import Optional

from ..._concurrency.deadline import Deadline
from ..._concurrency.locks import Latch
from ..._concurrency.pending import PendingCall
from ..._concurrency.threads import spawn
from ..._protocol.recovery import Attempts, ends_resumption, resume_delay
from ...errors import ConnectFailed, ConnectionLost, HTTPStatusError, MCPError
from ...options import Retry
from .._base import Inbound
from .endpoint import Endpoint
from .errors import FOREIGN, root_of, timed_out, translated
from .exchange import Exchange
from .reply import Reply, media_type
from .responses import Ended, ResponseReader

logger = logging.getLogger("mcp_sync.transports.http")


class Resumption:
    """Takes up the broken response stream of one call, on revisions that know it.

    Args:
        endpoint: Where to ask.
        reader: Where events go.
        retry: How often in a row it may fail.
    """

    def __init__(self, endpoint: Endpoint, reader: ResponseReader, retry: Retry) -> None:
        self._endpoint = endpoint
        self._peer = endpoint.peer
        self._reader = reader
        self._retry = retry

    def run(self, call: PendingCall, exchange: Exchange, ended: Ended) -> None:
        """Take the stream up, again and again, until the call is settled.

        A server may end the stream on purpose in order to be asked later; see `Attempts` for what counts.

        Raises:
            ConnectionLost: Too many attempts in a row failed.
            CallTimeout: The call's deadline passed.
        """
        exchange.resumes = True
        attempts = Attempts()
        while not ended.is_final:
            delay = resume_delay(attempts, ended.retry, self._retry)
            if delay is None:
                break
            if self._wait(call, exchange, delay):
                return
            started = time.monotonic()
            outcome = self._attempt_again(call, exchange, ended)
            if outcome is None:
                return
            moved = outcome.last_id != ended.last_id
            attempts = attempts.after(outcome.messages, moved, time.monotonic() - started)
            ended = outcome
        raise unanswered(call.method, self._peer, ended) from root_of(ended.fault, exchange.handled)

    def take_up(self, call: PendingCall, exchange: Exchange, last_id: str) -> None:
        """Take up the stream of an earlier call; see `run`."""
        exchange.resumes = True
        ended = self._attempt_again(call, exchange, Ended(last_id, None, 0, None))
        if ended is not None:
            self.run(call, exchange, ended)

    def _attempt_again(self, call: PendingCall, exchange: Exchange, ended: Ended) -> Optional[Ended]:
        try:
            outcome = self._attempt(call, exchange, ended.last_id)
        except HTTPStatusError as error:
            return ended._replace(messages=0, fault=error, is_final=ends_resumption(error.status))
        except MCPError:
            raise
        except FOREIGN as error:
            if exchange.aborted or exchange.deadline.expired:
                raise
            return ended._replace(messages=0, fault=error)
        if outcome is None:
            return None
        retry = ended.retry if outcome.retry is None else outcome.retry
        return outcome._replace(last_id=outcome.last_id or ended.last_id, retry=retry)

    def _wait(self, call: PendingCall, exchange: Exchange, seconds: float) -> bool:
        if call.wait(call.deadline.within(seconds)):
            return True
        if call.deadline.expired:
            raise timed_out(exchange, call.method, self._peer)
        return False

    def _attempt(self, call: PendingCall, exchange: Exchange, last_id: str) -> Optional[Ended]:
        with closing(self._endpoint.get(last_id, exchange)) as reply:
            if not is_event_stream(reply):
                in_session = self._endpoint.in_session if call.resumes else None
                self._reader.reject(reply, exchange, call.method, in_session)
            return self._reader.events(reply, exchange, call)


def unanswered(method: str, peer: str, ended: Ended) -> ConnectionLost:
    """Say that a stream ended too early, and what it held instead of the answer."""
    text = f"{method}: the stream of {peer} ended without the answer"
    text += f"; it held {ended.junk.decode('utf-8', 'replace')!r}" if ended.junk else ""
    text += f"; it held an answer with the id {ended.stray}" if ended.stray else ""
    text += f"; {ended.fault}" if isinstance(ended.fault, MCPError) else ""
    return ConnectionLost(text, request_sent=True)


def is_event_stream(reply: Reply) -> bool:
    """Whether a response to a GET is the stream that was asked for."""
    return reply.status == 200 and media_type(reply) == "text/event-stream"


class GetStream:
    """The thread that reads what a server sends on its own account (legacy revisions).

    Nobody waits for it: a server or a proxy may hold back even the head of the response until there is
    something to say. A server that offers no such stream is used without it.

    Args:
        endpoint: Where to ask.
        reader: Where events go.
        inbound: Where faults are reported. This and ``reader`` must not keep the client alive.
        retry: How often in a row it may fail, and how long to wait before a reconnection.
        connect: Seconds until a connection has to stand.

    Attributes:
        threads: The thread, once it runs.
        is_over: Whether it has given up.
        has_stood: Whether the stream has stood.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        reader: ResponseReader,
        inbound: Inbound,
        retry: Retry,
        connect: Optional[float],
    ) -> None:
        self._endpoint = endpoint
        self._peer = endpoint.peer
        self._reader = reader
        self._inbound = inbound
        self._retry = retry
        self._connect_timeout = connect
        self._stopped = Latch()
        self._exchange: Optional[Exchange] = None
        self._last_id = ""
        self.threads: list[threading.Thread] = []
        self.is_over = False
        self.has_stood = False

    def start(self, owner: str) -> None:
        """Start the thread; where there can be none, go on without the stream."""
        try:
            self.threads.append(spawn(owner, "get-stream", self._run))
        except RuntimeError as error:
            self._give_up(ConnectFailed(f"GET: no thread could be started: {error}"))

    def stop(self) -> None:
        """Have the thread end. From any thread; does not block."""
        self._stopped.open()
        exchange = self._exchange
        if exchange is not None:
            exchange.abort()

    def abandon(self) -> None:
        """In a forked child, where the thread does not exist: close the inherited socket."""
        if self._exchange is not None:
            self._exchange.drop()

    def _run(self) -> None:
        try:
            self._read_until_refused()
        except ReferenceError:
            pass  # The client is gone.
        except Exception as error:
            if not self._stopped.is_open:
                self._give_up(error)

    def _read_until_refused(self) -> None:
        attempts = Attempts()
        delay: Optional[int] = None
        while True:
            started, before = time.monotonic(), self._last_id
            try:
                ended = self._read()
                moved = self._last_id != before
                attempts = attempts.after(ended.messages, moved, time.monotonic() - started)
                fault = ended.fault
                delay = ended.retry if ended.retry is not None else delay
            except FOREIGN as error:
                fault = error
                attempts = attempts.after(0, False, 0.0)
            if self._stopped.is_open:
                return
            seconds = resume_delay(attempts, delay, self._retry)
            if seconds is None:
                text = f"GET: the stream of {self._peer} does not stay open"
                raise ConnectionLost(text) from root_of(fault)
            if self._stopped.wait(Deadline(seconds)):
                return

    def _read(self) -> Ended:
        self._exchange = exchange = Exchange(Deadline(None), self._connect_timeout)
        if self._stopped.is_open:
            exchange.abort()
        with closing(self._endpoint.get(self._last_id, exchange)) as reply:
            if not is_event_stream(reply):
                # A server that has no such stream may say 404, too.
                in_session = self._endpoint.in_session if self.has_stood else None
                self._reader.reject(reply, exchange, "GET", in_session)
            if not self._stopped.is_open:
                self._inbound.stream_stands(self.has_stood and not self._last_id)
            self.has_stood = True
            ended = self._reader.events(reply, exchange, None)
        assert ended is not None
        self._last_id = ended.last_id or self._last_id
        return ended

    def _give_up(self, error: Exception) -> None:
        exchange = self._exchange or Exchange(Deadline(None))
        fault = translated(error, exchange, "GET", self._peer)
        if not isinstance(fault, MCPError):
            raise fault
        logger.info("Going on without a stream of %s of its own: %s", self._peer, fault)
        self.is_over = True
        self._inbound.report(fault)
        self._inbound.stream_lost(fault)

"""Opening a connection: drives the negotiation over a channel, and lets any number of callers wait for it."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Optional

from .._concurrency.cancel import CancelToken
from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from .._protocol import methods
from .._protocol.eras import Era, HandshakeEra, StatelessEra
from .._protocol.frames import Frame, Wire
from .._protocol.negotiation import (
    Discover,
    FallBack,
    Initialize,
    LateAnswer,
    Negotiation,
    Restart,
    Step,
    Verdict,
)
from .._protocol.recovery import after_failure
from .._protocol.versions import TRAITS
from ..errors import CallTimeout, ConnectFailed, ConnectionLost, HTTPStatusError, MCPError, unsent
from ..options import Retry, Timeouts
from .call_options import NO_OPTIONS
from .connection import Connection
from .waits import settled_in_time

# How many times `Timeouts.probe` a server may take that has the probe for itself: see there.
_PATIENCE_WITH_EXCHANGES = 5


@dataclass(frozen=True)
class Identity:
    """How the client introduces itself.

    Attributes:
        client_info: Its ``Implementation``, as it is sent.
        capabilities: What it can do, in the words of a revision.
    """

    client_info: Mapping[str, Any]
    capabilities: Callable[[str], Mapping[str, Any]]


class Opener:
    """Opens one connection.

    Args:
        connect: Makes a new, unstarted connection and lets it be closed from outside.
        identity: How the client introduces itself.
        listening: Whether somebody takes what the server sends unasked.
        timeouts: The client's bounds.
        retry: How long a server may have the client wait.
        deadline: When the opening has to be done.
        connect_older: Does what ``connect`` does, over the older transport. Only where there is one.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        identity: Identity,
        listening: bool,
        timeouts: Timeouts,
        retry: Retry,
        deadline: Deadline,
        connect_older: Callable[[], Connection],
    ) -> None:
        self._connect = connect
        self._connect_older = connect_older
        self._identity = identity
        self._listening = listening
        self._timeouts = timeouts
        self._retry = retry
        self._deadline = deadline
        self._late: Optional[PendingCall] = None

    def open(self, negotiation: Negotiation) -> tuple[Connection, Verdict]:
        """Run a negotiation to its end.

        Raises:
            ConnectFailed, NegotiationFailed, CallTimeout, MCPError: It came to nothing. What was
                connected is for the caller to close.
        """
        self._patiently(self._start, self._connect)
        try:
            verdict = self._drive(negotiation)
            self._adopt(verdict)
        except ConnectionLost as error:
            if error.returncode is None:
                raise
            raise ConnectFailed(
                str(error), returncode=error.returncode, stderr_tail=error.stderr_tail
            ) from error.__cause__
        return self.connection, verdict

    def _start(self, connect: Callable[[], Connection]) -> None:
        self.connection = connect()
        self.connection.start(self._deadline)

    def _drive(self, negotiation: Negotiation) -> Verdict:
        outcome: Any = None
        while True:
            try:
                step = negotiation.send(outcome)
            except StopIteration as stop:
                verdict: Verdict = stop.value
                return verdict
            try:
                outcome = self._patiently(self._perform, step)
            except MCPError as error:
                if self._deadline.expired:
                    raise self._too_late() from error
                outcome = error

    def _patiently(self, act: Callable[[Any], Any], what: Any) -> Any:
        """Do something; again where the server has us wait."""
        failures: list[MCPError] = []
        try:
            while True:
                try:
                    return act(what)
                except HTTPStatusError as error:
                    failures.append(error)
                    left = self._deadline.remaining()
                    # As if it were ``initialize`` whatever it is: only who says so has the opening wait.
                    again = after_failure(
                        failures,
                        methods.INITIALIZE,
                        self._retry,
                        left,
                        reopens=False,
                        shared=True,
                        chance=random.random(),
                    )
                    if again is None:
                        raise
                self.connection.wait(methods.INITIALIZE, again.wait, None, self._deadline)
        finally:
            failures.clear()

    def _perform(self, step: Step) -> Any:
        if isinstance(step, Discover):
            return self._discover(step)
        if isinstance(step, Initialize):
            return self._initialize(step.version)
        if isinstance(step, Restart):
            self._end_connection()
            self._start(self._connect)
            return None
        if isinstance(step, FallBack):
            return self._fall_back()
        assert isinstance(step, LateAnswer)
        return self._late_answer()

    def _fall_back(self) -> Optional[MCPError]:
        """Go over to the older transport; return why it is not there."""
        self._end_connection()
        try:
            self._patiently(self._start, self._connect_older)
        except MCPError as error:
            return error
        return None

    def _end_connection(self) -> None:
        self.connection.channel.close(Deadline(self._timeouts.close))

    def _discover(self, step: Discover) -> Any:
        era = self._stateless(step.version)
        connection = self.connection
        connection.channel.configure(era.wire(False))
        if not step.probe:
            return connection.exchange(era, methods.DISCOVER, {}, NO_OPTIONS, self._deadline)
        return self._probe(connection, era)

    def _probe(self, connection: Connection, era: Era) -> Any:
        """Send the probe so that an answer which comes too late can still be read."""
        duplex, patience = connection.channel.duplex, self._timeouts.probe
        if patience is not None and not duplex:
            patience *= _PATIENCE_WITH_EXCHANGES
        bound = self._deadline.within(patience)
        # On a shared stream the call outlives the wait; a POST of its own ends with it.
        call = connection.new_call(methods.DISCOVER, self._deadline if duplex else bound)
        params = era.params({}, {})
        body = connection.encode(methods.DISCOVER.method, params, call.id)
        headers = era.headers(methods.DISCOVER, params)
        try:
            connection.dispatch(Frame(body, methods.DISCOVER.method, headers), call)
        except BaseException:
            connection.calls.pop(call.id, None)
            raise
        self._late = call
        if not call.wait(bound):
            text = f"{connection.channel.peer} did not answer server/discover"
            raise CallTimeout(text, timeout=bound.timeout, request_sent=call.request_sent)
        return self._late_answer(raising=True)

    def _late_answer(self, raising: bool = False) -> Any:
        call, self._late = self._late, None
        if call is None:
            return None
        self.connection.calls.pop(call.id, None)
        if not call.settled:
            return None
        try:
            return call.result()["result"]
        except MCPError:
            if raising:
                raise
            return None

    def _initialize(self, version: str) -> Any:
        connection = self.connection
        connection.channel.configure(Wire(sessions=True, resumable=True))
        params = {
            "protocolVersion": version,
            "capabilities": self._identity.capabilities(version),
            "clientInfo": self._identity.client_info,
        }
        era = HandshakeEra(version)
        return connection.exchange(era, methods.INITIALIZE, params, NO_OPTIONS, self._deadline)

    def _adopt(self, verdict: Verdict) -> None:
        connection = self.connection
        if self._late is not None:
            connection.calls.pop(self._late.id, None)
        if TRAITS[verdict.version].modern:
            era: Era = self._stateless(verdict.version, verdict.server)
            connection.channel.configure(era.wire(self._listening))
        else:
            era = HandshakeEra(verdict.version, verdict.server)
            # First without the GET stream: the server expects nothing before this notification.
            connection.channel.configure(era.wire(False))
            if verdict.server is not None:
                connection.notify("notifications/initialized", {}, self._deadline)
            if self._listening:
                connection.channel.configure(era.wire(True))
        connection.adopt(era)

    def _stateless(self, version: str, server: Optional[Mapping[str, Any]] = None) -> StatelessEra:
        identity = self._identity
        return StatelessEra(version, identity.client_info, identity.capabilities(version), server)

    def _too_late(self) -> CallTimeout:
        bound = self._deadline.timeout
        text = f"{self.connection.channel.peer} was not ready within {bound or 0:g} s (Timeouts.open)"
        text += self.connection.odd.since(0.0)
        return CallTimeout(text, timeout=bound, request_sent=False)


class Opening:
    """An opening under way, and all who wait for it.

    Args:
        target: How the target is named in errors.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self.thread: Optional[threading.Thread] = None
        self.waiters: list[PendingCall] = []
        self._over = False
        self._connection: Optional[Connection] = None
        self._error: Optional[BaseException] = None
        # Guards `waiters`, `_over`, `_connection` and `_error`. Re-entrant, as the engine's.
        self._lock = threading.RLock()

    def end(self, connection: Optional[Connection], error: Optional[BaseException] = None) -> None:
        """Wake all who wait. Only the first end counts."""
        with self._lock:
            if not self._over:
                # The frames of the error would keep the client alive, and each caller raises a copy anyway.
                self._connection, self._error = connection, error and error.with_traceback(None)
                self._over = True
        # Also the second time: a signal handler may have interrupted the first.
        for waiter in self.waiters:
            waiter.settle({})

    def join(self, deadline: Deadline, cancel: Optional[CancelToken]) -> Connection:
        """Wait for the end and return the connection.

        Raises:
            CallTimeout, CallCancelled: This caller waits no longer.
            MCPError: The opening failed.
        """
        waiter = PendingCall(0, "the opening of the connection", deadline)
        deadline.hold()  # The server has its own time to open; the call itself has not been sent yet.
        with self._lock:
            self.waiters.append(waiter)
            over = self._over
        if over:
            waiter.settle({})
        try:
            if not settled_in_time(waiter, cancel):
                bound = deadline.reached
                text = f"the connection to {self._target} was not open within {bound or 0:g} s"
                raise CallTimeout(text, timeout=bound, request_sent=False)
        finally:
            deadline.release()
        if self._error is not None:
            raise unsent(self._error)
        assert self._connection is not None
        return self._connection

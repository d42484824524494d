"""The life of a client: opening, reopening, closing, and what becomes of it in a forked child."""

from __future__ import annotations

import contextvars
import itertools
import logging
import random
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Protocol

from .._concurrency import fork
from .._concurrency.cancel import CancelToken
from .._concurrency.deadline import Deadline
from .._concurrency.locks import is_mine
from .._concurrency.threads import join_all, spawn
from .._protocol import methods
from .._protocol.eras import Era
from .._protocol.methods import MethodSpec
from .._protocol.negotiation import AUTO, Negotiation, negotiate, take_up
from .._protocol.versions import LATEST_MODERN
from ..errors import ClientClosed, ConnectFailed, Forked, MCPError, UsageError, another, unsent
from ..transports._base import Channel, Target
from . import known_servers
from .answers import Answers
from .call_options import NO_OPTIONS
from .connection import Connection
from .opening import Opener, Opening
from .plan import Plan
from .router import Router

logger = logging.getLogger("mcp_sync.session")


class Companion(Protocol):
    """Something with threads that lives as long as the client at most. Must not refer to the client.

    Attributes:
        threads: Those that run.
    """

    threads: list[threading.Thread]

    def stop(self) -> None:
        """Have the threads end. From any thread, more than once; does not block."""

    def after_fork_in_child(self) -> None:
        """Forget the parent's threads, and say so to whoever asks."""


@dataclass
class Live:
    """What has to be ended when the client is, or is forgotten. Holds no reference to the client."""

    router: Router
    connections: list[Connection] = field(default_factory=list)
    # Single operations only, so it needs no lock.
    companions: list[Companion] = field(default_factory=list)

    def discard(self) -> None:
        """End everything at once, waiting for nobody: for finalisers."""
        for connection in list(self.connections):
            connection.channel.discard()
        for companion in list(self.companions):
            companion.stop()
        self.router.close(Deadline(0.0))


class Lifecycle:
    """Keeps one client connected, by one connection at a time. Safe for any number of threads.

    Args:
        plan: What to connect to, and how.
        router: Takes what the server sends unasked.
        answers: Answers what the server asks.

    Attributes:
        takes_up: Whether the target names a session that exists already.
        opening_error: Why the last opening failed, ``None`` if it did not. For people who look.
    """

    def __init__(self, plan: Plan, router: Router, answers: Answers) -> None:
        self.plan = plan
        self.router = router
        self.answers = answers
        self.takes_up = getattr(plan.target, "session_id", None) is not None
        # Ids of a session that is taken up must not meet those of the process that began it.
        self._ids = itertools.count(random.getrandbits(48) if self.takes_up else 1)
        self._connection: Optional[Connection] = None
        self._live = Live(router)
        self._opening: Optional[Opening] = None
        self.opening_error: Optional[MCPError] = None
        self.counters = router.counters
        self._closed = False
        self._forked = False
        # Guards `_connection`, `_live`, `_opening`, `_closed` and `_forked`. Under it no I/O, and no waiting
        # but for the start of a thread. Re-entrant: a signal handler may close.
        self._lock = threading.RLock()
        # Not at the end of the interpreter: daemon threads that still wait would each raise, and be heard of.
        # The system closes what is open, and servers that are processes have their own end.
        weakref.finalize(self, self._live.discard).atexit = False
        fork.watch(self)

    # --- life cycle ------------------------------------------------------------------------------

    def connection(self, deadline: Deadline, cancel: Optional[CancelToken] = None) -> Connection:
        """Return a live connection; open one if there is none and the plan allows it.

        Raises:
            ClientClosed, Forked: There will be none.
            UsageError: A session that was not initialized.
            CallTimeout, CallCancelled: It was not open in time, or ``cancel`` was cancelled.
            MCPError: The opening failed, or the session was lost.
        """
        connection = self._connection
        if connection is not None and connection.error is None and not self._closed:
            return connection
        return self.open(deadline, cancel=cancel)

    def latest(self, deadline: Deadline, cancel: Optional[CancelToken] = None) -> Connection:
        """Return the connection that was in use last, even if it is lost; open one if there was none.

        Raises:
            MCPError: As `connection` does.
        """
        connection = self._connection
        if connection is None or self._closed:
            return self.connection(deadline, cancel)
        return connection

    @property
    def version(self) -> str:
        """The revision that was spoken last."""
        connection = self._connection
        return connection.era.version if connection is not None else LATEST_MODERN

    def _refuse_reopening(self, connection: Optional[Connection]) -> None:
        if self._forked:
            raise Forked("the session was opened in another process; open one in this process")
        if connection is None:
            raise UsageError("the session is not open yet: call initialize() or discover() first")
        if connection.error is not None:
            raise unsent(connection.error)

    def open(
        self,
        deadline: Deadline,
        negotiation: Optional[Callable[[], Negotiation]] = None,
        cancel: Optional[CancelToken] = None,
    ) -> Connection:
        """Return a live connection, opening one if there is none; join an opening that is under way.

        Each caller waits by its own deadline, and one that gives up spoils it for no other: the
        opening has a thread and a bound of its own. Only with a ``negotiation`` it is done where the
        plan does not allow it.

        Raises:
            UsageError: A signal handler asks, and the thread that it interrupts holds up the opening.
        """
        interrupts = is_mine(self._lock)
        with self._lock:
            if self._closed:
                raise ClientClosed("the client is closed")
            connection = self._connection
            if connection is not None and connection.error is None:
                return connection
            if negotiation is None and not self.plan.reopen:
                self._refuse_reopening(connection)
            if interrupts:
                raise UsageError(
                    "a signal handler cannot wait for the connection while the thread that it interrupts is "
                    "just about to open or change it; let it raise, set a flag, or start a thread"
                )
            opening = self._opening or self._begin_opening(negotiation)
        return opening.join(deadline, cancel)

    def _begin_opening(self, negotiation: Optional[Callable[[], Negotiation]]) -> Opening:
        opening = Opening(repr(self.plan.target))
        run = contextvars.copy_context().run
        try:
            opening.thread = spawn(
                self.plan.settings.name, "open", run, self._run_opening, opening, negotiation
            )
        except RuntimeError as error:
            raise ConnectFailed(f"no thread could be started: {error}") from error
        # The thread is there already, but it needs the lock to end.
        self._opening = opening
        return opening

    def _run_opening(self, opening: Opening, negotiation: Optional[Callable[[], Negotiation]]) -> None:
        connection: Optional[Connection] = None
        problem: Optional[BaseException] = None
        try:
            connection = self._open_now(negotiation)
            problem = self._install(connection)
        except BaseException as error:  # Whatever it is, it is raised where somebody waits.
            problem = error
        finally:
            self._note_opening(problem)
            with self._lock:
                self._opening = None
                spent = [] if problem is None else self._spent()
            opening.end(connection, problem)
            # Those who waited have their error already: a stubborn server may take seconds to end.
            self._drop(spent)

    def _note_opening(self, problem: Optional[BaseException]) -> None:
        """Remember how an opening went, without all that the frames of an error hold."""
        kept = another(problem) if isinstance(problem, MCPError) else None
        if kept is not None:
            kept.__cause__ = kept.__context__ = None
        self.opening_error = kept

    def _install(self, connection: Connection) -> Optional[MCPError]:
        """Make a connection the current one, unless it is dead or the client closed: return why."""
        with self._lock:
            if connection.error is None and not self._closed:
                self._connection = connection
                self.counters.connection()
                return None
        return ClientClosed("the client was closed while it opened") if self._closed else connection.error

    def _open_now(self, negotiation: Optional[Callable[[], Negotiation]]) -> Connection:
        plan = self.plan
        timeouts = plan.settings.timeouts
        self._drop(self._spent())
        deadline = Deadline(timeouts.open, pausable=True)
        opener = Opener(
            self._connect,
            plan.identity,
            plan.listening,
            timeouts,
            plan.settings.retry,
            deadline,
            self._connect_older,
        )
        identity = plan.target.identity()
        known = identity in known_servers.legacy or getattr(plan.target, "handshake_first", False)
        talk = negotiation() if negotiation is not None else self._negotiation(known)
        try:
            connection, verdict = opener.open(talk)
        except MCPError:
            known_servers.forget(identity)
            raise
        if plan.mode == AUTO and (verdict.remember or known):
            known_servers.legacy.note(identity, connection.era.handshake)
        known_servers.older_transport.note(identity, verdict.older_transport)
        self._set_up(connection, deadline)
        return connection

    def _negotiation(self, known_legacy: bool) -> Negotiation:
        mode = self.plan.mode
        if self.takes_up:
            return take_up(mode)
        falls_back = self._fallback() is not None
        known_older = falls_back and self.plan.target.identity() in known_servers.older_transport
        return negotiate(mode, known_legacy=known_legacy, falls_back=falls_back, known_older=known_older)

    def _fallback(self) -> Optional[Target]:
        """Return the same server over the older transport, if it may be one that speaks no other."""
        fallback: Optional[Target] = getattr(self.plan.target, "fallback", lambda: None)()
        return fallback

    def _connect_older(self) -> Connection:
        target = self._fallback()
        assert target is not None
        return self._connect(target)

    def _connect(self, target: Optional[Target] = None) -> Connection:
        settings = self.plan.settings
        channel = self._channel(target or self.plan.target)
        connection = Connection(channel, self.router, self._ids.__next__, settings.timeouts)
        with self._lock:
            if self._closed:
                raise ClientClosed("the client is closed")
            self._live.connections.append(connection)
        return connection

    def _channel(self, target: Target) -> Channel:
        return self._traced(target.channel(self.plan.settings), target)

    def _traced(self, channel: Channel, target: Target) -> Channel:
        trace = self.plan.trace
        if trace is None:
            return channel
        with fork.no_fork():
            from .credentials import secrets_given
        return trace.around(channel, self.plan.settings.name, secrets_given(target))

    def _spent(self) -> list[Connection]:
        """Return the connections that are of no use any more, not even to calls in flight.

        Only while an opening is under way, or has failed: then none of them is the current one.
        """
        return [each for each in self._live.connections if not each.calls.retiring]

    def _drop(self, spent: list[Connection]) -> None:
        """Clear connections away: reap the process, join the threads."""
        deadline = Deadline(self.plan.settings.timeouts.close)
        for connection in spent:
            connection.channel.close(deadline)
        with self._lock:
            self._live.connections[:] = [each for each in self._live.connections if each not in spent]

    def _set_up(self, connection: Connection, deadline: Deadline) -> None:
        """Tell a new session what its predecessor was told, or what it is to begin with."""
        era = connection.era
        level = self.plan.log_level
        wishes: list[tuple[MethodSpec, dict[str, Any]]] = []
        if level is not None and not era.level_per_request and "logging" in _capabilities(era):
            wishes.append((methods.SET_LEVEL, {"level": level}))
        if era.handshake:
            wishes += [(methods.SUBSCRIBE, {"uri": uri}) for uri in sorted(self.plan.subscriptions)]
        for spec, params in wishes:
            try:
                connection.exchange(era, spec, params, NO_OPTIONS, deadline)
            except MCPError as error:
                logger.warning("%s did not take %s: %s", connection.channel.peer, spec.method, error)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While in here, take what the server sends unasked: on this connection and on those that follow."""
        self._listen(1)
        try:
            yield
        finally:
            self._listen(-1)

    def _listen(self, change: int, anew: bool = False) -> None:
        with self._lock:
            before = self.plan.listening
            self.plan.listeners += change
            connection = self._connection
            changed = anew or before != self.plan.listening
            if changed and connection is not None and connection.error is None:
                if not self.plan.listening:
                    connection.watchers.forget_stream()
                connection.channel.configure(connection.era.wire(self.plan.listening))

    def accompany(self, companion: Companion) -> None:
        """Have something end with the client, and be renewed after a fork.

        Raises:
            ClientClosed: It is too late.
        """
        self._live.companions.append(companion)
        if self._closed:
            self.part(companion)
            raise ClientClosed("the client is closed")

    def part(self, companion: Companion) -> None:
        """End what `accompany` began."""
        with suppress(ValueError):
            self._live.companions.remove(companion)

    def listen_for(self, change: int) -> None:
        """Count one more (1), or less (-1), who takes what the server sends unasked; see `listening`.

        With 0, and with 1, a stream of such messages that could not be opened before is tried again.
        """
        self._listen(change, anew=change >= 0)

    def end(self) -> None:
        """Wake all who wait, with `ClientClosed`, and let no call begin. `close` sees to the rest."""
        with self._lock:
            self._closed = True
            connections = list(self._live.connections)
            opening = self._opening
        reason = ClientClosed("the client was closed")
        if opening is not None:
            opening.end(None, reason)
        for connection in connections:
            connection.lost(reason)
        for companion in list(self._live.companions):
            companion.stop()

    def close(self, deadline: Deadline) -> None:
        """End everything. Idempotent; waiters get `ClientClosed`. Never raises."""
        self.end()
        with self._lock:
            connections = list(self._live.connections)
            opening = self._opening
        for connection in connections:
            connection.channel.close(deadline)
        companions = list(self._live.companions)
        join_all((thread for each in companions for thread in each.threads), deadline)
        self.router.close(deadline)
        if opening is not None and opening.thread is not None:
            join_all([opening.thread], deadline)
        with self._lock:
            self._live.connections.clear()

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer."""
        return sum(len(connection.calls) for connection in list(self._live.connections))

    @property
    def is_lost(self) -> bool:
        """Whether there was a connection that is of no use any more."""
        connection = self._connection
        return connection is not None and connection.error is not None

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def after_fork_in_child(self) -> None:
        """Drop what belongs to the parent; open anew on next use, where the plan allows it."""
        self._lock = threading.RLock()
        for connection in self._live.connections:
            connection.channel.abandon()
        self._live.connections = []
        self._forked = self._connection is not None or self._forked
        self._connection = None
        self._opening = None
        self.router.after_fork_in_child()
        self.plan.subscriptions.after_fork_in_child()
        companions, self._live.companions = self._live.companions, []
        for companion in companions:
            companion.after_fork_in_child()


def _capabilities(era: Era) -> Mapping[str, Any]:
    capabilities = era.server.get("capabilities")
    return capabilities if isinstance(capabilities, dict) else {}

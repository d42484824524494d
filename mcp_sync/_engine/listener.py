"""The thread that keeps one subscription open, on whatever revision the server speaks."""

from __future__ import annotations

import logging
import random
import threading
import time
import weakref
from collections.abc import Mapping
from contextvars import copy_context
from typing import Any, Optional

from .._concurrency.bell import Bell
from .._concurrency.cancel import CancelToken
from .._concurrency.deadline import Deadline
from .._concurrency.threads import spawn
from .._protocol.methods import LISTEN, SUBSCRIBE, UNSUBSCRIBE
from .._protocol.recovery import Drops, after_failure, ends_resumption, reopening_delay
from .._protocol.subscription import ACKNOWLEDGED, Interest, Resync
from ..errors import (
    CallCancelled,
    CallTimeout,
    ClientClosed,
    ConnectFailed,
    Forked,
    HTTPStatusError,
    MCPError,
    RemoteError,
    another,
)
from .connection import NO_OPTIONS, CallOptions, Connection
from .engine import Engine
from .feed import CLOSED, FAILED, GRACEFUL, Feed

logger = logging.getLogger("mcp_sync.session")

# How long the head of a legacy server's own stream is waited for, in seconds: some send it with an event.
# Where the stream has broken off, nobody waits, and a server that is gone takes longer to be found out.
_HEAD, _HEAD_AGAIN = 1.0, 10.0


class Listener:
    """Fills a feed, and opens the subscription again where it breaks off.

    It refers weakly to the engine, and so keeps no client alive. See `lifecycle.Companion`.

    Args:
        engine: Where to listen.
        asked: What for.
        feed: Where events go.
        first: When the first acknowledgement has to be there; later ones get as much time.
        meta: Entries of the request's ``_meta``.

    Attributes:
        threads: The thread, once it runs.
    """

    def __init__(
        self, engine: Engine, asked: Interest, feed: Feed, first: Deadline, meta: Mapping[str, Any]
    ) -> None:
        self._engine = weakref.ref(engine)
        self._router = engine.router
        self._settings = engine.plan.settings
        self._subscriptions = engine.plan.subscriptions
        self._cache = engine.plan.cache
        self._reopens = engine.plan.reopen and not engine.takes_up
        self._asked = asked
        self._feed = feed
        self._first: Optional[Deadline] = first
        self._bounds = (first.timeout, first.silence)
        self._meta = meta
        self._token = CancelToken()
        self._changed = Bell()
        # Of the current attempt.
        self._is_acknowledged = False
        self._is_early = False
        # On revisions with a handshake.
        self._follows = False
        self._stands = self._has_stood = False
        self._over: Optional[MCPError] = None
        self._last: Optional[weakref.ref[Connection]] = None
        self._held: tuple[str, ...] = ()
        self.threads: list[threading.Thread] = []

    # --- life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread.

        Raises:
            ClientClosed: It is too late.
            ConnectFailed: There can be no thread.
        """
        engine = self._living_engine()
        engine.accompany(self)
        try:
            self.threads.append(spawn(self._settings.name, "listen", copy_context().run, self._run))
        except BaseException as error:
            engine.part(self)
            if isinstance(error, RuntimeError):
                raise ConnectFailed(f"no thread could be started: {error}") from error
            raise

    def stop(self) -> None:
        """Have the thread end, and tell the server. From any thread; does not block."""
        self._feed.end(CLOSED)
        self._token.cancel()
        self._changed.ring()

    def after_fork_in_child(self) -> None:
        """Forget the parent's thread; what it waits for is none of the child's business."""
        self.threads = []
        self._token = CancelToken()
        self._changed = Bell()
        engine = self._engine()
        if self._follows and engine is not None:
            engine.plan.listeners -= 1
        self._follows = False
        self._feed.after_fork_in_child(Forked("the subscription belongs to the process that opened it"))

    def _living_engine(self) -> Engine:
        engine = self._engine()
        if engine is None:
            raise ClientClosed("the client is gone")
        return engine

    def _run(self) -> None:
        try:
            self._keep_open()
            self._feed.end(GRACEFUL)
        except (ClientClosed, CallCancelled):
            self._feed.end(CLOSED)
        except BaseException as error:  # Also what a hook of the user raises: it belongs to the consumer.
            # A copy knows no frame that knows the feed.
            self._feed.end(FAILED, another(error) if isinstance(error, MCPError) else error)
        finally:
            self._leave()

    def _leave(self) -> None:
        """Undo what has been done for the subscription, as far as the client still lives."""
        engine = self._engine()
        if self._follows:
            self._router.unwatch(self._observe)
            if engine is not None:
                engine.listen_for(-1)
        left = [uri for uri in self._held if self._subscriptions.discard(uri, self)]
        if engine is None:
            return
        if not (engine.closed or engine.is_lost):
            self._unsubscribe(engine, left)
        engine.part(self)

    # --- opening it, and opening it again ----------------------------------------------------------------

    def _keep_open(self) -> None:
        """Listen until the server ends it in good order.

        Raises:
            MCPError: What cannot be mended, or has failed too often.
        """
        drops = Drops()
        failures: list[MCPError] = []
        delay: Optional[float] = None
        try:
            while self._feed.ended is None:
                began = time.monotonic()
                self._is_acknowledged = self._is_early = False
                try:
                    return self._attempt(self._first or Deadline(*self._bounds))
                except MCPError as error:
                    self._first = None
                    failures.append(error)
                    drops = drops.after(self._is_acknowledged, time.monotonic() - began)
                    delay = self._delay(failures, drops)
                    if delay is None:
                        raise
                    logger.info("A subscription is opened again in %.1f s: %s", delay, error)
                self._changed.wait(lambda: self._feed.ended is not None, Deadline(delay))
        finally:
            failures.clear()  # Errors know this frame: nothing shall wait for the garbage collector.

    def _delay(self, failures: list[MCPError], drops: Drops) -> Optional[float]:
        """Return the seconds until the next attempt, ``None`` if there is to be none."""
        retry, chance = self._settings.retry, random.random()
        if self._feed.honoured is None:
            # The caller still waits: the rules are those of any call.
            again = after_failure(
                failures, LISTEN, retry, None, reopens=self._reopens, shared=False, chance=chance
            )
            return None if again is None else again.wait
        error = failures.pop()
        failures.clear()
        if not self._reopens and self._living_engine().is_lost:
            return None
        return reopening_delay(drops, error, retry, chance=chance)

    def _attempt(self, deadline: Deadline) -> None:
        connection = self._living_engine().connection(deadline, self._token)
        if connection.era.handshake:
            self._follow(connection, deadline)
        else:
            self._listen(connection, deadline)

    # --- revisions without a handshake -------------------------------------------------------------------

    def _listen(self, connection: Connection, deadline: Deadline) -> None:
        """Make the request, which lasts as long as the subscription."""
        shared = connection.channel.duplex
        options = CallOptions(
            meta=self._meta,
            cancel=self._token,
            on_notification=lambda message: self._take(message, deadline, shared),
        )
        params = {"notifications": self._asked.as_filter()}
        try:
            connection.exchange(connection.era, LISTEN, params, options, deadline)
        except CallTimeout as error:
            raise unacknowledged(connection.channel.peer, error) from None
        if self._feed.honoured is None:
            # Over before it began. Who waits for the acknowledgement learns that nothing will come.
            self._feed.acknowledge(Interest())

    def _take(self, message: Mapping[str, Any], deadline: Deadline, shared: bool) -> None:
        """Take a notification for the subscription, on the thread that reads."""
        if message.get("method") == ACKNOWLEDGED:
            if not self._is_acknowledged:
                deadline.lift()
                self._acknowledge(self._asked.acknowledged(message), waits=not shared)
            return
        event = self._asked.event(message, shared=False)
        if event is None:
            return
        if not (self._is_acknowledged or self._is_early):
            self._is_early = True
            logger.warning("The server sent an event ahead of the acknowledgement of its subscription")
        self._feed.offer(event, waits=not shared)

    def _acknowledge(self, honoured: Interest, waits: bool) -> None:
        before = self._feed.honoured
        self._is_acknowledged = True
        lacking = self._asked.lacking(honoured)
        if lacking and honoured != before:
            logger.warning("The server has not agreed to tell of %s", ", ".join(lacking))
        self._feed.acknowledge(honoured)
        if before is not None:
            self._resync(waits)

    def _resync(self, waits: bool) -> None:
        if self._cache is not None:
            self._cache.lose_track()
        self._feed.offer(Resync(), waits)

    # --- revisions with a handshake ----------------------------------------------------------------------

    def _follow(self, connection: Connection, deadline: Deadline) -> None:
        """Take what the server tells everybody, until the connection ends or that stream does."""
        self._stands, self._over = not connection.channel.is_http or connection.channel.duplex, None
        connection.watchers.add(self)
        try:
            self._join(connection, deadline)
            # It may have been lost before the watch began.
            self._over = self._over or connection.error
            if self._over is None:
                self._agree(connection, deadline)
                self._changed.wait(self._is_done, Deadline(None))
        finally:
            connection.watchers.remove(self)
        if self._over is not None and self._feed.ended is None:
            raise another(self._over)

    def _join(self, connection: Connection, deadline: Deadline) -> None:
        """Have the server's own stream opened, where it is one apart, and wait until it stands."""
        engine = self._living_engine()
        if self._follows:
            engine.listen_for(0)
        else:
            self._follows = True
            self._router.watch(self._observe)
            engine.listen_for(1)
        del engine
        is_same = self._last is not None and self._last() is connection
        self._last = weakref.ref(connection)
        head = deadline.within(_HEAD_AGAIN if is_same else _HEAD)
        self._changed.wait(lambda: self._stands or self._is_done(), head)

    def _agree(self, connection: Connection, deadline: Deadline) -> None:
        honoured = self._asked.offered(connection.era.server.get("capabilities"))
        if self._feed.honoured is None:
            honoured = honoured.without(self._subscribe(honoured, deadline))
        else:
            # Whoever opened the session has told it what is subscribed to.
            honoured = honoured.without(uri for uri in honoured.resources if uri not in self._held)
        self._acknowledge(honoured, waits=False)

    def _subscribe(self, honoured: Interest, deadline: Deadline) -> list[str]:
        """Subscribe to the resources, and return those that the server refuses."""
        engine = self._living_engine()
        options = CallOptions(meta=self._meta, cancel=self._token)
        refused = []
        for uri in honoured.resources:
            self._subscriptions.add(uri, self)
            self._held = (*self._held, uri)
            try:
                engine.call_raw(SUBSCRIBE, {"uri": uri}, options, deadline)
            except RemoteError as error:
                logger.info("The server refuses the subscription to a resource: %s", error)
                self._subscriptions.discard(uri, self)
                self._held = self._held[:-1]
                refused.append(uri)
        return refused

    def _unsubscribe(self, engine: Engine, uris: list[str]) -> None:
        deadline = Deadline(self._settings.timeouts.close)
        for uri in uris:
            try:
                engine.call_raw(UNSUBSCRIBE, {"uri": uri}, NO_OPTIONS, deadline)
                if uri in self._subscriptions:  # Somebody has subscribed to it meanwhile.
                    engine.call_raw(SUBSCRIBE, {"uri": uri}, NO_OPTIONS, deadline)
            except MCPError as error:
                logger.debug("The subscription to a resource could not be ended: %s", error)

    def _is_done(self) -> bool:
        return self._over is not None or self._feed.ended is not None

    def _observe(self, message: Mapping[str, Any]) -> None:
        event = self._asked.event(message, shared=True)
        if event is not None:
            self._feed.offer(event, waits=False)

    def stands(self, gap: bool) -> None:
        """See `Watcher.stands`."""
        self._stands = self._has_stood = True
        if gap and self._is_acknowledged:
            self._resync(waits=False)
        self._changed.ring()

    def falls(self, error: MCPError) -> None:
        """See `Watcher.falls`."""
        is_refusal = isinstance(error, HTTPStatusError) and ends_resumption(error.status)
        if self._has_stood and not is_refusal:
            self.over(error)
            return
        logger.warning("The server has no stream of its own, so changes are heard of only during calls")
        self._stands = True
        self._changed.ring()

    def over(self, error: MCPError) -> None:
        """See `Watcher.over`."""
        self._over = error
        self._changed.ring()


def unacknowledged(peer: str, error: CallTimeout) -> CallTimeout:
    """Say that the acknowledgement did not come in time."""
    text = f"{LISTEN.method}: {peer} did not acknowledge the subscription within {error.timeout or 0:g} s"
    return CallTimeout(text, timeout=error.timeout, request_sent=error.request_sent)

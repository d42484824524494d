"""The thread that keeps one subscription open, on whatever revision the server speaks."""

from __future__ import annotations

import logging
import random
import threading
import time
import weakref
from collections.abc import Mapping
from contextvars import copy_context
from typing import Any, Optional, Union

from .._concurrency.bell import Bell
from .._concurrency.cancel import CancelToken
from .._concurrency.deadline import Deadline
from .._concurrency.threads import spawn
from .._protocol.methods import LISTEN
from .._protocol.recovery import Drops, after_failure, reopening_delay
from .._protocol.subscription import Event, Interest, Resync
from ..errors import (
    CallCancelled,
    ClientClosed,
    ConnectFailed,
    ConnectionLost,
    Forked,
    MCPError,
    MessageTooLarge,
    SessionExpired,
    another,
)
from .engine import Engine
from .feed import CLOSED, FAILED, GRACEFUL, Feed
from .listening import ByRequest, BySession

logger = logging.getLogger("mcp_sync.session")


class Listener:
    """Fills a feed, and opens the subscription again where it breaks off.

    What it does is divided: this class has the life, the attempts and the pauses between them; how one
    attempt goes, `listening.ByRequest` knows for revisions without a handshake, and `listening.BySession` for
    those with one. It refers weakly to the engine, and so keeps no client alive. See `lifecycle.Companion`.

    Each piece of its state is set by one thread, in single steps, and may be read by all:

    - ``feed.honoured``: by request, the reading thread; by session, its own, and the one that learns what
      becomes of the server's stream;
    - ``feed.ended``: its own thread, or whoever calls `stop`; only the first time counts;
    - ``is_acknowledged``: by request, the reading thread; by session, its own; its own takes it back before
      each attempt;
    - ``has_brought``: the reading threads; its own takes it back before each attempt;
    - ``_first``: its own thread, after the first attempt.

    Args:
        engine: Where to listen.
        asked: What for.
        feed: Where events go.
        first: When the first acknowledgement has to be there; later ones get as much time.
        meta: Entries of the request's ``_meta``.

    Attributes:
        asked: See above.
        feed: See above.
        meta: See above.
        token: Ends the request that an attempt waits for.
        changed: Rings when what an attempt waits for may have changed.
        is_acknowledged: Whether the current attempt is.
        has_brought: Whether the current attempt has brought an event.
        threads: The thread, once it runs.
    """

    def __init__(
        self, engine: Engine, asked: Interest, feed: Feed, first: Deadline, meta: Mapping[str, Any]
    ) -> None:
        self._engine = weakref.ref(engine)
        self._settings = engine.plan.settings
        self._cache = engine.plan.cache
        self._reopens = engine.plan.reopen and not engine.takes_up
        self.asked = asked
        self.feed = feed
        self.meta = meta
        self.token = CancelToken()
        self.changed = Bell()
        self.is_acknowledged = self.has_brought = False
        self.threads: list[threading.Thread] = []
        self._first: Optional[Deadline] = first
        self._bounds = (first.timeout, first.silence)
        self._by_request = ByRequest(self)
        self._by_session = BySession(self, engine)

    # --- life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread.

        Raises:
            ClientClosed: It is too late.
            ConnectFailed: There can be no thread.
        """
        engine = self.living_engine()
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
        self.feed.end(CLOSED)
        self.token.cancel()
        self.changed.ring()

    def after_fork_in_child(self) -> None:
        """Forget the parent's thread; what it waits for is none of the child's business."""
        self.threads = []
        self.token = CancelToken()
        self.changed = Bell()
        engine = self._engine()
        if engine is not None:
            self._by_session.forget(engine)
        self.feed.after_fork_in_child(Forked("the subscription belongs to the process that opened it"))

    def living_engine(self) -> Engine:
        """Return the engine; raise `ClientClosed` if nobody has it any more."""
        engine = self._engine()
        if engine is None:
            raise ClientClosed("the client is gone")
        return engine

    def _run(self) -> None:
        try:
            self._keep_open()
        except (ClientClosed, CallCancelled):
            self.feed.end(CLOSED)
        except BaseException as error:  # Also what a hook of the user raises: it belongs to the consumer.
            # A copy knows no frame that knows the feed.
            self.feed.end(FAILED, another(error) if isinstance(error, MCPError) else error)
        finally:
            self._leave()

    def _leave(self) -> None:
        """Undo what has been done for the subscription, as far as the client still lives."""
        engine = self._engine()
        self._by_session.leave(engine)
        if engine is not None:
            engine.part(self)

    # --- opening it, and opening it again ----------------------------------------------------------------

    def _keep_open(self) -> None:
        """Make attempts until the server ends one in good order, or this side ends them all.

        Raises:
            MCPError: What cannot be mended, or has failed too often.
        """
        drops = Drops(0, 1)
        failures: list[MCPError] = []
        is_warned = False
        try:
            while self.feed.ended is None:
                began, is_again = time.monotonic(), self.feed.honoured is not None
                self.is_acknowledged = self.has_brought = False
                try:
                    self._attempt(self._first or Deadline(*self._bounds))
                    self.feed.end(GRACEFUL)
                except MCPError as error:
                    self._first = None
                    failures.append(error)
                    seconds = time.monotonic() - began
                    if is_again:
                        drops = drops.after(self.is_acknowledged, seconds, self.has_brought, error)
                    delay = self._delay(failures, drops)
                    if delay is None and self._is_loop(error, drops):
                        raise _looped(error, drops) from another(error)
                    if delay is None:
                        raise
                    is_news = isinstance(error, MessageTooLarge) and not is_warned
                    is_warned = is_warned or is_news
                    level = logging.WARNING if is_news else logging.INFO
                    logger.log(level, "A subscription is opened again in %.1f s: %s", delay, error)
                    self.changed.wait(lambda: self.feed.ended is not None, Deadline(delay))
        finally:
            failures.clear()  # Errors know this frame: nothing shall wait for the garbage collector.

    def _attempt(self, deadline: Deadline) -> None:
        """Listen until the server ends it in good order; raise whatever else ends it."""
        connection = self.living_engine().connection(deadline, self.token)
        way: Union[ByRequest, BySession] = self._by_request
        if connection.era.handshake:
            way = self._by_session
        way.listen(connection, deadline)

    def _delay(self, failures: list[MCPError], drops: Drops) -> Optional[float]:
        """Return the seconds until the next attempt, ``None`` if there is to be none."""
        if self.feed.honoured is None:
            return self._delay_of_call(failures)
        error = failures.pop()
        failures.clear()
        if not self._reopens and self.living_engine().is_lost:
            return None
        return reopening_delay(drops, error, self._settings.retry, chance=random.random())

    def _is_loop(self, error: MCPError, drops: Drops) -> bool:
        """Whether to tell that the server opens and closes for ever, and not that it cannot be had."""
        is_closed = isinstance(error, (ConnectionLost, SessionExpired))
        return is_closed and 0 < self._settings.retry.listen <= drops.failures

    def _delay_of_call(self, failures: list[MCPError]) -> Optional[float]:
        """Return the same while the caller of ``listen`` still waits: by the rules of any call."""
        retry, reopens, chance = self._settings.retry, self._reopens, random.random()
        again = after_failure(failures, LISTEN, retry, None, reopens=reopens, shared=False, chance=chance)
        return None if again is None else again.wait

    # --- for the attempts --------------------------------------------------------------------------------

    def acknowledge(self, honoured: Interest, waits: bool) -> None:
        """Take what the server agreed to tell; the second time, events may have been lost.

        Args:
            honoured: What it is.
            waits: As for `Feed.offer`.
        """
        before = self.feed.honoured
        self.is_acknowledged = True
        lacking = self.asked.lacking(honoured)
        if lacking and honoured != before:
            logger.warning("The server has not agreed to tell of %s", ", ".join(lacking))
        self.feed.acknowledge(honoured)
        if before is not None:
            self.resync(waits)

    def offer(self, event: Event, waits: bool) -> None:
        """Take an event; see `Feed.offer`."""
        self.has_brought = True
        self.feed.offer(event, waits)

    def resync(self, waits: bool) -> None:
        """Say that events may have been lost."""
        if self._cache is not None:
            self._cache.lose_track()
        self.feed.offer(Resync(), waits)


def _looped(error: MCPError, drops: Drops) -> MCPError:
    """Return the error of the last attempt, with what came of all and what can be done."""
    text = (
        f"{LISTEN.method}: the subscription was opened again {drops.failures} times in a row, and broke off "
        f"soon each time without an event (Retry.listen): {error}. Look at what ends the stream, the server "
        "or a proxy; until then ask with calls, from time to time, for what may have changed"
    )
    twin = another(error)
    twin.args = (text,)
    return twin

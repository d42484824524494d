"""Watching a server: subscriptions, and the events that they bring. See "Subscriptions" in the specification.

>>> with client.listen(tools=True, resources=["file:///notes.txt"]) as events:
...     for event in events:
...         if isinstance(event, ResourceUpdated):
...             print(client.read_resource(event.uri))
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Callable, Optional

from ._arguments import as_uri
from ._concurrency.deadline import Deadline
from ._concurrency.threads import join_all
from ._concurrency.workers import Workers
from ._engine.feed import CLOSED, FAILED, Feed
from ._engine.listener import Listener
from ._engine.listening import unacknowledged
from ._engine.router import Router
from ._protocol.methods import SUBSCRIBE
from ._protocol.subscription import (
    Event,
    Interest,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    Resync,
    ToolsChanged,
)
from .errors import CallTimeout, ClientClosed, NotSupported, UsageError, another
from .options import check_seconds

if TYPE_CHECKING:
    from ._watch_verbs import WatchVerbs

__all__ = [
    "Event",
    "Interest",
    "PromptsChanged",
    "ResourceUpdated",
    "ResourcesChanged",
    "Resync",
    "Subscription",
    "ToolsChanged",
]

logger = logging.getLogger("mcp_sync.session")
callback_logger = logging.getLogger("mcp_sync.callbacks")

EventCallback = Callable[[Event], Any]
"""``on_event(event)``"""

_FOREVER = Deadline(None)
# How many events are passed on before other callbacks have a turn.
_TURN = 100


class Subscription:
    """An open subscription: an iterator of events, and a context manager that ends it. Made by ``listen``.

    Any thread may consume it, or `close` it. It has a thread that reads from the server, and that opens it
    again when it broke off (see `Retry.listen`); then a `Resync` follows, since events may be lost.

    The loop ends when the server ends the subscription in good order, when it is closed, or its client is.
    It raises what cannot be mended: the error of the last attempt, `Forked` in a forked child. Events that
    have come before are consumed first, unless this side closed it.

    At most ``Limits.queue_length`` events wait. When there are more, a server over HTTP (2026-07-28) has to
    wait; on a channel that other messages share, events that wait already are not repeated, and if that is
    not enough, one `Resync` replaces all.

    A subscription that is forgotten is closed; one with a callback is kept by its client, and so is the view
    (`Client.for_principal`) that it was made with.

    Attributes:
        asked: What was asked for.
        on_event: The callback, ``None`` where somebody waits for events.
    """

    def __init__(self, feed: Feed, listener: Listener, asked: Interest, timeout: Optional[float]) -> None:
        self._feed = feed
        self._listener = listener
        self.asked = asked
        self._timeout = timeout
        # Where somebody waits for events, the client must live as long as they do; a view always.
        self._session: Optional[WatchVerbs] = None
        self.on_event: Optional[EventCallback] = None
        self._forgotten = weakref.finalize(self, listener.stop)
        self._forgotten.atexit = False

    def __repr__(self) -> str:
        state = self.ended or "open"
        return f"<Subscription to {self.asked!r}, {state}>"

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def honoured(self) -> Interest:
        """What the server has agreed to tell; may be less than was asked for.

        Nothing, up to 2025-11-25, while the server has no stream of its own: changes that it tells of during
        calls come all the same.
        """
        return self._feed.honoured or Interest()

    @property
    def ended(self) -> Optional[str]:
        """``"graceful"`` (by the server), ``"closed"`` (by this side) or ``"failed"``; ``None`` before."""
        return self._feed.ended

    @property
    def error(self) -> Optional[BaseException]:
        """Why it failed, ``None`` if it has not."""
        return self._feed.error

    def __iter__(self) -> Subscription:
        self._check_no_callback()
        return self

    def __next__(self) -> Event:
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    def next(self, timeout: Optional[float] = None) -> Optional[Event]:
        """Return the next event, ``None`` when it has ended or none has come in time.

        Args:
            timeout: Seconds to wait, ``None`` for no bound.

        Raises:
            UsageError: The subscription has a callback, or ``timeout`` is no number of seconds.
            MCPError: The subscription has failed.
        """
        self._check_no_callback()
        check_seconds("timeout", timeout)
        event = self._feed.take(_FOREVER if timeout is None else Deadline(timeout))
        if event is None and self.ended == FAILED:
            assert self.error is not None
            raise another(self.error)
        return event

    def _check_no_callback(self) -> None:
        if self._feed.on_news is not None:
            raise UsageError("the events of this subscription go to its on_event")

    def close(self) -> None:
        """End it, and tell the server. Idempotent, from any thread; a loop over it ends without an error."""
        self._listener.stop()
        self._feed.drop()
        join_all(self._listener.threads, Deadline(self._timeout))


def listen(
    session: WatchVerbs,
    asked: Interest,
    on_event: Optional[EventCallback],
    deadline: Deadline,
    meta: Mapping[str, Any] = MappingProxyType({}),
) -> Subscription:
    """Open a subscription; see `client.listen`."""
    engine = session._engine
    settings = engine.plan.settings
    peer = engine.connection(deadline).channel.peer
    feed = Feed(settings.limits.queue_length)
    listener = Listener(engine, asked, feed, deadline, meta)
    subscription = Subscription(feed, listener, asked, settings.timeouts.close)
    if on_event is None:
        subscription._session = session
    else:
        subscription.on_event = on_event
        feed.on_news = Delivery(weakref.ref(subscription), feed, engine.router).wake
    try:
        listener.start()
        if not feed.wait_until_acknowledged(deadline):
            raise unacknowledged(peer, CallTimeout("", timeout=deadline.reached, request_sent=True))
        if feed.honoured is None:
            _raise_end(feed)
    except BaseException:
        subscription.close()
        raise
    if on_event is not None:
        # Nobody else has to keep it.
        _keep(session, subscription)
        owner: Optional[WatchVerbs] = getattr(session, "_client", None)
        if owner is not None:
            # Of a view, which the client keeps as long: it is mostly forgotten as soon as its work is done.
            subscription._session = session
            _keep(owner, subscription)
    return subscription


def _keep(session: WatchVerbs, subscription: Subscription) -> None:
    # Single operations only, so the list needs no lock.
    session._subscriptions.append(subscription)
    for each in list(session._subscriptions):
        if each.ended is not None:
            with suppress(ValueError):
                session._subscriptions.remove(each)


def _raise_end(feed: Feed) -> None:
    if feed.ended == CLOSED:
        raise ClientClosed("the client was closed")
    assert feed.error is not None
    raise another(feed.error)


def interest(tools: Any, prompts: Any, resource_list: Any, resources: Any) -> Interest:
    """Make one of what the user passed.

    Raises:
        UsageError: It makes no sense, or is empty.
    """
    for name, value in (("tools", tools), ("prompts", prompts), ("resource_list", resource_list)):
        if not isinstance(value, bool):
            raise UsageError(f"{name} must be True or False, not {type(value).__name__}")
    if isinstance(resources, (str, bytes, Mapping)) or not isinstance(resources, Iterable):
        raise UsageError(f"resources must be a list of URIs, not {type(resources).__name__}")
    asked = Interest(tools, prompts, resource_list, tuple(dict.fromkeys(map(as_uri, resources))))
    if not asked:
        raise UsageError("listen() needs something to listen for: tools, prompts, resource_list or resources")
    return asked


def subscribe(session: WatchVerbs, uri: str, deadline: Deadline, meta: Mapping[str, Any]) -> None:
    """Have the ``message_handler`` hear of a resource, where a subscription is a request.

    Raises:
        NotSupported: The server does not tell of it.
    """
    if any(each.ended is None for each in _subscribed(session, uri)):
        return
    subscription = listen(session, Interest(resources=(uri,)), _ignore, deadline, meta)
    if not subscription.honoured:
        subscription.close()
        version = session._engine.connection(deadline).era.version
        text = f"{SUBSCRIBE.method}: the server does not tell of changes of this resource"
        raise NotSupported(text, method=SUBSCRIBE.method, version=version)


def unsubscribe(session: WatchVerbs, uri: str) -> None:
    """End what `subscribe` began."""
    for subscription in _subscribed(session, uri):
        subscription.close()


def _subscribed(session: WatchVerbs, uri: str) -> list[Subscription]:
    asked = Interest(resources=(uri,))
    own = [each for each in session._subscriptions if each._session in (None, session)]
    return [each for each in own if each.on_event is _ignore and each.asked == asked]


def _ignore(event: Event) -> None:
    """The ``message_handler`` has got it as a notification."""


class Delivery:
    """Passes the events of a feed on to a callback, in order, on the thread of the client's callbacks."""

    def __init__(self, subscription: weakref.ref[Subscription], feed: Feed, router: Router) -> None:
        # Weakly: its callback mostly refers to the client, which this must not keep alive.
        self._subscription = subscription
        self._feed = feed
        self._router = weakref.ref(router)
        self._worker: Workers = router.worker
        # Guards the flag. Re-entrant: a signal handler may close.
        self._lock = threading.RLock()
        self._is_due = False
        self._has_failed = False

    def wake(self) -> bool:
        """See to it that what waits is passed on; return ``False`` when the client is closed."""
        with self._lock:
            if self._is_due:
                return True
            self._is_due = True
        if self._worker.submit(self._run, urgent=True):
            return True
        self._is_due = False
        return False

    def _run(self) -> None:
        # Before the first event is taken: what comes from now on makes another turn due.
        self._is_due = False
        while True:
            for _ in range(_TURN):
                event = self._feed.take(Deadline(0.0))
                if event is None:
                    self._note_failure()
                    return
                self._pass_on(event)
            if self.wake():
                return

    def _pass_on(self, event: Event) -> None:
        subscription = self._subscription()
        if subscription is None or subscription.on_event is None:
            return
        try:
            subscription.on_event(event)
        except ClientClosed:
            callback_logger.debug("on_event came too late to use the client")
        except BaseException:  # As the worker has it: this is its thread.
            callback_logger.exception("on_event failed")

    def _note_failure(self) -> None:
        error, router = self._feed.error, self._router()
        if self._feed.ended != FAILED or error is None or self._has_failed:
            return
        self._has_failed = True
        logger.warning("A subscription is given up: %s", error)
        if router is not None and isinstance(error, Exception):
            router.report(error)

"""How a subscription is listened to: by a request, or by what a session brings unasked."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from .._concurrency.deadline import Deadline
from .._protocol.brief import excerpt
from .._protocol.eras import COMPLETE
from .._protocol.methods import LISTEN, SUBSCRIBE, UNSUBSCRIBE
from .._protocol.recovery import ends_resumption, stood_long
from .._protocol.subscription import ACKNOWLEDGED, Interest
from ..errors import (
    CallTimeout,
    ConnectionLost,
    HTTPStatusError,
    InvalidResult,
    MCPError,
    RemoteError,
    another,
)
from .call_options import NO_OPTIONS, CallOptions
from .connection import Connection

if TYPE_CHECKING:
    from .engine import Engine
    from .listener import Listener

logger = logging.getLogger("mcp_sync.session")

# How long the head of a legacy server's own stream is waited for, in seconds: some send it with an event.
# Where the stream has broken off, nobody waits, and a server that is gone takes longer to be found out.
_HEAD, _HEAD_AGAIN = 1.0, 10.0


class ByRequest:
    """Revisions without a handshake: one request lasts as long as the subscription.

    Args:
        listener: What it belongs to.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        # Whether the current attempt has brought an event too early. Set by the reading thread.
        self._is_early = False

    def listen(self, connection: Connection, deadline: Deadline) -> None:
        """Make the request, and wait for its end.

        Raises:
            InvalidResult: It had an answer, but never an acknowledgement; or one that is not the final one.
        """
        listener, shared = self._listener, connection.channel.duplex
        self._is_early = False
        options = CallOptions(
            meta=listener.meta,
            cancel=listener.token,
            on_notification=lambda message: self._take(message, deadline, shared),
        )
        params = {"notifications": listener.asked.as_filter()}
        try:
            result = connection.exchange(connection.era, LISTEN, params, options, deadline)
        except CallTimeout as error:
            raise unacknowledged(connection.channel.peer, error) from None
        kind = connection.era.result_kind(result)
        if kind != COMPLETE:
            shown = excerpt(repr(kind))
            raise InvalidResult(f"{LISTEN.method} cannot have a result of the kind {shown}", result=result)
        if not listener.is_acknowledged:
            peer = connection.channel.peer
            text = f"{LISTEN.method}: {peer} ended the subscription before it had acknowledged it"
            raise InvalidResult(text, result=result)

    def _take(self, message: Mapping[str, Any], deadline: Deadline, shared: bool) -> None:
        """Take a notification for the subscription, on the thread that reads."""
        listener = self._listener
        if message.get("method") == ACKNOWLEDGED:
            if not listener.is_acknowledged:
                deadline.lift()
                listener.acknowledge(listener.asked.acknowledged(message), waits=not shared)
            return
        event = listener.asked.event(message, shared=False)
        if event is None:
            return
        if not (listener.is_acknowledged or self._is_early):
            self._is_early = True
            logger.warning("The server sent an event ahead of the acknowledgement of its subscription")
        listener.offer(event, waits=not shared)


class BySession:
    """Revisions with a handshake: what a session brings unasked. Watches the connection, as a `Watcher`.

    Of its state the thread of the listener sets ``_counts``, ``_held``, ``_last`` and ``_agreed``, which
    outlive an attempt. The threads that read set ``_is_settled``, ``_has_stood``, ``_lacks_stream`` and
    ``_over``, and ring; the first and the last are taken back before each attempt. They alone set ``_since``
    and ``_is_of_use``.

    Args:
        listener: What it belongs to.
        engine: Whose sessions these are.
    """

    def __init__(self, listener: Listener, engine: Engine) -> None:
        self._listener = listener
        self._router = engine.router
        self._settings = engine.plan.settings
        self._subscriptions = engine.plan.subscriptions
        # Whether the engine counts it among those who listen.
        self._counts = False
        # The resources that the session is subscribed to on its behalf.
        self._held: tuple[str, ...] = ()
        # The connection of the last attempt.
        self._last: Optional[weakref.ref[Connection]] = None
        # What the server agreed to tell, whether or not there is a stream to tell it on.
        self._agreed = Interest()
        # Whether it is known if the server has a stream of its own; if one has ever stood; if there is none.
        self._is_settled = self._has_stood = self._lacks_stream = False
        # Since when the server's stream stands, and whether it has brought an event since.
        self._since, self._is_of_use = 0.0, False
        # Why the attempt is over.
        self._over: Optional[MCPError] = None

    # --- one attempt -------------------------------------------------------------------------------------

    def listen(self, connection: Connection, deadline: Deadline) -> None:
        """Take what the server tells everybody, until the connection ends or that stream does."""
        listener = self._listener
        self._is_settled, self._over = not connection.channel.is_http or connection.channel.duplex, None
        self._lacks_stream = False
        connection.watchers.add(self)
        try:
            self._join(connection, deadline)
            # It may have been lost before the watch began.
            self._over = self._over or connection.error
            if self._over is None:
                self._agree(connection, deadline)
                listener.changed.wait(self._is_done, Deadline(None))
        finally:
            connection.watchers.remove(self)
        if self._over is not None and listener.feed.ended is None:
            raise another(self._over)

    def _join(self, connection: Connection, deadline: Deadline) -> None:
        """Have the server's own stream opened, where it is one apart, and wait until it stands."""
        engine = self._listener.living_engine()
        if self._counts:
            engine.listen_for(0)  # Nobody more; but a stream that could not be opened is tried again.
        else:
            self._counts = True
            self._router.watch(self._observe)
            engine.listen_for(1)
        del engine
        is_same = self._last is not None and self._last() is connection
        self._last = weakref.ref(connection)
        head = deadline.within(_HEAD_AGAIN if is_same else _HEAD)
        self._listener.changed.wait(lambda: self._is_settled or self._is_done(), head)

    def _agree(self, connection: Connection, deadline: Deadline) -> None:
        listener = self._listener
        honoured = listener.asked.offered(connection.era.server.get("capabilities"))
        if listener.feed.honoured is None:
            honoured = honoured.without(self._subscribe(honoured, deadline))
        else:
            # Whoever opened the session has told it what is subscribed to.
            honoured = honoured.without(uri for uri in honoured.resources if uri not in self._held)
        self._agreed = honoured
        listener.acknowledge(Interest() if self._lacks_stream else honoured, waits=False)

    def _subscribe(self, honoured: Interest, deadline: Deadline) -> list[str]:
        """Subscribe to the resources, and return those that the server refuses."""
        engine = self._listener.living_engine()
        options = CallOptions(meta=self._listener.meta, cancel=self._listener.token)
        refused = []
        for uri in honoured.resources:
            self._subscriptions.add(uri, self._listener)
            self._held = (*self._held, uri)
            try:
                engine.call_raw(SUBSCRIBE, {"uri": uri}, options, deadline)
            except RemoteError as error:
                logger.info("The server refuses the subscription to a resource: %s", error)
                self._subscriptions.discard(uri, self._listener)
                self._held = self._held[:-1]
                refused.append(uri)
        return refused

    # --- the end -----------------------------------------------------------------------------------------

    def leave(self, engine: Optional[Engine]) -> None:
        """Undo what has been done for the subscription, as far as the client still lives."""
        if self._counts:
            self._router.unwatch(self._observe)
            if engine is not None:
                engine.listen_for(-1)
        left = [uri for uri in self._held if self._subscriptions.discard(uri, self._listener)]
        if engine is not None and not (engine.closed or engine.is_lost):
            self._unsubscribe(engine, left)

    def forget(self, engine: Engine) -> None:
        """Forget, in a forked child, what the parent has done."""
        if self._counts:
            engine.plan.listeners -= 1
        self._counts = False

    def _unsubscribe(self, engine: Engine, uris: list[str]) -> None:
        deadline = Deadline(self._settings.timeouts.close)
        for uri in uris:
            try:
                engine.call_raw(UNSUBSCRIBE, {"uri": uri}, NO_OPTIONS, deadline)
                if uri in self._subscriptions:  # Somebody has subscribed to it meanwhile.
                    engine.call_raw(SUBSCRIBE, {"uri": uri}, NO_OPTIONS, deadline)
            except MCPError as error:
                logger.debug("The subscription to a resource could not be ended: %s", error)

    # --- what the reading threads tell -------------------------------------------------------------------

    def _is_done(self) -> bool:
        return self._over is not None or self._listener.feed.ended is not None

    def _observe(self, message: Mapping[str, Any]) -> None:
        event = self._listener.asked.event(message, shared=True)
        if event is not None:
            self._is_of_use = True
            self._listener.offer(event, waits=False)

    def stands(self, gap: bool) -> None:
        """See `Watcher.stands`."""
        self._is_settled = self._has_stood = True
        is_of_use, was_long = self._is_of_use, stood_long(time.monotonic() - self._since)
        self._since, self._is_of_use = time.monotonic(), False
        if self._lacks_stream:
            self._lacks_stream = False
            if self._listener.is_acknowledged:
                self._listener.feed.acknowledge(self._agreed)
        if gap and self._listener.is_acknowledged:
            if is_of_use or was_long:
                self._listener.resync(waits=False)
            else:
                # What follows tells of the gap, after a pause: the server may do so for ever.
                self._over = ConnectionLost("the server's own stream broke off soon, without an event")
        self._listener.changed.ring()

    def falls(self, error: MCPError) -> None:
        """See `Watcher.falls`."""
        is_refusal = isinstance(error, HTTPStatusError) and ends_resumption(error.status)
        if self._has_stood and not is_refusal:
            self.over(error)
            return
        logger.warning("The server has no stream of its own, so changes are heard of only during calls")
        self._lacks_stream = True
        if self._listener.is_acknowledged:
            self._listener.feed.acknowledge(Interest())
        self._is_settled = True
        self._listener.changed.ring()

    def over(self, error: MCPError) -> None:
        """See `Watcher.over`."""
        self._over = error
        self._listener.changed.ring()


def unacknowledged(peer: str, error: CallTimeout) -> CallTimeout:
    """Say that the acknowledgement did not come in time."""
    text = f"{LISTEN.method}: {peer} did not acknowledge the subscription within {error.timeout or 0:g} s"
    return CallTimeout(text, timeout=error.timeout, request_sent=error.request_sent)

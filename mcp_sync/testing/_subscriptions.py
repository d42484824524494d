"""``subscriptions/listen``: how the fake server tells what changes, and how it misbehaves on demand."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from .._concurrency.deadline import Deadline
from ._rpc import META_SUBSCRIPTION, Message, notification

if TYPE_CHECKING:
    from ._exchange import Exchange
    from ._server import FakeServer

TASK_IDS = "taskIds"
_URIS = "resourceSubscriptions"
_RESOURCE_UPDATED = "notifications/resources/updated"
_TASK_CHANGED = "notifications/tasks"

_LIST_FILTERS = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
# What a server has to declare if it is to honour a field of the filter.
_CAPABILITIES = {
    "toolsListChanged": ("tools", "listChanged"),
    "promptsListChanged": ("prompts", "listChanged"),
    "resourcesListChanged": ("resources", "listChanged"),
    _URIS: ("resources", "subscribe"),
}


@dataclass(frozen=True)
class Listening:
    """How a ``subscriptions/listen`` is served; the defaults are what the specification asks for.

    ::

        server.listen_with(Listening(ends_after=0), Listening())  # the first one ends at once, no other does

    Attributes:
        acknowledges: Whether the acknowledgement comes.
        honours: The fields of the filter that are honoured, ``None`` for all that the server knows.
        early: Events that come ahead of the acknowledgement, as pairs of method and params.
        flood: How often each event of the filter comes by itself, right after the acknowledgement.
        ends_after: The number of events after which it ends by itself, ``None`` for never.
        graceful: Whether it ends with a result. Without, an event stream just ends; on a channel that all
            messages share nothing tells of it (a `Fault` can break such a channel).
        subscription_id: What events carry, default: the id of the request, as they have to.
    """

    acknowledges: bool = True
    honours: Optional[Collection[str]] = None
    early: Sequence[tuple[str, Message]] = ()
    flood: int = 0
    ends_after: Optional[int] = None
    graceful: bool = True
    subscription_id: Any = None


class Subscription:
    """One ``subscriptions/listen`` request. Its own thread sends everything, so that the order holds.

    Attributes:
        agreed: The part of the filter that is honoured.
    """

    def __init__(self, exchange: Exchange, plan: Listening) -> None:
        self._exchange = exchange
        self._plan = plan
        self.agreed = _agreed(exchange, plan)
        self._outbox: queue.SimpleQueue[Optional[Message]] = queue.SimpleQueue()
        self._graceful = plan.graceful
        exchange.on_cancel(self.end)

    def offer(self, method: str, params: Message) -> None:
        """Take a notification, if the filter asks for it."""
        if method == _RESOURCE_UPDATED:
            wanted = params.get("uri") in self.agreed.get(_URIS, ())
        elif method == _TASK_CHANGED:
            wanted = params.get("taskId") in self.agreed.get(TASK_IDS, ())
        else:
            wanted = bool(self.agreed.get(_LIST_FILTERS.get(method, "")))
        if wanted:
            self._outbox.put(self._event(method, params))

    def end(self, graceful: bool = True) -> None:
        """Let `run` return once everything has been sent."""
        self._graceful = self._graceful and graceful
        self._outbox.put(None)

    def run(self) -> Optional[Message]:
        """Acknowledge, then send what is offered until the end."""
        plan, send = self._plan, self._exchange.send
        for method, params in plan.early:
            send(self._event(method, params))
        if plan.acknowledges:
            send(self._event("notifications/subscriptions/acknowledged", {"notifications": self.agreed}))
        for message in itertools.islice(self._events(), plan.ends_after):
            send(message)
        return self._marked({}) if self._graceful else None

    def _events(self) -> Iterator[Message]:
        own = list(self._own_events())
        for _ in range(self._plan.flood):
            for message in own:
                if self._exchange.cancelled.is_set():
                    return
                yield message
        yield from iter(self._outbox.get, None)

    def _own_events(self) -> Iterator[Message]:
        for method, field in _LIST_FILTERS.items():
            if self.agreed.get(field):
                yield self._event(method, {})
        for uri in self.agreed.get(_URIS, ()):
            yield self._event(_RESOURCE_UPDATED, {"uri": uri})

    def _event(self, method: str, params: Message) -> Message:
        return notification(method, self._marked(params))

    def _marked(self, params: Message) -> Message:
        own_id = self._plan.subscription_id
        marked = self._exchange.message["id"] if own_id is None else own_id
        return {**params, "_meta": {**params.get("_meta", {}), META_SUBSCRIPTION: marked}}


def _agreed(exchange: Exchange, plan: Listening) -> Message:
    wanted = exchange.params.get("notifications")
    wanted = wanted if isinstance(wanted, dict) else {}
    server = exchange.connection.server
    agreed = {field: wanted[field] for field in _CAPABILITIES if wanted.get(field) and _serves(server, field)}
    own = {task.id for task in server.tasks.all() if task.principal == exchange.principal}
    known = [task_id for task_id in wanted.get(TASK_IDS) or () if task_id in own]
    if known:
        agreed[TASK_IDS] = known
    return {field: value for field, value in agreed.items() if plan.honours is None or field in plan.honours}


def _serves(server: FakeServer, field: str) -> bool:
    area, feature = _CAPABILITIES[field]
    return server.supports(area, feature)


class Subscriptions:
    """The subscriptions that are open at a server, and the plans for those to come."""

    def __init__(self) -> None:
        # Guards everything below; who waits for subscriptions waits on it.
        self._changed = threading.Condition()
        self._open: list[Subscription] = []
        self._plans: list[Listening] = [Listening()]

    def plan(self, plans: Sequence[Listening]) -> None:
        """Serve the next subscriptions by these plans, and all later ones by the last."""
        with self._changed:
            self._plans = list(plans) or [Listening()]

    def serve(self, exchange: Exchange) -> Optional[Message]:
        """Serve one until the client or the server ends it."""
        with self._changed:
            plan = self._plans.pop(0) if len(self._plans) > 1 else self._plans[0]
        subscription = Subscription(exchange, plan)
        with self._changed:
            self._open.append(subscription)
            self._changed.notify_all()
        try:
            return subscription.run()
        finally:
            with self._changed:
                self._open.remove(subscription)
                self._changed.notify_all()

    @property
    def open(self) -> list[Subscription]:
        """Those that are open now."""
        with self._changed:
            return list(self._open)

    def wait(self, count: int, timeout: float) -> bool:
        """Wait until exactly ``count`` are open; return whether it came to that in time."""
        deadline = Deadline(timeout)
        with self._changed:
            return self._changed.wait_for(lambda: len(self._open) == count, deadline.remaining())

"""The engines of the views that `Client.for_principal` makes: what they share with that of the client."""

from __future__ import annotations

import threading
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Optional

from .._concurrency import fork
from .._concurrency.cancel import CancelToken
from .._concurrency.deadline import Deadline
from .._concurrency.fork import no_fork
from .._protocol.eras import StatelessEra
from .._protocol.negotiation import Negotiation
from ..errors import AuthError, ClientClosed, MCPError
from ..transports._base import Channel, Target
from ..transports._http.target import StreamableHTTP
from .answers import Answers
from .connection import Connection
from .engine import Engine
from .leaving import Leaving
from .lifecycle import Lifecycle, Live
from .plan import Plan
from .router import Notified, Router
from .subscribed import Subscribed

if TYPE_CHECKING:
    from ..session import ClientSession
    from ..transports._http.senders import Shared


class Common:
    """What a client and its views have in common: connections over HTTP, and what is known of the server.

    Args:
        engine: That of the client.
    """

    def __init__(self, engine: Lifecycle) -> None:
        self._engine = engine
        self._shared: Optional[Shared] = None
        # The era that was found last, and how those see it who did not find it.
        self._seen: Optional[StatelessEra] = None
        self._era: Optional[StatelessEra] = None
        self._ending: Optional[weakref.finalize[..., Common]] = None
        self.leaving = Leaving(engine.plan.settings.name)
        # Guards `_shared`. Nothing is sent or awaited under it.
        self._lock = threading.RLock()
        fork.watch(self)

    def connections(self, target: Target) -> Shared:
        """Return what the channels of all views share; those to the server that the client has too."""
        shared = self._shared
        if shared is not None:
            return shared
        with no_fork():
            from ..transports._http.adapter.adapter import BoundedAdapter
            from ..transports._http.senders import Shared
        connection = self._engine._connection
        channel = connection.channel if connection is not None and connection.error is None else None
        # A trace stands in front of a channel, and has all that it has.
        adapter = getattr(channel, "adapter", None)
        fresh = Shared(target, adapter if isinstance(adapter, BoundedAdapter) else None)  # type: ignore[arg-type]
        with self._lock:
            if self._shared is None:
                self._shared = fresh
                self._ending = weakref.finalize(self, fresh.adapter.close)
                self._ending.atexit = False
                return fresh
            shared = self._shared
        fresh.adapter.close()
        return shared

    def note(self, connection: Connection) -> None:
        """Remember what a connection has found out about the server."""
        era = connection.era
        if era is self._seen or era is self._era or not isinstance(era, StatelessEra):
            return
        self._seen = era
        if era.server.get("cacheScope") == "public" or "instructions" not in era.server:
            self._era = era
        else:
            # They may be meant for one user alone, unlike what the server is and can do.
            server = {key: value for key, value in era.server.items() if key != "instructions"}
            identity = self._engine.plan.identity
            capabilities = identity.capabilities(era.version)
            self._era = StatelessEra(era.version, identity.client_info, capabilities, server)

    def note_opening(self, problem: Optional[MCPError]) -> None:
        """Remember how the opening of a view went, for those who ask how it stands with the server."""
        self._engine.opening_error = problem

    def era(self) -> Optional[StatelessEra]:
        """Return the era with which a view can begin at once, ``None`` if none is known."""
        connection = self._engine._connection
        if connection is not None and connection.error is None:
            self.note(connection)
        return self._era

    def close(self, deadline: Deadline) -> None:
        """Close the connections that no channel uses any more."""
        self.leaving.close(deadline)
        if self._ending is not None:
            self._ending()

    def after_fork_in_child(self) -> None:
        """Drop the inherited connections."""
        self._lock = threading.RLock()
        self.leaving.after_fork_in_child()
        if self._shared is not None and self._ending is not None:
            self._ending.detach()
            self._shared.adapter.abandon()
        self._shared = self._ending = None


class SiblingRouter(Router):
    """A router for a view, on the threads of the client's: it ends none of them.

    Args:
        other: The client's.
        answers: The callbacks, with the view for their context.
    """

    def __init__(self, other: Router, answers: Answers) -> None:
        super().__init__(answers, other.crew, other.extensions)

    def close(self, deadline: Deadline) -> None:
        """Leave the threads to the client."""

    def after_fork_in_child(self) -> None:
        """Forget what watched in the parent; the client sees to the threads."""
        self._lock = threading.RLock()
        self._watching = ()
        self.counters.after_fork_in_child()


class BorrowedRouter(SiblingRouter):
    """The router of a view on the very connection of the client: what comes in there goes to the client's."""

    def __init__(self, other: Router, answers: Answers) -> None:
        super().__init__(other, answers)
        self._other = other

    def watch(self, notified: Notified) -> None:
        """See `Router.watch`."""
        self._other.watch(notified)

    def unwatch(self, notified: Notified) -> None:
        """See `Router.unwatch`."""
        self._other.unwatch(notified)


class OwnEngine(Engine):
    """The engine of a view with its own credentials, and so with its own channel, cookies and session.

    On the stateless revision it takes over what is known of the server: no thread, and no request.

    Args:
        plan: That of the view.
        other: The engine of the client.
        answers: The callbacks.
        common: What it shares.
    """

    def __init__(self, plan: Plan, other: Lifecycle, answers: Answers, common: Common) -> None:
        self._common = common
        # One channel is like another only over Streamable HTTP, as the package has it.
        self._shares = getattr(type(plan.target), "channel", None) is StreamableHTTP.channel
        super().__init__(plan, SiblingRouter(other.router, answers), answers)
        # Of finalisers the last one that was made is the first to run.
        weakref.finalize(self, _leave, self._live, common.leaving).atexit = False

    def open(
        self,
        deadline: Deadline,
        negotiation: Optional[Callable[[], Negotiation]] = None,
        cancel: Optional[CancelToken] = None,
    ) -> Connection:
        """See `Lifecycle.open`."""
        era = self._common.era() if self._shares and negotiation is None else None
        if era is None or self._opening is not None:
            return super().open(deadline, negotiation, cancel)
        connection = self._connect()
        connection.start(deadline)
        connection.channel.configure(era.wire(self.plan.listening))
        connection.adopt(era)
        with self._lock:
            current = self._connection
            if current is not None and current.error is None:
                redundant = [connection]
            else:
                # Not one that another thread has just made, and is about to bring here.
                redundant = [each for each in self._spent() if each.error is not None]
                self._connection = current = connection
                self.counters.connection()
        self._drop(redundant)
        return current

    def _note_opening(self, problem: Optional[BaseException]) -> None:
        super()._note_opening(problem)
        # That a user has to log in says nothing of the server.
        if not isinstance(problem, (AuthError, ClientClosed)):
            self._common.note_opening(self.opening_error)

    def _install(self, connection: Connection) -> Optional[MCPError]:
        problem = super()._install(connection)
        if problem is None:
            self._common.note(connection)
        return problem

    def _channel(self, target: Target) -> Channel:
        if not (self._shares and isinstance(target, StreamableHTTP)):
            return super()._channel(target)
        channel = target.channel(self.plan.settings, self._common.connections(target))
        return self._traced(channel, target)


def _leave(live: Live, leaving: Leaving) -> None:
    """Have the sessions ended of a view that was forgotten, which takes a request for each."""
    for connection in list(live.connections):
        if connection.channel.session_id is not None and leaving.add(connection):
            live.connections.remove(connection)


class BorrowingEngine(Engine):
    """The engine of a view on the connection of the client, where there are no credentials to tell apart.

    Args:
        plan: That of the view.
        other: The engine of the client.
        answers: The callbacks.
    """

    def __init__(self, plan: Plan, other: Lifecycle, answers: Answers) -> None:
        self._other = other
        super().__init__(plan, BorrowedRouter(other.router, answers), answers)

    @property
    def _connection(self) -> Optional[Connection]:
        return self._other._connection

    @_connection.setter
    def _connection(self, connection: Optional[Connection]) -> None:
        """Leave it to the client."""

    def open(
        self,
        deadline: Deadline,
        negotiation: Optional[Callable[[], Negotiation]] = None,
        cancel: Optional[CancelToken] = None,
    ) -> Connection:
        """See `Lifecycle.open`."""
        if self._closed:
            raise ClientClosed("the client is closed")
        return self._other.open(deadline, negotiation, cancel)

    def _listen(self, change: int, anew: bool = False) -> None:
        self._other._listen(change, anew)

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer on the connection of the client."""
        return self._other.in_flight

    def after_fork_in_child(self) -> None:
        """See `Lifecycle.after_fork_in_child`."""
        Lifecycle.after_fork_in_child(self)
        if self.plan.cache is not None:
            self.plan.cache.after_fork_in_child()


def view_engine(
    other: Engine, session: weakref.ref[ClientSession], principal: str, target: Any, common: Common
) -> Engine:
    """Return the engine of a view.

    Args:
        other: The engine of the client.
        session: The view.
        principal: For whom its calls are.
        target: The server with the credentials of that principal; ``None``: the connection of the client.
        common: What the views share.
    """
    callbacks = other.answers.callbacks
    answers = Answers(callbacks, session)
    cache = other.plan.cache
    plan = replace(other.plan, principal=principal, cache=None)
    if target is None:
        engine: Engine = BorrowingEngine(plan, other, answers)
    else:
        plan = replace(plan, target=target, listeners=int(callbacks.listening), subscriptions=Subscribed())
        engine = OwnEngine(plan, other, answers, common)
    if cache is not None:
        with no_fork():
            from .cache import ResponseCache, keep_answers
        if target is None:
            # What comes in is watched for the client already, whose store it is.
            plan.cache = ResponseCache(cache.options, plan, engine.router.sender, cache)
        else:
            keep_answers(engine, cache.options, cache)
    return engine

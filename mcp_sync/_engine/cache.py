"""The response cache of one client ("Caching" in the server utilities of the specification)."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, TypeVar, cast

from pydantic import BaseModel

from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from .._concurrency.workers import Workers
from .._protocol import methods
from .._protocol.methods import MethodSpec
from ..cache import CacheStats, MemoryCache
from ..errors import (
    AuthError,
    CallCancelled,
    CallTimeout,
    HeaderMismatch,
    HTTPStatusError,
    InvalidParams,
    MCPError,
    MessageTooLarge,
    MethodNotFound,
    TransportError,
    UsageError,
)
from ..options import CacheOptions
from .cache_entry import Entry, copied, owned
from .cache_keys import Keys, Place
from .cache_shelf import Found, Shelf, now
from .call_options import NO_OPTIONS, CallOptions
from .flights import Flight, Flights

if TYPE_CHECKING:
    from .connection import Connection
    from .engine import Engine
    from .plan import Plan

logger = logging.getLogger("mcp_sync.cache")
M = TypeVar("M", bound=BaseModel)
Prepare = Optional[Callable[[Any, "Connection"], None]]


class _Asked(NamedTuple):
    """One call: what is asked, and by whom."""

    engine: Engine
    spec: MethodSpec
    params: dict[str, Any]
    model: type[BaseModel]
    options: CallOptions
    deadline: Deadline
    connection: Connection
    place: Place


class ResponseCache:
    """What ``client.cache`` is: the answers that are kept for one client. Safe for any number of threads.

    A forked child goes on with a copy of what is kept in memory.

    Args:
        options: What may be kept, and where.
        plan: What the client does, and for whom.
        sender: Runs what must not hold up a thread that reads.
        other: The cache of another client of the same server, with the same store, whose requests count here.

    Attributes:
        options: The options, with the store.
    """

    def __init__(
        self,
        options: CacheOptions,
        plan: Plan,
        sender: Workers,
        other: Optional[ResponseCache] = None,
    ) -> None:
        self.options = options if options.store is not None else replace(options, store=MemoryCache())
        principal = options.principal if plan.principal is None else plan.principal
        self._keys = Keys(plan.target, principal, options.secret, plan.identity.capabilities)
        self._flights: Flights = Flights() if other is None else other._flights
        self._shelf = Shelf(self.options, self._keys, sender, self._flights, plan.extensions.cacheable)
        self.observe = self._shelf.observe
        # What the client has made of an entry, whose models others have, too: a copy of its own. Tools are
        # filtered, and learnt from, once.
        self._own: weakref.WeakKeyDictionary[Entry, BaseModel] = weakref.WeakKeyDictionary()
        # Guards `_counts`. Re-entrant: a signal handler may make a call.
        self._lock = threading.RLock()
        self._counts = dict.fromkeys(CacheStats._fields, 0)

    def __repr__(self) -> str:
        return f"<ResponseCache in {type(self._shelf.store).__name__}>"

    @property
    def stats(self) -> CacheStats:
        """What it has done so far."""
        return CacheStats(**self._counts)

    def clear(self, method: Optional[str] = None) -> None:
        """Forget what is kept of this server, for all principals that share the store.

        Args:
            method: Only the answers of one method, such as ``"tools/list"``.

        Raises:
            UsageError: Answers of that method are never kept.
        """
        cached = self._shelf.cached
        if method is not None and method not in cached:
            raise UsageError(f"method must be one of {', '.join(cached)}, not {method!r}")
        self._outdate(*(cached if method is None else (method,)))

    def lose_track(self) -> None:
        """Have nothing count that is kept: words of changes may be lost. Does not block."""
        self._shelf.hear()

    def _outdate(self, *names: str) -> None:
        self._shelf.note(names)
        self._shelf.take_back(names)

    # --- calls -----------------------------------------------------------------------------------

    def call(
        self,
        engine: Engine,
        spec: MethodSpec,
        params: dict[str, Any],
        model: type[M],
        options: CallOptions,
        deadline: Deadline,
        prepare: Prepare = None,
    ) -> M:
        """Return the answer to a request: one that is kept, or the server's.

        Args:
            engine: Makes the call.
            spec: The method.
            params: Its params.
            model: The model of its result.
            options: Options of the call.
            deadline: That of the call.
            prepare: Looks at each result, and may change it, before anybody gets it.
        """
        if not spec.cacheable:
            return self._watched(engine, spec, params, model, options, deadline)
        if options.cancel is not None and options.cancel.cancelled:
            raise options.cancel.error(spec.method, False)
        connection = engine.latest(deadline, options.cancel)
        place = self._place(spec, params, options, connection)
        if place is None:
            result = engine.fresh(spec, params, model, options, deadline)[2]
            if prepare is not None:
                prepare(result, connection)
            return result
        asked = _Asked(engine, spec, params, model, options, deadline, connection, place)
        entry = self._renew(asked) if options.cache == "refresh" else self._get(asked)
        return cast("M", self._hand_out(entry, prepare, connection))

    def _place(
        self, spec: MethodSpec, params: dict[str, Any], options: CallOptions, connection: Connection
    ) -> Optional[Place]:
        """Return where the answer is kept, ``None`` if the call leaves the cache aside."""
        if options is not NO_OPTIONS and _goes_by(params, options):
            return None
        # A channel may keep cookies.
        cookies = getattr(connection.channel, "cookies", ())
        try:
            return self._keys.place(spec.method, params, connection.era.version, cookies)
        except AuthError:
            return None  # The call itself raises it.

    def _watched(
        self,
        engine: Engine,
        spec: MethodSpec,
        params: dict[str, Any],
        model: type[M],
        options: CallOptions,
        deadline: Deadline,
    ) -> M:
        """Make another call, which may show that what is kept is out of date."""
        try:
            return engine.fresh(spec, params, model, options, deadline)[2]
        except (InvalidParams, MethodNotFound, HeaderMismatch):
            if spec is methods.CALL_TOOL:
                self._outdate(methods.LIST_TOOLS.method)
            raise

    def _hand_out(self, entry: Entry, prepare: Prepare, connection: Connection) -> BaseModel:
        ready = self._own.get(entry)
        if ready is None:
            ready = owned(entry.result)
            if prepare is not None:
                prepare(ready, connection)
            self._own[entry] = ready
        return copied(ready)

    def _renew(self, asked: _Asked) -> Entry:
        """Fetch an answer, whatever there is."""
        self._flights.overtake(asked.place.private)
        self._count("refreshes")
        return self._fetch(asked, self._shelf.look(asked.place, asked.model))

    def _get(self, asked: _Asked) -> Entry:
        """Return a fresh answer: that of the store, of a thread that fetches it already, or of the server."""
        key = asked.place.private
        waits = asked.options.progress is None
        while True:
            found = self._shelf.look(asked.place, asked.model)
            if found.fresh is not None:
                self._count("hits")
                return found.fresh
            if not (waits and self._flights.is_shared(key)):
                return self._fetch_or_stale(asked, found)
            own = Flight()
            try:
                flight = self._flights.join(key, own)
                if flight is own:
                    return self._lead(asked, own, found)
            finally:
                self._flights.land(own)
            entry = self._follow(asked, flight, found)
            if entry is not None:
                return entry
            waits = not flight.failed

    def _lead(self, asked: _Asked, flight: Flight, found: Found) -> Entry:
        """Fetch an answer for all who wait for it."""
        if found.marks:
            # Another thread may have been quicker. (A store that fails is not asked twice: it may be slow.)
            found = self._shelf.look(asked.place, asked.model)
        if found.fresh is not None:
            self._count("hits")
            flight.entry = found.fresh
            return found.fresh
        try:
            entry = self._fetch_or_stale(asked, found, flight)
        except MCPError as error:
            # One after the other would wait for the next failure.
            flight.failed = not isinstance(error, (CallTimeout, CallCancelled))
            raise
        flight.unreachable = entry is found.stale
        return entry

    def _follow(self, asked: _Asked, flight: Flight, found: Found) -> Optional[Entry]:
        """Wait for the answer that another thread fetches; ``None`` if this one has to look again."""
        if flight.thread == threading.get_ident():
            # A callback of that very call, which cannot go on before this one.
            return self._fetch_or_stale(asked, found)
        waiter = PendingCall(0, asked.spec.method, asked.deadline)
        in_time = flight.wait(waiter, asked.options.cancel)
        if in_time:
            asked.deadline.touch()
        if flight.entry is not None:
            self._count("hits")
            return flight.entry
        if not in_time or flight.unreachable:
            if found.stale is not None:
                return self._stale(asked, found.stale, "it cannot be reached, or is too slow")
            if not in_time:
                raise asked.connection.timeout_error(waiter)
        return None

    def _fetch_or_stale(self, asked: _Asked, found: Found, flight: Optional[Flight] = None) -> Entry:
        """Ask the server; where it does not answer, return what is out of date, if there is something."""
        self._count("misses")
        try:
            return self._fetch(asked, found, flight)
        except (TransportError, CallTimeout) as error:
            if found.stale is None or not _is_unreachable(error):
                raise
            return self._stale(asked, found.stale, str(error))

    def _stale(self, asked: _Asked, entry: Entry, reason: str) -> Entry:
        self._count("stale")
        age = now() - entry.arrived
        logger.warning(
            "%s: gave an answer of the server that is %.0f s old: %s", asked.spec.method, age, reason
        )
        return entry

    def _fetch(self, asked: _Asked, found: Found, flight: Optional[Flight] = None) -> Entry:
        """Ask the server, and keep its answer if it may be kept."""
        generation = self._flights.generation
        marks = self._shelf.marks(asked.place, found)
        engine, spec, params = asked.engine, asked.spec, asked.params
        try:
            is_first, result, model = engine.fresh(spec, params, asked.model, asked.options, asked.deadline)
        except InvalidParams:
            if "cursor" in params:
                # A cursor that is of no use any more: the pages that led to it are not, either.
                self._outdate(spec.method)
            raise
        arrived, seconds = now(), self._seconds(result)
        is_public = result.get("cacheScope") == "public" and self.options.share_public
        may_be_kept = is_first and seconds > 0 and (is_public or self._keys.tells) and self._is_there(asked)
        entry = Entry(arrived, arrived + seconds, marks if may_be_kept else (), model)
        is_old = flight is not None and flight.overtaken
        if generation is not self._flights.generation and not is_old:
            # Something has changed meanwhile. What took its place must not be replaced by this.
            is_old = self._shelf.look(asked.place, asked.model).marks != marks
        if not is_old:
            self._keep(asked.place, found, entry, result, is_public)
            if flight is not None and entry.marks:
                flight.entry = entry
        return entry

    def _seconds(self, result: Mapping[str, Any]) -> float:
        """Return for how many seconds a result stays fresh."""
        ttl, most = result.get("ttlMs"), self.options.max_ttl
        if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or ttl != ttl:
            return min(self.options.default_ttl, most)
        return min(ttl, most * 1000) / 1000 if ttl > 0 else 0.0

    def _is_there(self, asked: _Asked) -> bool:
        """Whether the answer belongs where it was looked for.

        A new connection may speak another revision, and by new credentials or cookies it may be for another
        user. The very answer may have brought those.
        """
        connection = asked.engine._connection
        if connection is None:
            return False
        place = self._place(asked.spec, asked.params, asked.options, connection)
        return place is not None and place.private == asked.place.private

    def _keep(
        self, place: Place, found: Found, entry: Entry, result: dict[str, Any], is_public: bool
    ) -> None:
        if not entry.marks:
            self._shelf.discard(found)
            self._flights.note(place.private, False)
            return
        if self._shelf.keep(place.public if is_public else place.private, entry, result, found):
            self._count("stores")
        self._flights.note(place.private, True)

    def _count(self, kind: str) -> None:
        with self._lock:
            self._counts[kind] += 1

    def after_fork_in_child(self) -> None:
        """Forget the threads of the parent."""
        self._lock = threading.RLock()
        self._flights.after_fork_in_child()
        self._shelf.after_fork_in_child()


def _goes_by(params: Mapping[str, Any], options: CallOptions) -> bool:
    """Whether a call leaves the cache aside: what it has of its own could change the answer."""
    return bool(
        options.cache == "bypass"
        or options.meta
        or options.headers
        or options.pause
        or options.capabilities
        or options.stop_at
        or options.on_notification is not None
        or "inputResponses" in params
        or "requestState" in params
    )


def _is_unreachable(error: MCPError) -> bool:
    """Whether an error says nothing but that the server cannot answer now."""
    if isinstance(error, HTTPStatusError):
        return error.status >= 500
    return isinstance(error, (TransportError, CallTimeout)) and not isinstance(error, MessageTooLarge)


def keep_answers(engine: Engine, options: CacheOptions, other: Optional[ResponseCache] = None) -> None:
    """Give an engine a cache. What the plan has to say of the principal is said before."""
    plan = engine.plan
    plan.cache = ResponseCache(options, plan, engine.router.sender, other)
    engine.router.watch(plan.cache.observe)

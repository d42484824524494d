"""Where one client keeps answers: what it puts into its store, and what it lets count that comes out.

An answer bears marks, which the store keeps as well: one of its method, and one of its URI if it has one. It
counts as long as the marks in the store are those that it was fetched under. So an answer to a request that
was sent before something changed is never given after it, whoever keeps it, and in whichever process.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

from pydantic import BaseModel

from .._concurrency.fork import no_fork
from .._concurrency.workers import Workers
from .._protocol import codec, methods
from .._protocol.urls import enclosing
from ..cache import MemoryCache
from ..options import CacheOptions
from .cache_entry import Entry, entry_of
from .cache_keys import Keys, Place
from .flights import Flights

logger = logging.getLogger("mcp_sync.cache")

_CACHED = tuple(spec.method for spec in methods.METHODS.values() if spec.cacheable)
_READ = methods.READ_RESOURCE.method
_CHANGES = {
    "notifications/tools/list_changed": (methods.LIST_TOOLS.method,),
    "notifications/prompts/list_changed": (methods.LIST_PROMPTS.method,),
    "notifications/resources/list_changed": (
        methods.LIST_RESOURCES.method,
        methods.LIST_RESOURCE_TEMPLATES.method,
    ),
}
_UPDATED = "notifications/resources/updated"
# More changes than this are not taken back one by one: a server may tell of any number, and stores are slow.
_MOST = 100
# A mark outlives what is kept under it: it is as old as the first of that, and nobody renews it.
_MARK_SECONDS = 24 * 3600
# How far the clocks of machines that share a store may be apart, in seconds.
_SKEW = 5.0

now = time.time


class Found(NamedTuple):
    """What there is.

    Attributes:
        marks: The marks of what is asked for, ``None`` where there is none; empty if the store failed.
        fresh: The answer, if it is fresh.
        stale: The answer, if it is only good for want of a better one.
        held: The keys under which there is something, of use or not.
    """

    marks: tuple[Optional[str], ...] = ()
    fresh: Optional[Entry] = None
    stale: Optional[Entry] = None
    held: tuple[str, ...] = ()


class Shelf:
    """The part of a store that belongs to one client. Safe for any number of threads.

    Args:
        options: Name the store, and bounds.
        keys: The keys of the client.
        sender: Runs what must not hold up a thread that reads.
        flights: Are told of each change.
        further: Methods of extensions whose results are kept as well.

    Attributes:
        cached: All methods whose results are kept.
        store: The store.
    """

    def __init__(
        self,
        options: CacheOptions,
        keys: Keys,
        sender: Workers,
        flights: Flights,
        further: tuple[str, ...] = (),
    ) -> None:
        self.cached = _CACHED + further
        self._options = options
        self.store: Any = options.store
        self._flights = flights
        self._keys = keys
        self._sender = sender
        # Guards `_changed`. Re-entrant: a signal handler may make a call.
        self._lock = threading.RLock()
        # The names whose marks have to be deleted.
        self._changed: dict[str, object] = {}
        # Whether a thread will delete them. Single operations only, so it needs no lock.
        self._is_due = False

    # --- answers ---------------------------------------------------------------------------------

    def look(self, place: Place, model: type[BaseModel]) -> Found:
        """Return what there is at a place. Never raises: a store that fails has nothing."""
        if self._changed:
            # A call waits for what concerns it, and for no more.
            if not self.take_back(place.names):
                return Found()
            self._have_taken_back()
        try:
            return self._judge(place, self._get((*place.marks, place.private, place.public)), model)
        except Exception as error:
            self._failed("looked up", error)
            return Found()

    def _judge(self, place: Place, values: Mapping[str, Any], model: type[BaseModel]) -> Found:
        marks = tuple([_as_mark(values.get(key)) for key in place.marks])
        held = tuple([key for key in (place.private, place.public) if values.get(key) is not None])
        time = now()
        stale: Optional[Entry] = None
        for key in held:
            entry = entry_of(values[key], model)
            if entry is None or entry.marks != marks or not self._is_possible(entry, time):
                continue
            if time < entry.fresh_until:
                return Found(marks, entry, None, held)
            if time < entry.fresh_until + self._options.stale_on_error:
                stale = stale or entry
        return Found(marks, None, stale, held)

    def _is_possible(self, entry: Entry, time: float) -> bool:
        """Whether an entry could have been made by now: clocks are set anew, and stores hold rubbish."""
        longest = self._options.max_ttl + 1
        return entry.arrived <= time + _SKEW and entry.fresh_until <= entry.arrived + longest

    def marks(self, place: Place, found: Found) -> tuple[str, ...]:
        """Return the marks for an answer that is asked for now, none if it cannot be kept."""
        marks = []
        for key, mark in zip(place.marks, found.marks):
            if mark is None:
                mark = secrets.token_hex(8)
                longest = self._options.max_ttl + self._options.stale_on_error
                try:
                    self._put(key, mark.encode(), math.ceil(2 * longest) + _MARK_SECONDS)
                except Exception as error:
                    self._failed("kept", error)
                    return ()
            marks.append(mark)
        return tuple(marks)

    def keep(self, key: str, entry: Entry, result: dict[str, Any], found: Found) -> bool:
        """Keep an answer in place of what is there; return whether that worked."""
        seconds = entry.fresh_until - entry.arrived + self._options.stale_on_error
        try:
            if isinstance(self.store, MemoryCache):
                self.store.keep(key, entry, len(codec.encode(result)), seconds)
            else:
                self._put(key, entry.encode(result), math.ceil(seconds))
            self._drop([old for old in found.held if old != key])
        except Exception as error:
            self._failed("kept", error)
            return False
        return True

    def discard(self, found: Found) -> None:
        """Forget what there is: there is something newer, which must not be kept."""
        try:
            self._drop(found.held)
        except Exception as error:
            self._failed("taken back", error)

    def _drop(self, keys: Any) -> None:
        for key in keys:
            self._delete(key)

    # Locks of a store that is not ours would stay locked in a child that is forked meanwhile.

    def _get(self, keys: tuple[str, ...]) -> Mapping[str, Any]:
        if isinstance(self.store, MemoryCache):
            return self.store.get_many(keys)
        with no_fork():
            found: Mapping[str, Any] = self.store.get_many(keys)
        return found

    def _put(self, key: str, value: bytes, seconds: int) -> None:
        with no_fork():
            self.store.put(key, value, seconds)

    def _delete(self, key: str) -> None:
        with no_fork():
            self.store.delete(key)

    def _failed(self, what: str, error: Exception) -> None:
        # Not the error itself: it may show the password in the URL of a store.
        name = type(self.store).__name__
        logger.warning("An answer could not be %s: %s raised %s", what, name, type(error).__name__)

    # --- changes ---------------------------------------------------------------------------------

    def observe(self, message: Mapping[str, Any]) -> None:
        """Look at a notification, on the thread that reads it."""
        method = message.get("method")
        if method == _UPDATED:
            params = message.get("params")
            uri = params.get("uri") if isinstance(params, dict) else None
            # What has changed may be a part of what was read.
            names = enclosing(uri) if isinstance(uri, str) else (_READ,)
        else:
            names = _CHANGES.get(method, ()) if isinstance(method, str) else ()
        if names:
            self.hear(names)

    def hear(self, names: Optional[tuple[str, ...]] = None) -> None:
        """Do what `note` does, and tell the store, without a wait; by default everything may have changed."""
        self.note(self.cached if names is None else names)
        if isinstance(self.store, MemoryCache):
            self.take_back()
        else:
            self._have_taken_back()

    def note(self, names: tuple[str, ...]) -> None:
        """Have nothing count that was asked for under these names before now: of methods, or URIs."""
        self._flights.generation = object()
        with self._lock:
            if len(self._changed) + len(names) > _MOST:
                self._changed, names = {}, self.cached
            for name in names:
                self._changed[name] = object()

    def _have_taken_back(self) -> None:
        if self._changed and not self._is_due:
            self._is_due = True
            if not self._sender.submit(self._take_all_back):
                self._is_due = False

    def _take_all_back(self) -> None:
        # Before the first look at what there is: what comes from now on makes another turn due.
        self._is_due = False
        while self._changed and self.take_back():
            pass

    def take_back(self, names: Optional[tuple[str, ...]] = None) -> bool:
        """Delete the marks of what has changed, or of these names of it; return whether all are gone."""
        with self._lock:
            wanted = tuple(self._changed) if names is None else names
            changes = [(name, self._changed[name]) for name in wanted if name in self._changed]
        for name, change in changes:
            try:
                self._delete(self._keys.mark(name))
            except Exception as error:
                self._failed("taken back", error)
                return False
            with self._lock:
                # Only now, so that nobody looks something up in between; and not if it has changed again.
                if self._changed.get(name) is change:
                    self._changed.pop(name, None)
        return True

    def after_fork_in_child(self) -> None:
        """Take a lock of its own: the thread that held the parent's does not exist here."""
        self._lock = threading.RLock()
        self._is_due = False


def _as_mark(value: Any) -> Optional[str]:
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    return value if isinstance(value, str) and value else None

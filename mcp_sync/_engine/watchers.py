"""Who wants to know what becomes of a connection, and of the stream of what a server sends unasked."""

from __future__ import annotations

import threading
from typing import Protocol

from ..errors import MCPError


class Watcher(Protocol):
    """Is told on the thread that found out; must neither block nor raise."""

    def stands(self, gap: bool) -> None:
        """The server's own stream stands; ``gap``: again, and what came meanwhile may be lost."""

    def falls(self, error: MCPError) -> None:
        """There is no such stream, or none any more; the connection is fine."""

    def over(self, error: MCPError) -> None:
        """The connection is of no use any more."""


class Watchers:
    """The watchers of one connection. Safe for any number of threads."""

    def __init__(self) -> None:
        # Guards the replacement of `_all`; whoever reads takes the tuple as it is.
        self._lock = threading.RLock()
        self._all: tuple[Watcher, ...] = ()
        self._stands = False

    def add(self, watcher: Watcher) -> None:
        """Begin to tell one; what is the case already, at once."""
        with self._lock:
            self._all = (*self._all, watcher)
        if self._stands:
            watcher.stands(False)

    def remove(self, watcher: Watcher) -> None:
        """End what `add` began."""
        with self._lock:
            self._all = tuple(each for each in self._all if each is not watcher)

    def forget_stream(self) -> None:
        """Note that the stream is closed on this side, because nobody listens any more."""
        self._stands = False

    def stands(self, gap: bool) -> None:
        """Tell all; see `Watcher`."""
        self._stands = True
        for watcher in self._all:
            watcher.stands(gap)

    def falls(self, error: MCPError) -> None:
        """Tell all; see `Watcher`."""
        self._stands = False
        for watcher in self._all:
            watcher.falls(error)

    def over(self, error: MCPError) -> None:
        """Tell all; see `Watcher`."""
        for watcher in self._all:
            watcher.over(error)

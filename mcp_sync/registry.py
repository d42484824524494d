"""Servers by alias, for applications: one client for each, made when it is first asked for.

>>> mcp = Registry({"weather": {"url": "https://weather.example.com/mcp", "headers": {"X-Key": "${KEY}"}}})
>>> mcp["weather"].call_tool("forecast", {"city": "Oslo"})

At import nothing happens, and no file is read. Threads share the clients; a forked process opens its own
connections; at the end of the interpreter all are closed. Django, Flask and Celery build on this.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Optional

from ._concurrency import fork
from ._concurrency.deadline import Deadline
from ._servers.shelf import Servers, Shelf
from ._unpicklable import Unpicklable
from .options import Timeouts, check_seconds

if TYPE_CHECKING:
    from ._servers.status import StatusTable
    from .client import Client
    from .config._variables import Inputs
    from .principals import PrincipalView

# How long the end of the interpreter may take for all of a registry, in seconds.
_LAST = 5.0


class Registry(Unpicklable):
    """Servers by alias. ``registry["alias"]`` is a `Client`, the same one in all threads of a process.

    It opens on first use; close it with the registry only: a client that was closed is replaced at the next
    look-up. To look one up takes no lock, and no time worth mentioning.

    Args:
        servers: A `Config`, the path of a file with one, a mapping of aliases to servers, or a function that
            returns one of these. Read at the first look-up. A server is a mapping as in such a file, a URL, a
            command as a list, a target, or a `Client` of yours, which stays open.
        inputs: As for `load_config`.
        options: Arguments of all clients, where the configuration of the server says nothing else:
            ``timeout=20`` bounds every call.

    Raises:
        UsageError: An option is for a single server, such as ``auth``.
    """

    def __init__(self, servers: Servers, *, inputs: Inputs = None, **options: Any) -> None:
        self._options = options
        self._base = Shelf("registry", servers, inputs, options)
        # The newest first. Replaced as a whole, under the lock; read without it.
        self._overrides: tuple[Shelf, ...] = ()
        # Guards the replacement of `_overrides`, which includes no I/O and no waiting.
        self._lock = threading.RLock()
        fork.watch(self)
        if "timeout" in options:
            check_seconds("timeout", options["timeout"])

    def __repr__(self) -> str:
        return f"<Registry {', '.join(self._base.clients) or 'with no client yet'}>"

    def __getitem__(self, alias: str) -> Client:
        """Return the client of a server; see the class.

        Raises:
            ConfigError: There is no such alias: the known ones are listed. Or its configuration cannot be
                used, or it is disabled.
            ClientClosed: The registry is closed.
        """
        if not self._overrides:
            client = self._base.clients.get(alias)
            if client is not None and not client.closed:
                return client
        return self._find(alias)

    def _find(self, alias: str) -> Client:
        _used.add(self)
        return self._shelf_of(alias).client(alias)

    def _shelf_of(self, alias: str) -> Shelf:
        return next((shelf for shelf in self._overrides if alias in shelf.servers()), self._base)

    @contextmanager
    def another(self, alias: str, **options: Any) -> Iterator[Client]:
        """Have one more client of a server while the block runs, with options of its own: for a command, say.

        Args:
            alias: The server.
            options: Arguments of `Client`, over those of all clients. A `Client` of yours is given as it is.

        Raises:
            ConfigError: As ``registry[alias]``.
        """
        client, is_ours = self._shelf_of(alias).one_more(alias, options)
        try:
            yield client
        finally:
            if is_ours:
                client.close()

    def __contains__(self, alias: object) -> bool:
        return alias in self._names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> dict[str, Shelf]:
        """Return the aliases, each with where it comes from."""
        return {name: shelf for shelf in (self._base, *reversed(self._overrides)) for name in shelf.servers()}

    def for_principal(
        self, alias: str, key: str, auth: Any = None, headers: Optional[Mapping[str, str]] = None
    ) -> PrincipalView:
        """Return a view of a client for one of its users; the same as ``registry[alias].for_principal(key)``.

        See `Client.for_principal`.
        """
        return self[alias].for_principal(key, auth, headers)

    @contextmanager
    def override(self, servers: Mapping[str, Any]) -> Iterator[Registry]:
        """Replace servers while the block runs, for all threads: for tests.

        ::

            with registry.override({"weather": FakeServer(tools=[forecast])}):
                assert view(request).status_code == 200

        Blocks may be nested, and left in any order. Clients that are made for a block are closed at its end.

        Args:
            servers: As for the class; also servers for `InMemory`, such as a `FakeServer`.
        """
        shelf = Shelf("registry", servers, None, self._options)
        shelf.servers()
        try:
            with self._lock:
                self._overrides = (shelf, *self._overrides)
            yield self
        finally:
            with self._lock:
                self._overrides = tuple(each for each in self._overrides if each is not shelf)
            shelf.close(None)

    def status(self) -> StatusTable:
        """Return how it stands with each server, without opening any. ``print`` shows it as a table."""
        with fork.no_fork():
            from ._servers.status import StatusTable

        return StatusTable(shelf.status(alias) for alias, shelf in self._names().items())

    def close(self, timeout: Optional[float] = None) -> None:
        """Close all clients, at the same time; look-ups raise `ClientClosed` then.

        Idempotent, from any thread.

        Args:
            timeout: Seconds that it may take in all; default ``Timeouts.close``.

        Raises:
            UsageError: ``timeout`` is no number of seconds. Nothing else.
        """
        check_seconds("timeout", timeout)
        bound = Timeouts().close if timeout is None else timeout
        for shelf in (*self._overrides, self._base):
            shelf.close(bound)

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def after_fork_in_child(self) -> None:
        """Replace locks that another thread may have held. The clients see to themselves."""
        self._lock = threading.RLock()
        for shelf in (self._base, *self._overrides):
            shelf.after_fork_in_child()


# Those that were asked for a client. Forgotten ones leave it by themselves.
_used: weakref.WeakSet[Registry] = weakref.WeakSet()


@atexit.register
def _close_at_exit() -> None:
    deadline = Deadline(_LAST)
    for registry in list(_used):
        registry.close(deadline.remaining())

"""Servers by name, and the client of each: made when it is first asked for, and only once."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from .._concurrency.fork import no_fork
from ..errors import ClientClosed, MCPError, UsageError

if TYPE_CHECKING:
    from ..client import Client
    from ..config import Config
    from ..config._variables import Inputs
    from .filtered import Filter
    from .making import Made
    from .status import ServerStatus

# They are for one server, and would be given to all of them.
_OF_ONE_SERVER = ("auth", "headers", "session", "session_id", "name")

Servers = Union["Config", str, "os.PathLike[str]", Mapping[str, Any], Callable[[], Any]]


class Shelf:
    """Servers of one source, and the clients that were made of them. Safe for any number of threads.

    Nothing is read before it is needed, and nothing opened.

    Args:
        owner: What it belongs to, for messages and the names of threads.
        source: What names the servers; see `making.read_servers`. Or a function that returns that.
        inputs: As for `load_config`.
        options: Arguments of all clients.
        also: Gives a further condition for the tools of a server.

    Raises:
        UsageError: An option is for a single server.

    Attributes:
        clients: By name. Replaced as a whole or in single steps, so it is read without a lock.
        failures: Why the last attempt failed to use a server, by name. Single operations only.
    """

    def __init__(
        self,
        owner: str,
        source: Servers,
        inputs: Inputs,
        options: Mapping[str, Any],
        also: Optional[Callable[[str], Optional[Filter]]] = None,
    ) -> None:
        for name in _OF_ONE_SERVER:
            if name in options:
                raise UsageError(f"{name} is for one server: give it there, not for all of them")
        self.clients: dict[str, Client] = {}
        self.failures: dict[str, MCPError] = {}
        self._owner = owner
        self._source = source
        self._inputs = inputs
        self._options = options
        self._also = also
        # The servers, once they are read. Whoever comes first sets them, in one step.
        self._read: dict[str, dict[str, Any]] = {}
        # Those clients that are the user's.
        self._brought: set[Client] = set()
        self._closed = False
        # Guards the entries of `clients`, `_brought` and `_read`, and `_closed`. Nothing is read, made,
        # opened or closed under it.
        self._lock = threading.RLock()

    def servers(self) -> Mapping[str, Any]:
        """Return what names the servers. Reads the configuration the first time.

        Raises:
            ConfigError, UsageError: It cannot be read.
        """
        found = self._read.get("servers")
        if found is not None:
            return found
        with no_fork():
            from .making import read_servers

        source = self._source() if callable(self._source) else self._source
        return self._read.setdefault("servers", read_servers(source, self._inputs))

    def is_disabled(self, name: str) -> bool:
        """Whether the configuration has a server that is not to be used."""
        return bool(getattr(self.servers().get(name), "disabled", False))

    def client(self, name: str) -> Client:
        """Return the client of a server, and make it if there is none, or one that was closed.

        Raises:
            ConfigError: There is no such server, or it can have no client, or is disabled.
            ClientClosed: It is too late.
        """
        found = self.clients.get(name)
        if found is not None and (not found.closed or found in self._brought):
            return found
        self.check_open()
        server = self._server(name)
        try:
            made = self._make(name, server, {})
        except MCPError as error:
            self.failures[name] = error
            raise
        return self._keep(name, made.client, made.is_ours)

    def one_more(self, name: str, options: Mapping[str, Any]) -> Made:
        """Return another client of a server, for the caller to close unless it is the user's.

        Args:
            name: The name of the server.
            options: Arguments of this client alone.

        Raises:
            ConfigError: As `client`.
        """
        return self._make(name, self._server(name), options)

    def _make(self, name: str, server: Any, options: Mapping[str, Any]) -> Made:
        with no_fork():
            from .making import make_client
        also = None if self._also is None else self._also(name)
        return make_client(name, server, {**self._options, **options}, also)

    def check_open(self) -> None:
        """See that it is not closed.

        Raises:
            ClientClosed: It is.
        """
        if self._closed:
            raise ClientClosed(f"the {self._owner} is closed")

    def _server(self, name: str) -> Any:
        with no_fork():
            from ..config._config import unknown_server
            from ..config._errors import ConfigError
        known = self.servers()
        if name not in known:
            file = next((each.file for each in known.values() if getattr(each, "file", None)), None)
            raise ConfigError(unknown_server(name, known, file), file=file, server=str(name))
        server = known[name]
        if self.is_disabled(name):
            place = server.file or "the configuration"
            raise ConfigError(f"{place}: the server {name!r} is disabled", file=server.file, server=name)
        return server

    def _keep(self, name: str, client: Client, is_ours: bool) -> Client:
        """Keep a client, unless another thread was faster: then return that of it."""
        with self._lock:
            kept = self.clients.get(name)
            if not self._closed and (kept is None or kept.closed):
                kept = self.clients[name] = client
                self.failures.pop(name, None)
                if not is_ours:
                    self._brought.add(client)
            is_closed = self._closed
        if is_closed or kept is None:
            raise ClientClosed(f"the {self._owner} is closed")
        return kept

    def is_brought(self, name: str) -> bool:
        """Whether the client of a server is the user's."""
        return self.clients.get(name) in self._brought

    # --- changes -------------------------------------------------------------------------------------------

    def replace(self, servers: Mapping[str, Any]) -> dict[str, Client]:
        """Have other servers from now on.

        Returns:
            The clients of those that are gone or have changed, which the caller closes.
        """
        before = self.servers()
        with self._lock:
            if self._closed:
                raise ClientClosed(f"the {self._owner} is closed")
            gone = [name for name, server in before.items() if name not in servers or servers[name] != server]
            self._read["servers"] = dict(servers)
            return self._take(gone)

    def take(self, name: str) -> dict[str, Client]:
        """Forget the client of a server, and return it, if it is to be closed."""
        with self._lock:
            return self._take([name])

    def _take(self, names: list[str]) -> dict[str, Client]:
        for name in names:
            self.failures.pop(name, None)
        taken = {name: self.clients.pop(name) for name in names if name in self.clients}
        ours = {name: client for name, client in taken.items() if client not in self._brought}
        self._brought.difference_update(taken.values())
        return ours

    def status(self, name: str) -> ServerStatus:
        """Return how it stands with a server."""
        with no_fork():
            from .status import ServerStatus, status_of
        if self.is_disabled(name):
            return ServerStatus(name, "disabled")
        fault = getattr(self.servers().get(name), "fault", None)
        failure = fault if isinstance(fault, MCPError) else self.failures.get(name)
        return status_of(name, self.clients.get(name), failure)

    def close(self, seconds: Optional[float]) -> None:
        """Close the clients that were made here, at the same time. None is made any more."""
        with self._lock:
            self._closed = True
            ours = self._take(list(self.clients))
        if ours:
            with no_fork():
                from .together import close_all
            close_all(self._owner, ours, seconds)

    def after_fork_in_child(self) -> None:
        """Replace a lock that another thread may have held. The clients see to themselves."""
        self._lock = threading.RLock()

"""``mcp``: the servers of the settings by alias."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

from ..._concurrency import fork
from ...client import Client
from ...registry import Registry
from .._clients import UserClients
from .._entries import Entry
from . import conf
from .authorization import WebOAuth, make_oauth
from .server import Server


class Servers:
    """The servers of ``MCP_SYNC`` by alias: ``mcp``. Nothing is read before the first look-up.

    ``mcp["alias"]`` is a `Server`. Threads share its client; a forked worker opens its own connections; at
    the end of the process all are closed.
    """

    def __init__(self) -> None:
        self._entries: Optional[dict[str, Entry]] = None
        self._registry: Optional[Registry] = None
        self._oauths: dict[str, WebOAuth] = {}
        self.users = UserClients()
        self._overridden: tuple[frozenset[str], ...] = ()
        self._renew()
        fork.watch(self)

    def _renew(self) -> None:
        # Guards the making of `_registry` and the replacement of `_overridden`, without I/O.
        self._lock = threading.Lock()

    def after_fork_in_child(self) -> None:
        """Replace a lock that another thread may have held."""
        self._renew()

    def __repr__(self) -> str:
        return "<the servers of MCP_SYNC>"

    @property
    def registry(self) -> Registry:
        """The registry underneath."""
        found = self._registry
        if found is None:
            made = Registry(self._configs, **self._options())
            with self._lock:
                found = self._registry = self._registry or made
        return found

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"timeout": conf.get("DEFAULT_DEADLINE"), **conf.get("OPTIONS")}
        if conf.get("RESPONSE_CACHE"):
            from .cache import cache_options

            options.setdefault("cache", cache_options(conf.get("RESPONSE_CACHE")))
        return options

    def entries(self) -> Mapping[str, Entry]:
        """Return what the settings say of each server.

        Raises:
            ConfigError, ImproperlyConfigured: They cannot be read.
        """
        found = self._entries
        if found is None:
            found = self._entries = conf.entries()
        return found

    def _configs(self) -> dict[str, Any]:
        return {alias: entry.server for alias, entry in self.entries().items()}

    def __getitem__(self, alias: str) -> Server:
        """Return a server.

        Raises:
            ConfigError: There is no such alias: the known ones are listed. Or it cannot be used.
        """
        return self._server(alias, self.registry[alias])

    def _server(self, alias: str, client: Client) -> Server:
        is_fake = any(alias in names for names in self._overridden)
        return Server(alias, client, None if is_fake else self.entries().get(alias), self)

    @contextmanager
    def another(self, alias: str, **options: Any) -> Iterator[Server]:
        """Have a server with one more client while the block runs, for a command. See `Registry.another`."""
        with self.registry.another(alias, **options) as client:
            yield self._server(alias, client)

    def __contains__(self, alias: object) -> bool:
        return alias in self.registry

    def __iter__(self) -> Iterator[str]:
        return iter(self.registry)

    def __len__(self) -> int:
        return len(self.registry)

    def oauth(self, alias: str, entry: Entry) -> Optional[WebOAuth]:
        """Return the OAuth of a server, ``None`` if it has none."""
        if entry.auth is None:
            return None
        found = self._oauths.get(alias)
        return found if found is not None else self._oauths.setdefault(alias, make_oauth(alias, entry))

    @contextmanager
    def override(self, servers: Mapping[str, Any]) -> Iterator[Servers]:
        """Replace servers while the block runs: for tests. See `Registry.override`."""
        names = frozenset(servers)
        registry = self.registry
        with registry.override(servers):
            try:
                with self._lock:
                    self._overridden = (names, *self._overridden)
                yield self
            finally:
                with self._lock:
                    left = list(self._overridden)
                    left.remove(names)
                    self._overridden = tuple(left)

    def setting_changed(self, *, setting: str, **_: Any) -> None:
        """Read the settings anew after a change, as ``override_settings`` makes one."""
        if setting in ("MCP_SYNC", "SECRET_KEY", "SECRET_KEY_FALLBACKS", "CACHES"):
            self.reset()

    def reset(self) -> None:
        """Close all clients, and read the settings anew at the next look-up."""
        with self._lock:
            old, self._registry = self._registry, None
        self._entries, self._oauths, self.users = None, {}, UserClients()
        if old is not None:
            old.close()


mcp = Servers()

"""Servers of an application whose users log in: the settings of their OAuth, apart from all else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Optional

from .._concurrency.fork import no_fork
from ..errors import UsageError

# What this package understands of ``auth`` beside what `mcp_sync.config` does, as arguments of `OAuth`.
_FLAGS = ("allow_private", "allow_http", "dpop")
_PER_USER = "per_user"


@dataclass(frozen=True)
class Entry:
    """One server.

    Attributes:
        server: What a `Registry` takes, without the authorization if that is OAuth.
        auth: The settings of its OAuth as they were written, ``None`` if its users need not log in.
        flags: Further arguments of `OAuth`.
        per_user: Whether each user logs in; ``False`` if nobody does, or one person for all.
        warnings: What is odd about it, each a sentence.
    """

    server: Any
    auth: Optional[Mapping[str, Any]] = field(default=None, repr=False)
    flags: Mapping[str, Any] = field(default_factory=dict, repr=False)
    per_user: bool = False
    warnings: tuple[str, ...] = ()

    def oauth_options(self) -> dict[str, Any]:
        """Return arguments of `OAuth`, with all variables replaced.

        Raises:
            ConfigError: A variable is not set.
        """
        with no_fork():
            from ..config._auth import as_list, oauth_options, settings

        place = _place_of(self.server)
        given = settings(self.server.variables.fill(self.auth, place))
        options = oauth_options(given)
        options.pop("interactive", None)
        return {**options, "scopes": as_list(given.get("scopes"), place.at("scopes")), **self.flags}


def read_entry(alias: str, raw: Any, shareable: bool = False) -> Entry:
    """Return what is said about a server.

    Args:
        alias: Its name.
        raw: Settings as in a configuration file, where ``auth`` may also have ``allow_private``,
            ``allow_http`` and ``dpop``; or anything else that a `Registry` takes.
        shareable: Whether ``auth`` may have ``per_user``, which is false where one login is for all.

    Raises:
        ConfigError: It cannot be so.
    """
    with no_fork():
        from ..config._entries import read_entry as read
        from ..config._errors import Place, named_kind
        from ..config._server import ServerConfig
        from ..config._variables import Variables

    if isinstance(raw, ServerConfig):
        return _with_users(raw, {}, ())
    if not isinstance(raw, Mapping):
        return Entry(raw)
    raw, flags = dict(raw), {}
    own = (*_FLAGS, _PER_USER) if shareable else _FLAGS
    for key, auth in list(raw.items()):
        if str(key).lower() == "auth" and isinstance(auth, Mapping):
            flags = {str(name).lower(): auth[name] for name in auth if str(name).lower() in own}
            for name, value in flags.items():
                if not isinstance(value, bool):
                    place = Place(None, alias, f"{key}.{name}")
                    raise place.error(f"this must be true or false, not {named_kind(value)}")
            raw[key] = {name: value for name, value in auth.items() if str(name).lower() not in own}
    server, warnings = read(alias, raw, None, Variables(".", False, {}))
    return _with_users(server, flags, tuple(warnings))


def read_or_broken(alias: str, raw: Any, read: Callable[[str, Any], Entry] = read_entry) -> Entry:
    """Return what is said about a server; if that cannot be so, one that raises the error when it is used.

    Args:
        alias: Its name.
        raw: As for `read_entry`.
        read: Reads that.
    """
    with no_fork():
        from ..config._entries import broken_entry
        from ..config._errors import ConfigError
        from ..config._variables import Variables

    try:
        return read(alias, raw)
    except ConfigError as fault:
        return Entry(broken_entry(alias, raw, fault, Variables(".", False, {})))


def _with_users(server: Any, flags: dict[str, Any], warnings: tuple[str, ...]) -> Entry:
    with no_fork():
        from ..config._auth import kind_of, settings
        from ..config._keys import plain

    auth = server.auth
    if auth is True or (isinstance(auth, str) and plain(auth) == "oauth"):
        auth = {"type": "oauth"}
    if not isinstance(auth, Mapping) or kind_of(settings(auth), _place_of(server)) != "oauth":
        return Entry(server, warnings=warnings)
    per_user = bool(flags.pop(_PER_USER, True))
    if settings(auth).get("enabled") is False:
        return Entry(replace(server, auth=None), warnings=warnings)
    return Entry(replace(server, auth=None), auth, flags, per_user, warnings)


def _place_of(server: Any) -> Any:
    with no_fork():
        from ..config._errors import Place

    return Place(server.file, server.name, server.auth_key)


def read_entries(servers: Any, file: Any = None) -> dict[str, Entry]:
    """Return the servers of a file, and over them those that are given.

    Raises:
        ConfigError, UsageError: They cannot be read.
    """
    with no_fork():
        from .._servers.making import read_servers

    found: dict[str, Entry] = {}
    if file is not None:
        found.update({name: read_or_broken(name, each) for name, each in read_servers(str(file)).items()})
    if servers is None:
        return found
    if not isinstance(servers, Mapping):
        servers = read_servers(servers)
    for name, raw in servers.items():
        if not isinstance(name, str) or not name:
            raise UsageError(f"servers are named by strings, not {name!r}")
        found[name] = read_or_broken(name, raw)
    return found

"""The settings: ``MCP_SYNC``, read when they are needed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured

from ...config._entries import read_entry
from ...config._server import ServerConfig
from ...config._variables import Variables

MODEL_STORE = "mcp_sync.contrib.django.stores.ModelTokenStore"

# All keys, with their defaults.
DEFAULTS: dict[str, Any] = {
    "SERVERS": {},
    "CONFIG_FILE": None,
    "TOKEN_STORE": MODEL_STORE,
    "RESPONSE_CACHE": None,
    "DEFAULT_DEADLINE": 20.0,
    "ENCRYPTION_KEYS": (),
    "DATABASE": "default",
    "BASE_URL": None,
    "CLIENT_NAME": "mcp-sync",
    "CLIENT_METADATA": False,
    "INPUT_LIFE": 7 * 24 * 3600.0,
    "OPTIONS": {},
}
# What this package understands beside what `mcp_sync.config` does.
_OWN_AUTH_KEYS = ("PER_USER", "ALLOW_PRIVATE", "ALLOW_HTTP", "DPOP")


@dataclass(frozen=True)
class Entry:
    """One server of the settings.

    Attributes:
        config: What `mcp_sync.config` makes of it, without the authorization if that is OAuth.
        auth: The settings of its OAuth, ``None`` if it has none.
        per_user: Whether each user has a grant of their own.
        flags: Further arguments of `OAuth`.
        warnings: What is odd about it.
    """

    config: ServerConfig
    auth: Optional[Mapping[str, Any]] = field(default=None, repr=False)
    per_user: bool = False
    flags: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def get(key: str) -> Any:
    """Return one of the settings of ``MCP_SYNC``, or its default.

    Raises:
        ImproperlyConfigured: ``MCP_SYNC`` is no dict.
    """
    return given().get(key, DEFAULTS[key])


def given() -> Mapping[str, Any]:
    """Return ``MCP_SYNC`` as it is."""
    found = getattr(django_settings, "MCP_SYNC", {})
    if not isinstance(found, Mapping):
        raise ImproperlyConfigured(f"MCP_SYNC must be a dict, not {type(found).__name__}")
    return found


def unknown_keys() -> Iterator[str]:
    """Give a sentence for each key of ``MCP_SYNC`` that means nothing."""
    for key in given():
        if key not in DEFAULTS:
            close = difflib.get_close_matches(str(key).upper(), DEFAULTS, 1)
            yield f"MCP_SYNC has an unknown key {key!r}" + (f"; did you mean {close[0]!r}?" if close else "")


def read_server(alias: str, raw: Any) -> Entry:
    """Return what the settings say about one server.

    Raises:
        ConfigError: They describe none.
    """
    raw = dict(raw) if isinstance(raw, Mapping) else raw
    flags: dict[str, Any] = {}
    if isinstance(raw, dict):
        for name in [key for key in raw if str(key).upper() == "AUTH" and isinstance(raw[key], Mapping)]:
            raw[name] = dict(raw[name])
            flags = {key: raw[name].pop(key) for key in _OWN_AUTH_KEYS if key in raw[name]}
        for name in [key for key in raw if str(key).upper() == "TIMEOUTS" and isinstance(raw[key], Mapping)]:
            bounds = {str(key).lower(): value for key, value in raw[name].items()}
            if "call" in bounds:
                raw["timeout"] = bounds.pop("call")
            raw[name] = bounds
    config, warnings = read_entry(alias, raw, None, Variables(".", False, {}))
    return with_auth(config, flags, tuple(warnings))


def with_auth(config: ServerConfig, flags: dict[str, Any], warnings: tuple[str, ...] = ()) -> Entry:
    """Return a server whose OAuth, if it has any, is for this package to do."""
    from dataclasses import replace

    from ...config._auth import _kind, settings
    from ...config._errors import Place
    from ...config._keys import plain

    auth = config.auth
    per_user = bool(flags.pop("PER_USER", True))
    lower = {key.lower(): value for key, value in flags.items()}
    if auth is True or (isinstance(auth, str) and plain(auth) == "oauth"):
        auth = {"kind": "oauth"}
    if not isinstance(auth, Mapping) or _kind(settings(auth), Place(config.file, config.name)) != "oauth":
        return Entry(config, None, False, {}, warnings)
    return Entry(replace(config, auth=None), auth, per_user, lower, warnings)


def entries() -> dict[str, Entry]:
    """Return all servers by alias: those of ``CONFIG_FILE``, and over them those of ``SERVERS``.

    Raises:
        ConfigError: One of them cannot be read.
        ImproperlyConfigured: ``SERVERS`` is no dict.
    """
    found: dict[str, Entry] = {}
    file = get("CONFIG_FILE")
    if file:
        from ...config import load_config

        found.update({alias: with_auth(server, {}) for alias, server in load_config(file).servers.items()})
    servers = get("SERVERS")
    if not isinstance(servers, Mapping):
        raise ImproperlyConfigured(f"MCP_SYNC['SERVERS'] must be a dict, not {type(servers).__name__}")
    found.update({str(alias): read_server(str(alias), raw) for alias, raw in servers.items()})
    return found

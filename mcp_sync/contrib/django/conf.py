"""The settings: ``MCP_SYNC``, read when they are needed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured

from ...config import ConfigError
from .._entries import Entry, read_entries, read_entry, read_or_broken

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
    "ERROR_PAGES": True,
    "OPTIONS": {},
}


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
    if not isinstance(raw, Mapping):
        raise ConfigError(f"the server {alias!r} of MCP_SYNC must be a dict, not {type(raw).__name__}")
    raw = dict(raw)
    for name in [key for key in raw if str(key).upper() == "TIMEOUTS" and isinstance(raw[key], Mapping)]:
        bounds = {str(key).lower(): value for key, value in raw[name].items()}
        if "call" in bounds:
            raw["timeout"] = bounds.pop("call")
        raw[name] = bounds
    return read_entry(alias, raw, shareable=True)


def entries() -> dict[str, Entry]:
    """Return all servers by alias: those of ``CONFIG_FILE``, and over them those of ``SERVERS``.

    One that cannot be so raises the error when it is used.

    Raises:
        ConfigError: The file cannot be read.
        ImproperlyConfigured: ``SERVERS`` is no dict.
    """
    file, servers = get("CONFIG_FILE"), get("SERVERS")
    if not isinstance(servers, Mapping):
        raise ImproperlyConfigured(f"MCP_SYNC['SERVERS'] must be a dict, not {type(servers).__name__}")
    found = read_entries(None, file or None)
    for alias, raw in servers.items():
        found[str(alias)] = read_or_broken(str(alias), raw, read_server)
    return found

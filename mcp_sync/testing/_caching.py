"""How long results of the fake server may be cached, and by whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from ._rpc import Message

if TYPE_CHECKING:
    from ._exchange import Exchange

# For every method, or by method; a function decides by the params, so that pages can differ.
TTL = Union[int, None, Callable[[Message], Optional[int]]]
Scope = Union[str, None, Callable[[Message], Optional[str]]]
TTLs = Union[TTL, Mapping[str, TTL]]
Scopes = Union[Scope, Mapping[str, Scope]]


def hints(exchange: Exchange) -> Message:
    """Return the caching hints of the result of a request; those that are ``None`` are left out."""
    server = exchange.connection.server
    found = {
        "ttlMs": _chosen(server.ttl_ms, exchange, 0),
        "cacheScope": _chosen(server.cache_scope, exchange, "private"),
    }
    return {key: value for key, value in found.items() if value is not None}


def _chosen(setting: Any, exchange: Exchange, default: Any) -> Any:
    if isinstance(setting, Mapping):
        setting = setting.get(exchange.method, default)
    return setting(exchange.params) if callable(setting) else setting

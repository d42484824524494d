"""Answers of servers in a cache of Django's: ``MCP_SYNC["RESPONSE_CACHE"] = "default"``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.cache import caches

from ...options import CacheOptions
from . import crypto


class DjangoCacheStore:
    """Keeps answers in one of ``CACHES``; see `mcp_sync.cache.CacheStore`.

    Args:
        alias: Which one. It is looked up at each use: Django has a connection for each thread.
    """

    def __init__(self, alias: str = "default") -> None:
        self.alias = alias

    def get_many(self, keys: Sequence[str]) -> Mapping[str, Any]:
        """See `CacheStore`."""
        found: Mapping[str, Any] = caches[self.alias].get_many(keys)
        return found

    def put(self, key: str, value: bytes, seconds: int) -> None:
        """See `CacheStore`."""
        caches[self.alias].set(key, value, seconds)

    def delete(self, key: str) -> None:
        """See `CacheStore`."""
        caches[self.alias].delete(key)


def cache_options(alias: str) -> CacheOptions:
    """Return the options of clients whose answers a cache of Django's keeps."""
    return CacheOptions(store=DjangoCacheStore(alias), secret=crypto.sealer().envelope_key)

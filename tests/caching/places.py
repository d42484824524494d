"""Servers, stores, and clients that keep answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_sync import CacheOptions, Client, InMemory
from mcp_sync.testing import FakeServer

PATIENCE = 10.0
URI = "demo://notes/1"
OFFERS = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}


def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"


def make_server(**settings: Any) -> FakeServer:
    """Make a server whose answers stay fresh for a minute."""
    given: dict[str, Any] = {
        "tools": [add],
        "prompts": [greet],
        "resources": {URI: "one", "demo://notes/{id}": lambda id: id},
        "ttl_ms": 60_000,
        "capabilities": OFFERS,
    }
    return FakeServer(**{**given, **settings})


def keeping(server: FakeServer, **options: Any) -> Client:
    """Return a client in memory that keeps answers."""
    return Client(InMemory(server), cache=CacheOptions(**options))


class DictStore:
    """The smallest store there is. Seconds are noted, and do not pass."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.seconds: dict[str, int] = {}

    def get_many(self, keys: Sequence[str]) -> Mapping[str, Any]:
        return {key: self.values[key] for key in keys if key in self.values}

    def put(self, key: str, value: bytes, seconds: int) -> None:
        assert isinstance(value, bytes)
        assert isinstance(seconds, int)
        assert seconds > 0
        self.values[key], self.seconds[key] = value, seconds

    def delete(self, key: str) -> None:
        self.values.pop(key, None)

    def forget_all(self) -> None:
        self.values.clear()

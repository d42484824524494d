"""A fake server, and a client of it over each channel and in each era."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from engine.scripted import DuplexChannel, Target

from mcp_sync import Client, InMemory, LegacySSE, Retry, Timeouts
from mcp_sync._concurrency.pending import PendingCall
from mcp_sync._protocol.frames import Frame
from mcp_sync.testing import FakeServer

PATIENCE = 10.0
SOON = Retry(backoff=0.001)
URI = "demo://a"
OFFERS = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}


def stamp(request: Any) -> dict[str, Any]:
    """Return the ``_meta`` of what belongs to a subscription."""
    return {"io.modelcontextprotocol/subscriptionId": request["id"]}


class ListeningChannel(DuplexChannel):
    """One stream for all calls; acknowledges every subscription as it was asked for."""

    def request(self, frame: Frame, call: PendingCall) -> None:
        super().request(frame, call)
        asked = self.sent[-1]
        if asked["method"] == "subscriptions/listen":
            params = {"notifications": asked["params"]["notifications"], "_meta": stamp(asked)}
            self.notify("notifications/subscriptions/acknowledged", **params)


class ListeningTarget(Target):
    """Makes `ListeningChannel`."""

    kind = ListeningChannel


class Place(NamedTuple):
    """How a client reaches the server."""

    channel: str
    mode: str

    def __str__(self) -> str:
        return f"{self.channel}-{self.mode}"

    @property
    def is_modern(self) -> bool:
        """Whether a subscription is a request."""
        return self.mode == "auto"

    @property
    def may_hold_up(self) -> bool:
        """Whether the server has to wait where the client is slow: nothing else uses the stream."""
        return self.is_modern and self.channel != "websocket"

    @contextmanager
    def client(self, server: FakeServer, **options: Any) -> Iterator[Client]:
        """Serve, and connect a client."""
        # On a busy machine a server may need long to answer the probe, and count as an older one.
        options = {"mode": self.mode, "retry": SOON, "timeouts": Timeouts(probe=20), **options}
        if self.channel == "memory":
            with Client(InMemory(server), **options) as client:
                yield client
            return
        serve = {"http": server.serve_http, "websocket": server.serve_websocket, "sse": server.serve_sse}
        with serve[self.channel]() as endpoint:
            target = LegacySSE(endpoint.url) if self.channel == "sse" else endpoint.url
            with Client(target, **options) as client:
                yield client


PLACES = [
    Place("http", "auto"),
    Place("websocket", "auto"),
    Place("memory", "auto"),
    Place("http", "legacy"),
    Place("websocket", "legacy"),
    Place("memory", "legacy"),
    Place("sse", "legacy"),
]
MODERN = [place for place in PLACES if place.is_modern]
LEGACY = [place for place in PLACES if not place.is_modern]


def make_server(**options: Any) -> FakeServer:
    """Make a server that offers all kinds of changes."""
    return FakeServer(capabilities=OFFERS, **options)

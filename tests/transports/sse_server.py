"""A scripted server of HTTP with SSE, and a channel to it, with what a test needs around them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Optional

from http_server import PATIENCE, FakeInbound, ScriptedServer, Turn, answer, event, frame_of

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._concurrency.pending import PendingCall
from mcp_sync._protocol.frames import Frame
from mcp_sync.errors import another
from mcp_sync.options import Limits, Retry, Timeouts
from mcp_sync.transports import LegacySSE
from mcp_sync.transports._base import Settings


def named(endpoint: str) -> bytes:
    """Build the event that names an endpoint."""
    return f"event: endpoint\ndata: {endpoint}\n\n".encode()


class SSEScript:
    """What a server does: it opens one stream after the other, and answers on the last one.

    Attributes:
        endpoint: What the stream names.
        on_get: Takes the place of opening a stream, if set.
        on_post: Takes the place of accepting and answering a message, if set.
        opened: Released once for each stream that was opened.
        ended: Released once for each stream that the client has closed.
    """

    def __init__(self, endpoint: str = "/messages?sid=1") -> None:
        self.endpoint = endpoint
        self.on_get: Optional[Callable[[Turn], None]] = None
        self.on_post: Optional[Callable[[Turn], None]] = None
        self.opened = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        self._stream: Optional[Turn] = None
        # Keeps the events of several threads apart.
        self._lock = threading.Lock()

    def __call__(self, turn: Turn) -> None:
        """Handle a request."""
        special = self.on_get if turn.method == "GET" else self.on_post
        if special is not None:
            special(turn)
        elif turn.method == "GET":
            self.open(turn)
        else:
            turn.accepted()
            if turn.id is not None and "method" in turn.message:
                self.say(event(answer(turn.id)))

    def open(self, turn: Turn, *events: bytes) -> None:
        """Open the stream and keep it until the client closes it."""
        self._stream = turn
        turn.stream(*(events or (named(self.endpoint),)))
        self.opened.release()
        if turn.wait_for_close():
            self.ended.release()

    def say(self, data: bytes) -> None:
        """Write to the stream."""
        with self._lock:
            self.stream.chunk(data)

    @property
    def stream(self) -> Turn:
        """The stream that was opened last."""
        assert self._stream is not None
        return self._stream


class SharedInbound(FakeInbound):
    """Takes the place of the engine on a channel whose calls share a stream."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[int, PendingCall] = {}

    def receive(self, message: Any, call: Optional[PendingCall] = None) -> None:
        """Settle the call that this answers, or keep the message."""
        for item in message if isinstance(message, list) else [message]:
            mine = self.calls.get(item.get("id")) if isinstance(item, dict) else None
            if mine is None or "method" in item:
                super().receive(item)
            else:
                mine.settle(item)

    def lost(self, error: Exception) -> None:
        """Fail all calls."""
        super().lost(error)
        for call in list(self.calls.values()):
            call.fail(another(error))


class SSEClient:
    """A started channel, and its calls."""

    def __init__(self, target: LegacySSE, settings: Settings) -> None:
        self.channel: Any = target.channel(settings)
        self.inbound = SharedInbound()
        self._ids = iter(range(1, 1_000_000))

    def start(self, timeout: float = PATIENCE) -> None:
        """Open the stream."""
        self.channel.start(self.inbound, Deadline(timeout))

    def pending(self, method: str = "tools/call", timeout: float = PATIENCE) -> PendingCall:
        """Make a call that is not sent yet."""
        call = PendingCall(next(self._ids), method, Deadline(timeout))
        self.inbound.calls[call.id] = call
        return call

    def send(self, call: PendingCall, headers: Optional[dict[str, str]] = None) -> Any:
        """Send a call, wait for its answer and return the result; a JSON-RPC error is returned whole."""
        self.channel.request(frame_of(call, headers), call)
        assert call.wait(), "no answer"
        reply = call.result()
        return reply.get("result", reply)

    def call(self, method: str = "tools/call", timeout: float = PATIENCE) -> Any:
        """Make a call and return its result."""
        return self.send(self.pending(method, timeout))

    def notify(self, method: str = "notifications/initialized") -> None:
        """Send a notification."""
        body = f'{{"jsonrpc": "2.0", "method": "{method}"}}'.encode()
        self.channel.send(Frame(body, method), Deadline(PATIENCE))

    def threads(self) -> list[str]:
        """Name the threads of the channel that run."""
        return [each.name for each in threading.enumerate() if each.name.startswith("mcp_sync-sse-test")]


@contextmanager
def sse_client_of(
    url: str, timeouts: Optional[Timeouts] = None, limits: Optional[Limits] = None, **options: Any
) -> Iterator[SSEClient]:
    """Yield a channel to a URL that is not started yet, and close it in the end."""
    settings = Settings("sse-test", timeouts or Timeouts(), limits or Limits(), Retry())
    client = SSEClient(LegacySSE(url, **options), settings)
    try:
        yield client
    finally:
        client.channel.close(Deadline(PATIENCE))


@contextmanager
def sse_session(script: SSEScript, start: bool = True, **options: Any) -> Iterator[Any]:
    """Serve a script and yield a client of it; both end with the block."""
    with ExitStack() as stack:
        server = stack.enter_context(ScriptedServer(script, tls=options.pop("tls", None)))
        client: Any = stack.enter_context(sse_client_of(server.url, **options))
        client.server = server
        if start:
            client.start()
        yield client

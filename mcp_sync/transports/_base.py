"""The seam between the engine and a transport.

One thread makes a call: it encodes a `Frame`, hands it to `Channel.request` together with its
`PendingCall`, and then waits on the pending call. On a duplex channel (stdio, WebSocket, HTTP with SSE)
``request`` writes and returns, and the channel's reader thread passes what arrives to `Inbound.receive`,
which settles the call; on stdio the calling thread first looks for a moment whether the answer is there.
On Streamable HTTP ``request`` reads the response of its own POST, passes each message to ``receive`` and
returns when the call is settled: the waiting thread settles its own future.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Optional, Protocol

from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from .._protocol.frames import Frame, Wire
from ..errors import MCPError
from ..options import Limits, Retry, Timeouts

__all__ = ["Channel", "Frame", "Inbound", "Settings", "Target", "Wire"]


@dataclass(frozen=True)
class Settings:
    """What the engine passes on to a channel."""

    name: str
    timeouts: Timeouts
    limits: Limits
    retry: Retry


class Inbound(Protocol):
    """Where a channel delivers: the engine. All methods may be called from any thread, also from that of a
    call which looks for its own answer, and do not block on the user's code; ``receive`` may wait for room
    in the callback queue, within the call's deadline."""

    def receive(self, message: Any, call: Optional[PendingCall] = None) -> None:
        """Take one decoded JSON value.

        Args:
            message: What the peer sent: a message, a batch of messages (2025-03-26), or rubbish.
            call: The call on whose own response stream it came, ``None`` on a shared channel.
        """

    def lost(self, error: MCPError) -> None:
        """The channel is dead. Every call in flight on it fails with ``error``."""

    def stream_stands(self, gap: bool) -> None:
        """The stream of what the server sends unasked stands, where it is one of its own (legacy HTTP).

        Args:
            gap: Whether it had stood before, and what was sent meanwhile is lost.
        """

    def stream_lost(self, error: MCPError) -> None:
        """There is no such stream, or it cannot be opened again. `Channel.configure` tries anew."""

    def report(self, error: Exception) -> None:
        """Pass on a fault that ends neither the channel nor, by itself, a call (a skipped line, a refused
        GET stream)."""


class Channel(Protocol):
    """A live transport to one peer. Safe for any number of threads.

    Attributes:
        peer: How the peer is named in errors, without secrets.
        is_http: Whether HTTP headers are sent and ``x-mcp-header`` has to be obeyed.
        duplex: Whether one stream is shared by all calls, so that a silent probe leaves it usable.
    """

    peer: str
    is_http: bool
    duplex: bool

    def start(self, inbound: Inbound, deadline: Deadline) -> None:
        """Connect, as far as that needs no request. Called once.

        Raises:
            ConnectFailed: There is nobody to talk to. Nothing is left behind.
            CallTimeout: Not within the deadline.
        """

    def configure(self, wire: Wire) -> None:
        """Adapt to the negotiated revision. Does not block."""

    def request(self, frame: Frame, call: PendingCall) -> None:
        """Send a request. When it returns, the call is settled, or a reader thread will settle it.

        Sets ``call.request_sent`` before the first byte may leave. Returns early when the call is
        settled by somebody else (cancelled, closed).

        Raises:
            TransportError: The request failed; the channel itself may be fine (HTTP).
            CallTimeout: The call's deadline passed while this thread sent or read.
        """

    def send(self, frame: Frame, deadline: Deadline) -> None:
        """Send a notification or a response.

        Raises:
            TransportError, CallTimeout: It could not be sent.
        """

    def try_send(self, frame: Frame) -> bool:
        """Send a small message if that can be done at once, without blocking; return whether it was."""

    @property
    def session_id(self) -> Optional[str]:
        """The ``Mcp-Session-Id`` in use (legacy HTTP), else ``None``."""

    def close(self, deadline: Deadline) -> None:
        """End the connection and everything that belongs to it: threads, sockets, processes.

        Idempotent, safe from any thread, never raises, returns by the deadline. The engine has
        failed all calls before, which wakes the threads that read for them.
        """

    def discard(self) -> None:
        """End it without waiting for anybody: for finalisers.

        From any thread, in any state, also after `close`. What needs time (a server that writes down its
        state) still gets it, where the channel has a thread to see to that.
        """

    def abandon(self) -> None:
        """In a forked child: drop what was inherited, without a byte to the peer and without a lock."""


class Target(Protocol):
    """A frozen description of a peer: what a user passes to ``Client``. Its ``repr`` shows no secret.

    Some have more: ``session_id``, a session to be taken up; ``handshake_first``, whether no server without a
    handshake is to be expected; ``fallback()``, the same peer over an older transport, or ``None``.
    """

    def identity(self) -> Hashable:
        """What tells two servers apart, without secrets; a server's era is remembered under it."""

    def channel(self, settings: Settings) -> Channel:
        """Make a new channel. Opens nothing.

        Raises:
            UsageError: The description cannot work.
        """

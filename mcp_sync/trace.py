"""What goes over the wire, written down: ``Client(..., trace=True)``, or ``MCP_SYNC_TRACE=1`` for all.

Each message is a line::

    12:00:00.123 client-1 > tools/call id=3 name="add" arguments: 2, 97 bytes
    12:00:00.127 client-1 < result id=3 after 4.1 ms, content: 1
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Union

from ._concurrency.deadline import Deadline
from ._concurrency.pending import PendingCall
from ._masking import masked, masked_text, public_uri
from ._protocol.striking import without
from .errors import MCPError, UsageError
from .errors._printable import printable
from .transports._base import Channel, Frame, Inbound

logger = logging.getLogger("mcp_sync.trace")

VARIABLE = "MCP_SYNC_TRACE"
# Requests that are remembered until their answers come.
_REMEMBERED = 10_000

Write = Callable[[str], Any]


class Trace:
    """Writes each message down, in and out, with its method, its id and the time. Clients may share one.

    Never shown are the values of headers. Masked, as far as that can be told, are credentials in URLs, what
    stands under a name such as ``token`` or ``password``, also in texts that are JSON, what looks like a
    credential: ``Bearer ...``, keys of well-known forms; and the credentials that the client was given for
    the server, whoever repeats them. That is a help, and no proof: what is confidential need not be named so.
    So leave ``content`` off where that counts.

    Args:
        write: Takes each line, without an end; called from any thread. Default: standard error. What it
            raises is logged once and harms no call.
        content: Whether params and results are shown, too, as JSON.
        limit: The most characters of a line.

    Raises:
        UsageError: ``write`` cannot be called, or ``limit`` is no whole number above 0.
    """

    def __init__(self, write: Optional[Write] = None, *, content: bool = False, limit: int = 2000) -> None:
        if write is not None and not callable(write):
            raise UsageError(f"write must be a function that takes a line, not {type(write).__name__}")
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise UsageError(f"limit must be a whole number of at least 1, not {limit!r}")
        self._write = _to_stderr if write is None else write
        self._content = bool(content)
        self._limit = limit
        self._has_failed = False

    def around(self, channel: Channel, name: str, secrets: Sequence[str] = ()) -> Channel:
        """Return a channel that does what another one does, and writes it down.

        Args:
            channel: The other one.
            name: The name of the client.
            secrets: What is never written down, whoever says it.
        """
        traced: Any = _TracedChannel(channel, self, name, secrets)
        return traced  # type: ignore[no-any-return]

    def line(self, name: str, text: str) -> None:
        """Write a line. Never raises."""
        now = time.time()
        clock = time.strftime("%H:%M:%S", time.localtime(now))
        try:
            shown = printable(text, self._limit)
            self._write(f"{clock}.{int(now * 1000) % 1000:03} {name} {shown}")
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                logger.exception("The trace cannot be written")

    def describe(self, message: Any) -> str:
        """Say what is in params or a result."""
        if self._content:
            return json.dumps(masked(message))
        if not isinstance(message, Mapping):
            return type(message).__name__
        return ", ".join(
            f"{printable(str(key), 100)}: {_size(key, value)}"
            for key, value in message.items()
            if key != "_meta"
        )


def _size(key: str, value: Any) -> str:
    if key in ("name", "method") and isinstance(value, str):
        return json.dumps(masked_text(value[:200]))
    if key == "uri" and isinstance(value, str):
        return json.dumps(masked_text(public_uri(value)[:500]))
    if isinstance(value, (Mapping, list)):
        return str(len(value))
    return f"{len(value)} characters" if isinstance(value, str) else str(value)


def _to_stderr(line: str) -> None:
    # Looked up each time: it may have been replaced.
    print(line, file=sys.stderr, flush=True)


def as_trace(trace: Any, variable: Optional[str]) -> Optional[Trace]:
    """Return what a user has passed as ``trace``.

    Args:
        trace: ``None``, a boolean, a function that takes lines, or a `Trace`.
        variable: The environment variable, which counts where nothing was passed.

    Raises:
        UsageError: It is none of these.
    """
    if trace is None:
        return None if variable in (None, "", "0") else Trace(content=variable == "content")
    if isinstance(trace, bool):
        return Trace() if trace else None
    if isinstance(trace, Trace):
        return trace
    if isinstance(trace, type) or not callable(trace):
        raise UsageError(
            f"trace must be True, False, a function that takes a line, or a Trace, not {trace!r:.100}"
        )
    return Trace(trace)


class _TracedChannel:
    """A channel that writes down what goes out. All that is not here is the other channel's."""

    def __init__(self, channel: Channel, trace: Trace, name: str, secrets: Sequence[str]) -> None:
        self._channel = channel
        self._trace = trace
        self._name = name
        self._secrets = secrets
        # When requests went out, by their ids. Single operations only, so it needs no lock.
        self.sent: dict[Any, float] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def start(self, inbound: Inbound, deadline: Deadline) -> None:
        self.write(f"- connecting to {self._channel.peer}")
        # Kept here: some channels refer to it weakly.
        self._inbound = _TracedInbound(inbound, self)
        self._channel.start(self._inbound, deadline)

    def request(self, frame: Frame, call: PendingCall) -> None:
        if len(self.sent) < _REMEMBERED:
            self.sent[call.id] = time.perf_counter()
        self._out(frame)
        try:
            self._channel.request(frame, call)
        except Exception as error:
            self.sent.pop(call.id, None)
            self.write(
                f"! {frame.method} id={call.id} failed: {type(error).__name__}: {masked_text(str(error))}"
            )
            raise

    def send(self, frame: Frame, deadline: Deadline) -> None:
        self._out(frame)
        self._channel.send(frame, deadline)

    def try_send(self, frame: Frame) -> bool:
        was_sent = self._channel.try_send(frame)
        if was_sent:
            self._out(frame)
        return was_sent

    def close(self, deadline: Deadline) -> None:
        self.write(f"- closing the connection to {self._channel.peer}")
        self._channel.close(deadline)

    def _out(self, frame: Frame) -> None:
        message = json.loads(frame.body)
        headers = f" headers={','.join(frame.headers)}" if frame.headers else ""
        self.write(f"> {self.summary(message)}{headers}, {len(frame.body)} bytes")

    def summary(self, message: Any) -> str:
        """Say what a message is."""
        if not isinstance(message, Mapping):
            return f"no message, but a {type(message).__name__}"
        words = [str(message.get("method") or ("error" if "error" in message else "result"))[:200]]
        if "id" in message:
            words.append(f"id={message['id']!r:.100}")
            if "method" not in message:
                words += self._duration(message["id"])
        error = message.get("error")
        if isinstance(error, Mapping):
            words.append(f"{error.get('code')} {masked_text(str(error.get('message'))[:4096])[:500]}")
        else:
            body = message.get("params", message.get("result"))
            words += [self._trace.describe(body)] if body else []
        return " ".join(words)

    def _duration(self, request_id: Any) -> list[str]:
        try:
            begun = self.sent.pop(int(request_id), None)
        except (TypeError, ValueError):
            return []
        return [f"after {(time.perf_counter() - begun) * 1000:.1f} ms"] if begun is not None else []

    def write(self, text: str) -> None:
        """Write a line."""
        self._trace.line(self._name, str(without(text, self._secrets)) if self._secrets else text)


class _TracedInbound:
    """Writes down what comes in, and passes it on."""

    def __init__(self, inbound: Inbound, channel: _TracedChannel) -> None:
        self._inbound = inbound
        self._channel = channel

    def receive(self, message: Any, call: Optional[PendingCall] = None) -> None:
        for each in message if isinstance(message, list) else (message,):
            self._channel.write(f"< {self._channel.summary(each)}")
        self._inbound.receive(message, call)

    def lost(self, error: MCPError) -> None:
        self._channel.write(f"! lost: {masked_text(str(error))}")
        self._inbound.lost(error)

    def stream_stands(self, gap: bool) -> None:
        self._channel.write("- the stream of the server stands" + (", after a gap" if gap else ""))
        self._inbound.stream_stands(gap)

    def stream_lost(self, error: MCPError) -> None:
        self._channel.write(f"! the stream of the server is gone: {masked_text(str(error))}")
        self._inbound.stream_lost(error)

    def report(self, error: Exception) -> None:
        self._channel.write(f"! {type(error).__name__}: {masked_text(str(error))}")
        self._inbound.report(error)


TraceArgument = Union[bool, Write, Trace, None]

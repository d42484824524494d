"""A target that writes down what passes between a client and another target."""

from __future__ import annotations

import itertools
import json
import os
import weakref
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, Callable, Optional, Union

from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from ..errors import MCPError
from ..transports._base import Channel, Frame, Inbound, Settings
from . import _tape
from ._masking import Mask
from ._secrets import known_of, known_of_channel, known_of_request, watched
from ._tape import Tape

# Headers that say nothing but what the message and the revision say.
_HARMLESS = ("mcp-method", "mcp-protocol-version")
_targets = itertools.count(1)

MaskFunction = Callable[[Any], Any]


class Recorder:
    """A target that does what another one does, and records the session in a file of JSON lines.

    ::

        with Client(Recorder("https://example.com/mcp", "search.jsonl")) as client:
            client.call_tool("search", {"query": "x"})
        with Client(Replay("search.jsonl")) as client:  # needs no server any more
            client.call_tool("search", {"query": "x"})

    Secrets are masked: what stands under keys such as ``password`` or ``token``, what looks like a
    credential, and what is named here. So are, wherever they stand and in both directions, the headers,
    environment, passwords and keys of the target, the tokens and cookies that its requests carry, and what
    has stood under such a key: as it is, quoted, or in Base64. That is a help and no proof: read a recording
    before you publish it. HTTP headers are not recorded, apart from two that repeat method and revision.

    The format is described in `mcp_sync.testing._tape`; it has a version.

    Args:
        target: A target, or what `Client` takes: a URL or a command.
        path: The file. It is written anew when the first connection is opened.
        hide: Further keys whose values are masked.
        secrets: Texts that are masked wherever they stand.
        mask: Called with each masked message, a dict; what it returns is recorded.

    Raises:
        UsageError: ``target`` is none.
    """

    def __init__(
        self,
        target: Any,
        path: Union[str, os.PathLike[str]],
        *,
        hide: Iterable[str] = (),
        secrets: Iterable[str] = (),
        mask: Optional[MaskFunction] = None,
    ) -> None:
        from ..client import make_target

        made = make_target(target, {})
        self._tape = Tape(Path(path))
        self._hide = Mask(hide, [*secrets, *known_of(made)])
        self._mask = mask
        self._target = watched(made, self.learn)
        self._numbers = itertools.count(1)
        self._name = next(_targets)

    def __repr__(self) -> str:
        return f"Recorder({self._target!r}, {str(self._tape.path)!r})"

    def identity(self) -> Hashable:
        """Return a key of its own: that a server is known already must not change what is recorded."""
        return ("recorder", self._name)

    @property
    def session_id(self) -> Optional[str]:
        """See `mcp_sync.transports._base.Target`."""
        return getattr(self._target, "session_id", None)

    @property
    def handshake_first(self) -> bool:
        """See `mcp_sync.transports._base.Target`."""
        return bool(getattr(self._target, "handshake_first", False))

    def fallback(self) -> Optional[_Fallback]:
        """Return the same server over an older transport, recorded as well."""
        target = getattr(self._target, "fallback", lambda: None)()
        return None if target is None else _Fallback(self, target)

    def channel(self, settings: Settings) -> Channel:
        """Make a new channel, which is recorded."""
        return self.record(self._target.channel(settings))

    def record(self, channel: Channel) -> Channel:
        """Return a channel that does what another one does, and is recorded."""
        number = next(self._numbers)
        if number == 1:
            self._tape.begin(self.hidden(channel.peer))
        recorded: Any = RecordedChannel(channel, self, number)
        return recorded  # type: ignore[no-any-return]

    def go_on(self, number: int) -> None:
        """Add to the file that is there, from this connection on."""
        self._numbers = itertools.count(number)

    def masked(self, message: Any) -> Any:
        """Return a message as it is recorded."""
        shown = self._hide(message)
        return shown if self._mask is None else self._mask(shown)

    def hidden(self, value: Any) -> Any:
        """Return what is no message without its secrets."""
        return self._hide(value)

    def learn(self, secrets: Iterable[str]) -> None:
        """Mask these texts from now on, and where they are recorded already."""
        if self._hide.learn(secrets):
            self._tape.change(self._hide.struck)

    def write(self, on: int, line: Mapping[str, Any], message: Any = None) -> None:
        """Write a line."""
        if isinstance(message, Mapping):
            if self._hide.learn_from(message):
                self._tape.change(self._hide.struck)
            named = {key: message[key] for key in ("method", "id") if key in message}
            line = {**line, **named, "message": self.masked(message)}
        self._tape.write(on, line)


class _Fallback:
    """The server of a recorder over an older transport."""

    def __init__(self, recorder: Recorder, target: Any) -> None:
        self._recorder = recorder
        self._target = target

    def identity(self) -> Hashable:
        return (*self._recorder.identity(), "older")  # type: ignore[misc]

    def channel(self, settings: Settings) -> Channel:
        return self._recorder.record(self._target.channel(settings))


class _Notes:
    """What is written down of one connection.

    Attributes:
        apart: A call whose answer is for nobody else, and not recorded.
        is_closing: Whether the client ends the connection, so that its loss is no news.
    """

    def __init__(self, recorder: Recorder, number: int) -> None:
        self._recorder = recorder
        self._number = number
        self.apart: Optional[PendingCall] = None
        self.is_closing = False

    def write(self, line: Mapping[str, Any], message: Any = None) -> None:
        self._recorder.write(self._number, line, message)

    def learn(self, secrets: Iterable[str]) -> None:
        self._recorder.learn(secrets)

    def fault(self, event: str, error: MCPError, **details: Any) -> None:
        described = self._recorder.hidden(_tape.described(error))
        self.write({"event": event, **details, "error": described})


class RecordedChannel:
    """A channel that writes down what passes. All that is not here is the other channel's.

    Args:
        channel: The other one.
        recorder: Writes.
        number: That of the connection.
    """

    def __init__(self, channel: Channel, recorder: Recorder, number: int) -> None:
        self._channel = channel
        self._notes = _Notes(recorder, number)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def start(self, inbound: Inbound, deadline: Deadline) -> None:
        """Connect."""
        event = {"event": "open", "http": self._channel.is_http, "duplex": self._channel.duplex}
        self._notes.write(event)
        # Kept here: some channels refer to it weakly.
        self._inbound: Any = _RecordedInbound(inbound, self._notes, self._channel)
        self._channel.start(self._inbound, deadline)

    def request(self, frame: Frame, call: PendingCall) -> None:
        """Send a request."""
        self._out(frame)
        try:
            self._channel.request(frame, call)
        except MCPError as error:
            self._notes.fault("failed", error, **{"for": call.id})
            raise

    def send(self, frame: Frame, deadline: Deadline) -> None:
        """Send a notification or a response."""
        self._out(frame)
        self._channel.send(frame, deadline)

    def try_send(self, frame: Frame) -> bool:
        """Send a small message if that can be done at once."""
        was_sent = self._channel.try_send(frame)
        if was_sent:
            self._out(frame)
        return was_sent

    def _out(self, frame: Frame) -> None:
        line: dict[str, Any] = {"to": "server"}
        headers = {name: value for name, value in frame.headers.items() if name.lower() in _HARMLESS}
        if headers:
            line["headers"] = headers
        self._notes.learn(known_of_request(frame.headers))
        self._notes.write(line, json.loads(frame.body))

    def close(self, deadline: Deadline) -> None:
        """End the connection."""
        self._notes.is_closing = True
        self._channel.close(deadline)

    def discard(self) -> None:
        """End it without waiting."""
        self._notes.is_closing = True
        self._channel.discard()

    def repeat(self, frame: Frame, call: PendingCall) -> None:
        """Send a request that was recorded before, and keep its answer from everybody but ``call``."""
        self._notes.apart = call
        self._channel.request(frame, call)

    def resend(self, frame: Frame, deadline: Deadline) -> None:
        """Send what was recorded before."""
        self._channel.send(frame, deadline)


class _RecordedInbound:
    """Writes down what comes in, and passes it on."""

    def __init__(self, inbound: Inbound, notes: _Notes, channel: Channel) -> None:
        self._inbound = inbound
        self._notes = notes
        # Weakly: it has this.
        self._channel = weakref.ref(channel)

    def receive(self, message: Any, call: Optional[PendingCall] = None) -> None:
        apart = self._notes.apart
        if apart is not None and isinstance(message, dict) and message.get("id") == apart.id:
            apart.settle(message)
            return
        self._notes.learn(known_of_channel(self._channel()))
        for each in message if isinstance(message, list) else (message,):
            line: dict[str, Any] = {"to": "client"}
            if call is not None:
                line["for"] = call.id
            self._notes.write(line, each)
        self._inbound.receive(message, call)

    def lost(self, error: MCPError) -> None:
        if not self._notes.is_closing:
            self._notes.fault("lost", error)
        self._inbound.lost(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inbound, name)

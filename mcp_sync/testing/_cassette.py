"""A target that records a server, or replays it, as its mode says."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, Optional, Union

from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from ..errors import UsageError
from ..transports._base import Channel, Frame, Inbound, Settings, Wire
from ._recorder import MaskFunction, RecordedChannel, Recorder
from ._replay import Replay, ReplayChannel

MODES = ("once", "none", "all", "new")


class Cassette:
    """A target that records a server into a file, and answers from it later.

    Modes are ``"once"`` (record if there is no file, otherwise replay; a request that is not in it is an
    error), ``"none"`` (never record, as on a build server), ``"all"`` (record anew) and ``"new"`` (replay
    what is there, and record what is not).

    Args:
        target: A target, or what `Client` takes: a URL or a command.
        path: The file.
        mode: As above.
        strict: As in `Replay`.
        hide: As in `Recorder`.
        secrets: As in `Recorder`.
        mask: As in `Recorder`.

    Raises:
        UsageError: There is no such mode; there is no file in mode ``"none"``; or it cannot be read.
    """

    def __init__(
        self,
        target: Any,
        path: Union[str, os.PathLike[str]],
        *,
        mode: str = "once",
        strict: bool = False,
        hide: Iterable[str] = (),
        secrets: Iterable[str] = (),
        mask: Optional[MaskFunction] = None,
    ) -> None:
        if mode not in MODES:
            raise UsageError(f"the mode of a cassette is one of {', '.join(MODES)}, not {mode!r}")
        is_there = Path(path).exists()
        self.path = Path(path)
        self._recorder = Recorder(target, path, hide=hide, secrets=secrets, mask=mask)
        self._replay: Optional[Replay] = None
        if mode == "none" or (is_there and mode != "all"):
            self._replay = Replay(path, strict=strict)
        self._goes_on = mode == "new" and self._replay is not None
        if self._goes_on and self._replay is not None:
            self._recorder.go_on(self._replay.connections + 1)

    def __repr__(self) -> str:
        return f"Cassette({str(self.path)!r})"

    @property
    def recording(self) -> bool:
        """Whether it talks to the server, at least for what is new."""
        return self._replay is None or self._goes_on

    @property
    def fresh(self) -> bool:
        """Whether the whole file is written anew."""
        return self._replay is None

    @property
    def unused(self) -> list[str]:
        """See `Replay.unused`; empty while it records."""
        return [] if self._replay is None else self._replay.unused

    def identity(self) -> Hashable:
        """Return a key of its own: that a server is known already must not change what is recorded."""
        return (self._replay or self._recorder).identity()

    def fallback(self) -> Any:
        """Return the same server over an older transport, while it records."""
        return self._recorder.fallback() if self._replay is None else None

    def channel(self, settings: Settings) -> Channel:
        """Make a new channel."""
        if self._replay is None:
            return self._recorder.channel(settings)
        if self._goes_on:
            return _GrowingChannel(self._replay, self._recorder, settings)
        return self._replay.channel(settings)


class _GrowingChannel(ReplayChannel):
    """Answers from a recording, and asks the server what is not in it.

    Args:
        replay: The recording.
        recorder: Records what is new.
        settings: Those of the client.
    """

    def __init__(self, replay: Replay, recorder: Recorder, settings: Settings) -> None:
        super().__init__(replay)
        self._recorder = recorder
        self._settings = settings
        self._live: Optional[RecordedChannel] = None
        self._wire = Wire()
        # What has opened the connection, for the server to hear it as well.
        self._opening: Optional[Frame] = None
        self._opened: Optional[Frame] = None
        # Held while the server is connected to: whoever comes second has to wait for that in any case.
        self._connecting = threading.Lock()

    def configure(self, wire: Wire) -> None:
        self._wire = wire
        live = self._live
        if live is None:
            super().configure(wire)
        else:
            live.configure(wire)

    def request(self, frame: Frame, call: PendingCall) -> None:
        if frame.method == "initialize":
            self._opening = frame
        super().request(frame, call)

    def _unmatched(self, frame: Frame, message: Mapping[str, Any], call: PendingCall) -> None:
        is_opening = frame is self._opening
        self._connected(call.deadline, is_opening).request(frame, call)

    def _connected(self, deadline: Deadline, is_opening: bool) -> RecordedChannel:
        with self._connecting:
            if self._live is None:
                inbound = self._inbound
                if inbound is None:
                    raise UsageError(f"{self.peer} is closed")
                self._live = self._connect(inbound, deadline, is_opening)
            return self._live

    def _connect(self, inbound: Inbound, deadline: Deadline, is_opening: bool) -> RecordedChannel:
        live: Any = self._recorder.channel(self._settings)
        live.start(inbound, deadline)
        opening = self._opening
        if opening is not None and not is_opening:
            call = PendingCall(_id_of(opening), opening.method, deadline)
            live.repeat(opening, call)
            call.wait()
        live.configure(self._wire)
        if self._opened is not None:
            live.resend(self._opened, deadline)
        return live  # type: ignore[no-any-return]

    def send(self, frame: Frame, deadline: Deadline) -> None:
        if frame.method == "notifications/initialized":
            self._opened = frame
        live = self._live
        if live is not None:
            live.send(frame, deadline)
        super().send(frame, deadline)

    def try_send(self, frame: Frame) -> bool:
        return self._live is None and super().try_send(frame)

    def close(self, deadline: Deadline) -> None:
        super().close(deadline)
        if self._live is not None:
            self._live.close(deadline)

    def discard(self) -> None:
        super().discard()
        if self._live is not None:
            self._live.discard()

    def abandon(self) -> None:
        if self._live is not None:
            self._live.abandon()


def _id_of(frame: Frame) -> int:
    return int(json.loads(frame.body)["id"])

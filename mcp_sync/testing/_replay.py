"""A target that answers as a recorded server did."""

from __future__ import annotations

import copy
import difflib
import itertools
import json
import os
import re
import threading
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from ..errors import ConnectionLost, UsageError
from ..transports._base import Channel, Frame, Inbound, Settings, Wire
from . import _tape
from ._masking import HIDDEN
from ._script import Recorded, Script, Step

_targets = itertools.count(1)
# These open a connection. What a client says of itself there changes with its version.
_OPENING = ("initialize", "server/discover")
# What differs each time, or with the version of the client.
_VOLATILE = re.compile(r"progressToken$|traceparent$|tracestate$|baggage$|io\.modelcontextprotocol/")


class UnmatchedRequest(UsageError):
    """A recording has no answer to a request, or has given it before. Nothing was sent anywhere.

    Attributes:
        method: The method of the request.
        nearest: What was recorded that comes nearest, empty if there is nothing of that method.
    """

    def __init__(self, message: str, *, method: str = "", nearest: str = "") -> None:
        super().__init__(message)
        self.method = method
        self.nearest = nearest


class Replay:
    """A target that answers from what `Recorder` has written; it needs no server.

    A request gets the first recorded answer of a request with the same method and params that has not been
    given yet; ids, tokens and other metadata of the protocol do not count, and what was masked fits
    everything. Notifications, requests of the server, failed requests and a lost connection are replayed as
    well, all on the thread that makes the call and without the pauses that there were.

    Clients of one `Replay` share its answers. To begin again, make another one.

    Args:
        path: The file.
        strict: Whether requests have to come in the very order in which they were recorded.

    Raises:
        UsageError: There is no such recording, or it cannot be read.
    """

    def __init__(self, path: Union[str, os.PathLike[str]], *, strict: bool = False) -> None:
        self._path = Path(path)
        self._script = Script.read(self._path)
        self._strict = strict
        self._name = next(_targets)
        # Guards which answers have been given. Whoever waits for another request waits on it.
        self._given = threading.Condition()

    def __repr__(self) -> str:
        return f"Replay({str(self._path)!r})"

    @property
    def unused(self) -> list[str]:
        """The requests that were recorded and have not been made, each with its method and params."""
        with self._given:
            return [_shown(each.method, each.params) for each in self._script.requests if not each.used]

    @property
    def connections(self) -> int:
        """How many connections were recorded."""
        return self._script.connections

    def identity(self) -> Hashable:
        """Return a key of its own: that a server is known already must not change what is asked."""
        return ("replay", self._name)

    def channel(self, settings: Settings) -> Channel:
        """Make a new channel."""
        return ReplayChannel(self)

    @property
    def http(self) -> bool:
        """Whether it was recorded over HTTP."""
        return self._script.http

    @property
    def duplex(self) -> bool:
        """Whether it was recorded on one stream for all calls."""
        return self._script.duplex

    def take(self, method: str, params: Any) -> Optional[Recorded]:
        """Take the answer to a request, ``None`` if there is none."""
        with self._given:
            left = [each for each in self._script.requests if not each.used]
            for each in left[:1] if self._strict else left:
                if _fits_request(each, method, params):
                    each.used = True
                    self._given.notify_all()
                    return each
        return None

    def unmatched(self, method: str, params: Any) -> UnmatchedRequest:
        """Say what there is instead."""
        mine = _shown(method, params)
        with self._given:
            known = [each for each in self._script.requests if each.method == method]
            left = [each for each in self._script.requests if not each.used]
            same = sum(_fits_request(each, method, params) for each in known)
        text = f"{self._path} has no answer to {mine}"
        if self._strict and left:
            nearest = _shown(left[0].method, left[0].params)
            return UnmatchedRequest(f"{text}: the next is {nearest}", method=method, nearest=nearest)
        if same:
            return UnmatchedRequest(
                f"{text} any more: there were {same}, all given", method=method, nearest=mine
            )
        shown = [_shown(each.method, each.params) for each in known]
        nearest = (difflib.get_close_matches(mine, shown, 1, 0.0) or [""])[0]
        names = ", ".join(sorted({each.method for each in self._script.requests})) or "no request at all"
        rest = f"the nearest is {nearest}" if nearest else f"it has {names}"
        return UnmatchedRequest(f"{text}: {rest}", method=method, nearest=nearest)

    def wait_for(self, line: int, call: PendingCall, woken: threading.Event) -> None:
        """Wait until all requests have been made that were recorded before a line, or the call is over."""
        with self._given:
            while not call.settled and not woken.is_set() and not self._script.made_before(line):
                left = call.deadline.remaining()
                if left == 0.0:
                    return
                self._given.wait(_SLICE if left is None else min(left, _SLICE))


# How often a call that waits looks whether it is over, in seconds.
_SLICE = 0.05


class ReplayChannel:
    """Answers on the thread that makes the call.

    Args:
        replay: The recording.
    """

    session_id: Optional[str] = None

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self.peer = repr(replay)
        self.is_http = replay.http
        self.duplex = replay.duplex
        self._inbound: Optional[Inbound] = None
        # The requests of the server that have been answered, by their ids; whoever waits for one waits on it.
        self._answered = threading.Condition()
        self._answers: set[Any] = set()

    def start(self, inbound: Inbound, deadline: Deadline) -> None:
        """Take note of the engine."""
        self._inbound = inbound

    def configure(self, wire: Wire) -> None:
        """Say that the stream stands on which a server sends by itself."""
        inbound = self._inbound
        if wire.get_stream and self.is_http and inbound is not None:
            inbound.stream_stands(False)

    def request(self, frame: Frame, call: PendingCall) -> None:
        """Play what was recorded of a request."""
        message = json.loads(frame.body)
        recorded = self._replay.take(call.method, message.get("params"))
        if recorded is None:
            self._unmatched(frame, message, call)
            return
        if self._inbound is None:
            raise ConnectionLost(f"{call.method}: {self.peer} is closed", request_sent=False)
        call.request_sent = True
        woken = threading.Event()
        if call.attach(woken.set):
            try:
                self._play(recorded, message, call, woken)
            finally:
                call.detach()

    def _unmatched(self, frame: Frame, message: Mapping[str, Any], call: PendingCall) -> None:
        raise self._replay.unmatched(call.method, message.get("params"))

    def _play(
        self, recorded: Recorded, message: Mapping[str, Any], call: PendingCall, woken: threading.Event
    ) -> None:
        ids = _Ids(recorded, message, call)
        for step in recorded.steps:
            if step.awaits is not None:
                self._wait_for_answer(step.awaits, call, woken)
                continue
            if call.on_notification is not None:
                # It lasts while other requests are made: what came after these comes after them again.
                self._replay.wait_for(step.line, call, woken)
            inbound = self._inbound
            if inbound is None or woken.is_set() or call.deadline.expired:
                return
            self._deliver(step, ids, call, inbound)

    def _deliver(self, step: Step, ids: _Ids, call: PendingCall, inbound: Inbound) -> None:
        if step.lost is not None:
            error = _tape.error_of(step.lost)
            inbound.lost(error or ConnectionLost("the connection was lost"))
        elif step.failed is not None:
            error = _tape.error_of(step.failed)
            if error is not None and not call.settled:
                raise error
        else:
            inbound.receive(ids.translated(step.message), call if step.own else None)

    def _wait_for_answer(self, request_id: Any, call: PendingCall, woken: threading.Event) -> None:
        with self._answered:
            while request_id not in self._answers and not woken.is_set() and self._inbound is not None:
                left = call.deadline.remaining()
                if left == 0.0:
                    return
                self._answered.wait(_SLICE if left is None else min(left, _SLICE))
            self._answers.discard(request_id)

    def send(self, frame: Frame, deadline: Deadline) -> None:
        """Take a notification or a response."""
        message = json.loads(frame.body)
        if "method" not in message:
            with self._answered:
                self._answers.add(message.get("id"))
                self._answered.notify_all()

    def try_send(self, frame: Frame) -> bool:
        """Take it at once."""
        self.send(frame, Deadline(None))
        return True

    def close(self, deadline: Deadline) -> None:
        """Answer no more."""
        self._inbound = None

    def discard(self) -> None:
        """Answer no more."""
        self._inbound = None

    def abandon(self) -> None:
        """Do nothing: there is no connection."""


class _Ids(NamedTuple):
    """What is called otherwise now than when it was recorded."""

    recorded: Recorded
    message: Mapping[str, Any]
    call: PendingCall

    def translated(self, message: Any) -> Any:
        """Return a message as this client expects it."""
        message = copy.deepcopy(message)
        if not isinstance(message, dict):
            return message
        if "method" not in message:
            if message.get("id") == self.recorded.id:
                message["id"] = self.call.id
            return message
        params = message.get("params")
        if isinstance(params, dict):
            self._rename(params, "progressToken", self.recorded.token, _token_of(self.message.get("params")))
            self._rename(params, "requestId", self.recorded.id, self.call.id)
            meta = params.get("_meta")
            if isinstance(meta, dict):
                self._rename(meta, _SUBSCRIPTION, self.recorded.id, self.call.id)
        return message

    def _rename(self, params: dict[str, Any], key: str, old: Any, new: Any) -> None:
        # Some servers turn the number of an id into a string.
        if key in params and old is not None and new is not None and str(params[key]) == str(old):
            params[key] = new


_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def _token_of(params: Any) -> Any:
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get("progressToken") if isinstance(meta, dict) else None


def _fits_request(recorded: Recorded, method: str, params: Any) -> bool:
    if recorded.method != method:
        return False
    return method in _OPENING or _fits(_lasting(recorded.params), _lasting(params))


def _lasting(params: Any) -> dict[str, Any]:
    """Return params without what differs each time."""
    if not isinstance(params, dict):
        return {}
    meta = params.get("_meta")
    kept = (
        {key: value for key, value in meta.items() if not _VOLATILE.match(key)}
        if isinstance(meta, dict)
        else {}
    )
    rest = {key: value for key, value in params.items() if key != "_meta"}
    return {**rest, "_meta": kept} if kept else rest


def _fits(recorded: Any, value: Any) -> bool:
    """Whether a value is the recorded one, as far as that is not masked."""
    if isinstance(recorded, str) and HIDDEN in recorded:
        if recorded == HIDDEN:
            return True
        pattern = ".*".join(map(re.escape, recorded.split(HIDDEN)))
        return isinstance(value, str) and re.fullmatch(pattern, value, re.DOTALL) is not None
    if isinstance(recorded, dict) and isinstance(value, dict):
        return _fits_mapping(recorded, value)
    if isinstance(recorded, list) and isinstance(value, list):
        return len(recorded) == len(value) and all(map(_fits, recorded, value))
    return bool(recorded == value) and isinstance(recorded, bool) == isinstance(value, bool)


def _fits_mapping(recorded: dict[str, Any], value: dict[str, Any]) -> bool:
    # A key may be masked, too: then it stands for whatever there is in its place.
    masked = [key for key in recorded if HIDDEN in key and key not in value]
    others = [key for key in value if key not in recorded]
    pairs = [*zip(masked, others), *((key, key) for key in recorded if key not in masked)]
    if len(recorded) != len(value) or len(masked) != len(others):
        return False
    return all(key in value and _fits(recorded[mine], value[key]) for mine, key in pairs)


def _shown(method: str, params: Any) -> str:
    rest = _lasting(params)
    text = json.dumps(rest, ensure_ascii=False, sort_keys=True) if rest and method not in _OPENING else ""
    return f"{method} {text}"[:_LONGEST].rstrip()


_LONGEST = 500

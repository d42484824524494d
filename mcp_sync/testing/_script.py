"""What was recorded, sorted by the requests that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional

from . import _tape


class Step(NamedTuple):
    """One thing that happened while a request was answered, or after it.

    Attributes:
        line: Where it stands in the file.
        message: What the server sent.
        own: Whether it came on the request's own stream.
        awaits: Instead of a message: the request of the server that was answered here.
        failed: Instead of a message: why the request failed.
        lost: Instead of a message: why the connection was lost.
    """

    line: int
    message: Any = None
    own: bool = False
    awaits: Any = None
    failed: Any = None
    lost: Any = None


@dataclass
class Recorded:
    """A request of the client, and what came of it.

    Attributes:
        line: Where it stands in the file.
        method: Its method.
        params: Its params, masked.
        id: Its id.
        token: Its progress token.
        steps: What came.
        used: Whether it has been replayed.
    """

    line: int
    method: str
    params: Any
    id: Any
    token: Any
    steps: list[Step] = field(default_factory=list)
    used: bool = False


class Script:
    """The requests of a recording.

    What came on a stream for all goes to the request that it answers or reports of; otherwise to the last one
    that was made before.
    """

    def __init__(self) -> None:
        self.requests: list[Recorded] = []
        self.http = False
        self.duplex = False
        self.connections = 0
        self._by_id: dict[tuple[int, Any], Recorded] = {}
        self._by_token: dict[tuple[int, Any], Recorded] = {}
        # The requests of the server that wait for an answer, by their ids.
        self._asking: dict[tuple[int, Any], Recorded] = {}
        # What came before there was a request.
        self._early: list[Step] = []

    @classmethod
    def read(cls, path: Path) -> Script:
        """Read a file.

        Raises:
            UsageError: It is none, or no recording.
        """
        script = cls()
        for number, line in _tape.read(path):
            script._add(number, line)
        return script

    def made_before(self, line: int) -> bool:
        """Whether all requests have been made that were recorded before a line."""
        return all(each.used for each in self.requests if each.line < line)

    def _add(self, number: int, line: dict[str, Any]) -> None:
        on, message = line.get("on", 1), line.get("message")
        event = line.get("event")
        if event == "open":
            self._open(on, line)
        elif event == "failed":
            owner = self._by_id.get((on, line.get("for")))
            self._append(owner, Step(number, failed=line.get("error") or {}))
        elif event == "lost":
            self._append(None, Step(number, lost=line.get("error") or {}))
        elif line.get("to") == "server" and isinstance(message, dict):
            self._sent(number, on, message)
        elif line.get("to") == "client":
            self._came(number, on, message, line.get("for"))

    def _open(self, on: Any, line: dict[str, Any]) -> None:
        if not self.connections:
            self.http, self.duplex = bool(line.get("http")), bool(line.get("duplex"))
        self.connections = max(self.connections, on if isinstance(on, int) else 1)

    def _sent(self, number: int, on: int, message: dict[str, Any]) -> None:
        request_id = message.get("id")
        if "method" not in message:
            owner = self._asking.pop((on, request_id), None)
            if owner is not None:
                self._append(owner, Step(number, awaits=request_id))
        elif request_id is not None:
            params = message.get("params")
            meta = params.get("_meta") if isinstance(params, dict) else None
            token = meta.get("progressToken") if isinstance(meta, dict) else None
            request = Recorded(number, message["method"], params, request_id, token, self._early)
            self._early = []
            self.requests.append(request)
            self._by_id[on, request_id] = request
            if token is not None:
                self._by_token[on, token] = request

    def _came(self, number: int, on: int, message: Any, own: Any) -> None:
        owner: Optional[Recorded] = None
        if own is not None:
            owner = self._by_id.get((on, own))
        elif isinstance(message, dict) and "method" not in message:
            owner = self._by_id.get((on, message.get("id")))
        elif isinstance(message, dict) and isinstance(message.get("params"), dict):
            token = message["params"].get("progressToken")
            owner = self._by_token.get((on, token)) if isinstance(token, (str, int)) else None
        owner = owner or (self.requests[-1] if self.requests else None)
        self._append(owner, Step(number, message, own is not None))
        if owner is not None and isinstance(message, dict) and "method" in message and "id" in message:
            self._asking[on, message["id"]] = owner

    def _append(self, owner: Optional[Recorded], step: Step) -> None:
        owner = owner or (self.requests[-1] if self.requests else None)
        (self._early if owner is None else owner.steps).append(step)

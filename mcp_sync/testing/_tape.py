"""Recorded sessions as files of JSON lines.

The first line is the head: ``{"mcp_sync_cassette": 1, "server": "https://example.com/mcp"}``. The number is
the version of the format; a reader refuses one that it does not know. Every other line is an object with:

``on``
    The number of the connection, from 1.
``at``
    Seconds since the first one was opened.
``to``
    ``"server"`` or ``"client"``: where the ``message`` goes; beside it its ``method`` and ``id``.
``for``
    The id of the request on whose own stream a message came; absent on a stream for all.
``message``
    The JSON-RPC message, masked.
``headers``
    Of the headers of a request, those that tell nothing that the message does not.
``event``
    Instead of a message: ``"open"`` (with ``http`` and ``duplex``, as a channel has them), ``"failed"`` (a
    request failed by itself: ``for`` and ``error``) or ``"lost"`` (the connection: ``error``). An error
    has its ``type``, ``text`` and attributes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Callable, Optional

from .. import errors
from ..errors import UsageError

VERSION = 1
HEAD = "mcp_sync_cassette"

_ERRORS = {
    kind.__name__: kind
    for kind in (
        errors.ConnectFailed,
        errors.ConnectionLost,
        errors.HTTPStatusError,
        errors.SessionExpired,
        errors.MessageTooLarge,
        errors.CallTimeout,
        errors.InvalidMessage,
    )
}
_KEPT = (
    "request_sent",
    "status",
    "body_excerpt",
    "retry_after",
    "returncode",
    "close_code",
    "limit",
    "timeout",
)


class Tape:
    """The file of a recording, written line by line.

    Any number of threads may write.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._began = time.monotonic()
        # Held while the file is written to.
        self._writing = threading.Lock()

    def begin(self, server: str) -> None:
        """Start the file anew."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(_line({HEAD: VERSION, "server": server}))
        self._began = time.monotonic()

    def write(self, on: int, line: Mapping[str, Any]) -> None:
        """Append a line."""
        at = round(time.monotonic() - self._began, 4)
        data = _line({"on": on, "at": at, **line})
        with self._writing, self.path.open("ab", buffering=0) as file:
            file.write(data)

    def change(self, change: Callable[[str], str]) -> None:
        """Have a function change what is written already."""
        with self._writing:
            if self.path.exists():
                text = self.path.read_bytes().decode("utf-8", "surrogatepass")
                changed = change(text)
                if changed != text:
                    self.path.write_bytes(changed.encode("utf-8", "surrogatepass"))


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def read(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Give the lines of a recording, after its head, with their numbers.

    Raises:
        UsageError: There is none, or it cannot be read.
    """
    try:
        lines = path.read_bytes().decode("utf-8", "surrogatepass").split("\n")
    except FileNotFoundError:
        raise UsageError(f"there is no recording at {path}") from None
    head = _parsed(path, 1, lines[0])
    if head.get(HEAD) != VERSION:
        raise UsageError(f"{path} is no recording of version {VERSION}, the only one that can be read")
    for number, text in enumerate(lines[1:], 2):
        if text.strip():
            yield number, _parsed(path, number, text)


def _parsed(path: Path, number: int, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UsageError(f"{path}, line {number}: this is no JSON object")
    return value


def described(error: BaseException) -> dict[str, Any]:
    """Say of an error what can be recorded."""
    if isinstance(error, errors.RemoteError):
        told = {"code": error.code, "data": error.data, "status": error.status, "peer": error.peer}
        return {"type": "RemoteError", "text": error.message, "method": error.method, **told}
    kept = {name: getattr(error, name) for name in _KEPT if getattr(error, name, None) is not None}
    return {"type": type(error).__name__, "text": str(error), **kept}


def error_of(described: Mapping[str, Any]) -> Optional[errors.MCPError]:
    """Return the error that was recorded, ``None`` for one of the client's own, such as a cancelled call."""
    text = str(described.get("text", ""))
    if described.get("type") == "RemoteError":
        told = {name: described.get(name) for name in ("data", "status")}
        named = {name: str(described.get(name, "")) for name in ("method", "peer")}
        return errors.remote_error(described.get("code", 0), text, **told, **named)  # type: ignore[arg-type]
    kind = _ERRORS.get(str(described.get("type")))
    if kind is None:
        return None
    error = kind.__new__(kind)
    error.args = (text,)
    defaults: dict[str, Any] = {"request_sent": None, "headers": {}, "body_excerpt": "", "retry_after": None}
    defaults.update(url="", returncode=None, stderr_tail="", close_code=None, excerpt="", request_id=None)
    error.__dict__.update({**defaults, **{name: described[name] for name in _KEPT if name in described}})
    return error

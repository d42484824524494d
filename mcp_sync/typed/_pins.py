"""Tools that are pinned: one that the server has changed is not called."""

from __future__ import annotations

import difflib
import itertools
import json
import os
import time
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from .._calls import deadline_of
from .._engine.call_options import CallOptions
from .._engine.connection import Connection
from ..errors import MCPError
from ..options import UNSET, TimeoutArgument, check_seconds
from ._lockfile import Definition, definition_of, digest_of, fingerprint, read_lock, write_lock

if TYPE_CHECKING:
    from .. import types
    from .._concurrency.deadline import Deadline
    from ..session import ClientSession

__all__ = ["PinMismatch", "Pins", "fingerprint", "pin_tools"]

_CHANGED = "notifications/tools/list_changed"
_SHOWN_LINES = 40


class PinMismatch(MCPError):
    """A tool is not the one that was pinned. It was not called.

    Attributes:
        changes: What has changed, by tool: lines of a diff; that it is not pinned, or gone.
    """

    def __init__(self, message: str, *, changes: Mapping[str, str]) -> None:
        super().__init__(message)
        self.changes = dict(changes)


@dataclass(frozen=True)
class Pins:
    """The tools that a client may call.

    Attributes:
        path: The lock file.
        tools: Their definitions, by name.
        added: Tools that the server had beside them when they were pinned. They are not called.
        removed: Tools that it no longer had.
        recheck: After how many seconds the tools are listed again before a call; ``None`` for never.
    """

    path: Path
    tools: Mapping[str, Definition] = field(repr=False)
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    recheck: Optional[float] = None

    def compare(self, now: Mapping[str, Definition], name: str) -> Optional[str]:
        """Return how a tool differs from its pin; ``None`` if it does not."""
        if name not in self.tools:
            return "is not pinned"
        if name not in now:
            return "is gone"
        return None if _is_same(now[name], self.tools[name]) else _diff(self.tools[name], now[name])


def _is_same(one: Definition, other: Definition) -> bool:
    # To Python, 1 and True and 1.0 are the same.
    return one == other and digest_of(one) == digest_of(other)


def by_name(tools: Iterable[types.Tool]) -> dict[str, Definition]:
    """Return definitions by name.

    Two tools of one name are both in one definition, unless they are the same: a host may show the first of
    them to its model and its user, though a server has hidden it behind the one that was pinned.
    """
    found: dict[str, Definition] = {}
    for tool in tools:
        definition = definition_of(tool)
        before = found.setdefault(tool.name, definition)
        if not _is_same(before, definition):
            found[tool.name] = {"name": tool.name, "definitions": [before, definition]}
    return found


def _diff(old: Definition, new: Definition) -> str:
    before, after = (json.dumps(each, indent=1, sort_keys=True).split("\n") for each in (old, new))
    found = list(difflib.unified_diff(before, after, "pinned", "now", n=1, lineterm=""))
    rest = [f"... ({len(found) - _SHOWN_LINES} more lines)"] if len(found) > _SHOWN_LINES else []
    return "\n".join(found[:_SHOWN_LINES] + rest)


def pin_tools(
    client: ClientSession,
    lockfile: Union[str, os.PathLike[str]],
    update: bool,
    recheck: Optional[float],
    timeout: TimeoutArgument,
) -> Pins:
    """Do what ``client.pin_tools`` documents."""
    check_seconds("recheck", recheck)
    path = Path(lockfile)
    deadline = client._deadline(UNSET) if timeout is UNSET else deadline_of(timeout)
    pinned: Optional[dict[str, Definition]] = None
    if not update:
        try:
            pinned = read_lock(path)
        except FileNotFoundError:
            pass
    guard = Guard()
    now = guard.look(client, CallOptions(), deadline)
    if pinned is None:
        write_lock(path, now.values())
        pinned = dict(now)
    pins = Pins(
        path,
        pinned,
        tuple(sorted(now.keys() - pinned.keys())),
        tuple(sorted(pinned.keys() - now.keys())),
        recheck,
    )
    # Before anything is raised: who goes on all the same is guarded.
    guard.start(client, pins)
    changes = {name: pins.compare(now, name) for name in sorted(now.keys() & pinned.keys())}
    raise_if({name: text for name, text in changes.items() if text is not None}, pins)
    return pins


def raise_if(changes: Mapping[str, str], pins: Pins) -> None:
    """Raise if tools are not what they were.

    Raises:
        PinMismatch: They are not.
    """
    if changes:
        told = "\n".join(f"tool {name!r} {_told(text)}" for name, text in changes.items())
        text = f"{told}\nIf that is fine with you: pin_tools({str(pins.path)!r}, update=True)"
        raise PinMismatch(text, changes=changes)


def _told(change: str) -> str:
    return f"has changed since it was pinned:\n{change}" if "\n" in change else change


class _Seen(NamedTuple):
    """A list of tools, and what it is good for.

    Attributes:
        compared: How tools differ from their pins, as far as that was looked at.
    """

    connection: weakref.ref[Connection]
    changes: int
    at: float
    tools: dict[str, Definition]
    compared: dict[str, Optional[str]]


class Guard:
    """Stands before the calls of one client. Safe from any thread."""

    def __init__(self) -> None:
        self._pins: Optional[Pins] = None
        # Counts what the server told of changes; taking a number is a single step.
        self._counter = itertools.count(1)
        self._changes = 0
        self._seen: Optional[_Seen] = None

    def start(self, client: ClientSession, pins: Pins) -> None:
        """Stand before the calls of a client, instead of whoever did before."""
        self._pins = pins
        before = client._pins
        client._engine.router.watch(self._observe)
        client._pins = self
        if before is not None:
            client._engine.router.unwatch(before._observe)

    def another(self, client: ClientSession) -> None:
        """Have another client guarded in the same way."""
        if self._pins is not None:
            Guard().start(client, self._pins)

    def _observe(self, message: dict[str, Any]) -> None:
        if message.get("method") == _CHANGED:
            self._changes = next(self._counter)

    def check(self, client: ClientSession, name: str, options: CallOptions, deadline: Deadline) -> None:
        """Refuse a tool that is not what was pinned.

        Raises:
            PinMismatch: It is not.
        """
        pins = self._pins
        assert pins is not None
        seen = self._seen
        connection = client._engine.connection(deadline, options.cancel)
        if seen is None or self._is_stale(seen, connection, pins):
            seen = self._look(client, options, deadline)
        if name not in seen.compared:
            seen.compared[name] = pins.compare(seen.tools, name)
        change = seen.compared[name]
        raise_if({} if change is None else {name: change}, pins)

    def _is_stale(self, seen: _Seen, connection: Connection, pins: Pins) -> bool:
        if seen.connection() is not connection or seen.changes != self._changes:
            return True
        return pins.recheck is not None and time.monotonic() - seen.at >= pins.recheck

    def look(self, client: ClientSession, options: CallOptions, deadline: Deadline) -> dict[str, Definition]:
        """List the tools of the server as they are now."""
        return self._look(client, options, deadline).tools

    def _look(self, client: ClientSession, options: CallOptions, deadline: Deadline) -> _Seen:
        # What is told from here on may be missing in the list.
        changes, at = self._changes, time.monotonic()
        connection = client._engine.connection(deadline, options.cancel)
        asking = CallOptions(headers=options.headers, cancel=options.cancel, cache="refresh")
        pages = client._all(lambda cursor: client._list_tools(cursor, asking, deadline), "tools")
        seen = self._seen = _Seen(weakref.ref(connection), changes, at, by_name(pages), {})
        return seen

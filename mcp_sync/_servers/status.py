"""What there is to say of a server, without asking it."""

from __future__ import annotations

from typing import NamedTuple, Optional

from .._protocol.visible import clean
from ..client import Client
from ..errors import MCPError

# How much of an error the table shows, in characters; the rest is in `ServerStatus.error`.
_LONGEST = 120


class ServerStatus(NamedTuple):
    """How it stands with one server.

    Attributes:
        name: Its name.
        state: ``"idle"`` (not used yet), ``"opening"``, ``"open"``, ``"lost"`` (the next call opens it anew),
            ``"failed"`` (it could not be opened, or its configuration cannot be so), ``"closed"`` or
            ``"disabled"``.
        error: Why it is lost, or failed; otherwise why the last attempt to use it did.
        era: The revision of the protocol, while it is open.
        server: Name and version, as it tells them.
    """

    name: str
    state: str
    error: Optional[MCPError] = None
    era: Optional[str] = None
    server: Optional[str] = None


class StatusTable(tuple[ServerStatus, ...]):
    """The status of all servers, in their order. ``print`` shows it as a table."""

    __slots__ = ()

    def __str__(self) -> str:
        rows = [("NAME", "STATE", "ERA", "SERVER", "ERROR")]
        for each in self:
            error = _first_line(str(each.error)) if each.error is not None else ""
            rows.append((each.name, each.state, each.era or "-", each.server or "-", error))
        rows = [tuple(clean(" ".join(cell.split())) for cell in row) for row in rows]  # type: ignore[misc]
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows)
        return "\n".join(lines)


def _first_line(text: str) -> str:
    line = (text.splitlines() or [""])[0]
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def status_of(name: str, client: Optional[Client], failure: Optional[MCPError] = None) -> ServerStatus:
    """Return how it stands with a server. Asks nobody and waits for nothing.

    Args:
        name: Its name.
        client: Its client, ``None`` if there is none yet.
        failure: Why the last attempt to use it failed, if it did.
    """
    if client is None:
        return ServerStatus(name, "failed" if failure else "idle", failure)
    engine = client._engine
    connection, is_opening = engine._connection, engine._opening is not None
    if client.closed:
        return ServerStatus(name, "closed", failure)
    if connection is not None and connection.error is None:
        told = connection.server_info or {}
        server = " ".join(str(told[key]) for key in ("name", "version") if told.get(key))
        return ServerStatus(name, "open", failure, connection.era.version, server or None)
    if is_opening:
        return ServerStatus(name, "opening", failure)
    failure = failure or engine.opening_error
    if connection is not None:
        return ServerStatus(name, "lost", failure or connection.error)
    return ServerStatus(name, "failed" if failure else "idle", failure)

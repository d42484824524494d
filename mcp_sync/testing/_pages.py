"""Lists of the fake server, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._rpc import INVALID_PARAMS, Message, RpcError

if TYPE_CHECKING:
    from ._exchange import Exchange


def page(exchange: Exchange, key: str, items: list[Message]) -> Message:
    """Return the page of a list that a request wants."""
    size = exchange.connection.server.page_size
    start = _offset(exchange.params.get("cursor"), len(items))
    if size is None or start + size >= len(items):
        return {key: items[start:]}
    return {key: items[start : start + size], "nextCursor": f"page-from-{start + size}"}


def _offset(cursor: Any, count: int) -> int:
    if cursor is None:
        return 0
    number = str(cursor).rpartition("page-from-")[2]
    if not number.isdigit() or not 0 < int(number) < count:
        raise RpcError(INVALID_PARAMS, f"Unknown cursor: {cursor!r}")
    return int(number)

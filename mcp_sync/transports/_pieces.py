"""The pieces in which a message arrives."""

from __future__ import annotations

_MOST = 64


def compacted(pieces: list[bytes], size: int) -> list[bytes]:
    """Return the same bytes in fewer pieces, where they are many for their size.

    To join them with each one that comes would take quadratic time. But a server that sends two bytes at a
    time would have us hold twenty times what it sent, and count the pieces over and over again.

    Args:
        pieces: The pieces.
        size: How many bytes they are together.
    """
    return [b"".join(pieces)] if len(pieces) > _MOST + (size >> 12) else pieces

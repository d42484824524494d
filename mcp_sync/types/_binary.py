"""Base64 as it is found in the field."""

from __future__ import annotations

import base64

__all__ = ["decode_base64", "encode_base64"]

_URL_SAFE = str.maketrans("-_", "+/", " \t\r\n=")


def decode_base64(text: str) -> bytes:
    """Decode base64, also in its URL-safe form, without padding, or broken into lines.

    Raises:
        ValueError: The text is not base64.
    """
    clean = text.translate(_URL_SAFE)
    return base64.b64decode(clean + "=" * (-len(clean) % 4), validate=True)


def encode_base64(data: bytes) -> str:
    """Encode bytes for a JSON field."""
    return base64.b64encode(data).decode("ascii")

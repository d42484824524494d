"""The secrets of one authorization: proof key for code exchange (RFC 7636) and state."""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64encode

METHOD = "S256"
_BYTES = 32


def new_verifier() -> str:
    """Return a new code verifier: 43 characters, 256 random bits."""
    return secrets.token_urlsafe(_BYTES)


def challenge_of(verifier: str) -> str:
    """Return the S256 code challenge of a verifier."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def new_state() -> str:
    """Return a new ``state``, which nobody can guess and which is fit for a file name."""
    return secrets.token_urlsafe(_BYTES)

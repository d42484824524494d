"""Encryption of what is kept in the database, with keys that can be replaced.

The first of ``MCP_SYNC["ENCRYPTION_KEYS"]`` encrypts, all of them decrypt. Without any, the keys are derived
from ``SECRET_KEY`` and ``SECRET_KEY_FALLBACKS``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from functools import lru_cache
from typing import Any, Optional

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.views.decorators.debug import sensitive_variables

from . import conf

_PURPOSE = b"mcp_sync.contrib.django"


def seal(value: Any, about: str) -> str:
    """Return a JSON value encrypted, bound to what it is about: in another row it is worth nothing."""
    return _fernet(_secrets()).encrypt(json.dumps([about, value]).encode()).decode()


@sensitive_variables()
def unseal(text: str, about: str) -> Optional[Any]:
    """Return what `seal` was given, ``None`` if no key fits or it belongs elsewhere."""
    try:
        found, value = json.loads(_opened(_secrets(), text))
    except (InvalidToken, ValueError):
        return None
    return value if found == about else None


def reseal(text: str) -> Optional[str]:
    """Return the same value encrypted with the first key, ``None`` if no key fits."""
    try:
        return _fernet(_secrets()).rotate(text.encode()).decode()
    except InvalidToken:
        return None


def envelope_key() -> bytes:
    """Return the key that seals paused calls."""
    return hmac.new(_secrets()[0].encode(), _PURPOSE + b" envelope", hashlib.sha256).digest()


def _secrets() -> tuple[str, ...]:
    return tuple(conf.get("ENCRYPTION_KEYS")) or (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)


@lru_cache(maxsize=512)
def _opened(secrets: tuple[str, ...], text: str) -> bytes:
    # A user asks many times with the same token. It is in memory then anyway.
    return _fernet(secrets).decrypt(text.encode())


@lru_cache(maxsize=8)
def _fernet(secrets: tuple[str, ...]) -> MultiFernet:
    keys = (hmac.new(_PURPOSE, secret.encode(), hashlib.sha256).digest() for secret in secrets)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in keys])

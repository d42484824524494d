"""Encryption of what is kept in the database, with keys that can be replaced.

The first of ``MCP_SYNC["ENCRYPTION_KEYS"]`` encrypts, all of them decrypt. Without any, the keys are derived
from ``SECRET_KEY`` and ``SECRET_KEY_FALLBACKS``.
"""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings

from .._sealing import Sealer
from . import conf


def sealer() -> Sealer:
    """Return what encrypts and decrypts with the secrets that the settings name now."""
    return _sealer(
        tuple(conf.get("ENCRYPTION_KEYS")) or (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    )


@lru_cache(maxsize=8)
def _sealer(secrets: tuple[str, ...]) -> Sealer:
    return Sealer(secrets, "django")

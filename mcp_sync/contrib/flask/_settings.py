"""The settings of an application: the keys of its configuration that begin with ``MCP_``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Optional
from urllib.parse import urlsplit

from ...config import ConfigError
from ...options import check_seconds

PREFIX = "MCP_"
# All keys, with their defaults.
DEFAULTS: dict[str, Any] = {
    "SERVERS": None,
    "CONFIG_FILE": None,
    "TOKEN_STORE": None,
    "DEADLINE": 20.0,
    "ENCRYPTION_KEYS": (),
    "BASE_URL": None,
    "CLIENT_NAME": None,
    "CLIENT_METADATA": False,
    "INPUT_LIFE": 7 * 24 * 3600.0,
    "OPTIONS": {},
    "ERROR_HANDLERS": True,
}
# Those that are lengths of time.
SECONDS = ("DEADLINE", "INPUT_LIFE")


class Settings:
    """The settings of one application, read when they are needed.

    Args:
        config: ``app.config``.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config

    def get(self, key: str) -> Any:
        """Return one of them, by its name without the prefix."""
        found = self._config.get(PREFIX + key)
        return DEFAULTS[key] if found is None else found

    def seconds(self, key: str) -> float:
        """Return one of them that is a length of time.

        Raises:
            ConfigError: It is none.
        """
        found = self.get(key)
        try:
            check_seconds(PREFIX + key, found)
        except Exception as error:
            raise ConfigError(str(error)) from None
        return float(found)

    def base_url(self) -> Optional[str]:
        """Return ``MCP_BASE_URL``, without a slash at its end; ``None`` if it is not set.

        Raises:
            ConfigError: It is no address of a site.
        """
        found = self.get("BASE_URL")
        if not found:
            return None
        try:
            parts = urlsplit(str(found))
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_address = False
        if not is_address or parts.query or parts.fragment:
            raise ConfigError(
                f"MCP_BASE_URL must be an address such as https://site.example.com, not {found!r}"
            )
        return str(found).rstrip("/")

    def keys(self) -> tuple[Any, ...]:
        """Return the secrets that encryption rests on, the newest first.

        Raises:
            ConfigError: There is none.
        """
        given = self.get("ENCRYPTION_KEYS")
        if isinstance(given, (str, bytes)):
            given = (given,)
        fallbacks = self._config.get("SECRET_KEY_FALLBACKS") or ()
        found = tuple(given) or tuple(filter(None, (self._config.get("SECRET_KEY"), *fallbacks)))
        if not found:
            raise ConfigError("set SECRET_KEY, or MCP_ENCRYPTION_KEYS: grants are kept encrypted")
        return found

    def unknown(self) -> Iterator[str]:
        """Give a sentence for each key that means nothing."""
        for key in self._config:
            if key.startswith(PREFIX) and key[len(PREFIX) :] not in DEFAULTS:
                close = difflib.get_close_matches(key[len(PREFIX) :], DEFAULTS, 1)
                meant = f"; did you mean {PREFIX}{close[0]}?" if close else ""
                yield f"the configuration has an unknown key {key}{meant}"

"""Command lines as they may be shown: without the secrets that users put into them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from ..._masking import is_secret_name
from ..._protocol.urls import public_url

_MASK = "***"
# A shorter text stands in other words by chance.
_SHORTEST_SECRET = 8
_SECRET_NAME = r"[\w.-]*(?:key|token|secret|passw(?:or)?d|credential|auth|bearer)[\w.-]*"
_OPTION = re.compile(rf"--?{_SECRET_NAME}", re.IGNORECASE)
_ASSIGNMENT = re.compile(rf"((?:--?)?{_SECRET_NAME}=).+", re.IGNORECASE | re.DOTALL)
_HEADER = re.compile(rf"({_SECRET_NAME}\s*:\s*).+", re.IGNORECASE | re.DOTALL)
_URL = re.compile(r"(?:https?|wss?)://[^\s'\"]+", re.IGNORECASE)
_USERINFO = re.compile(r"([a-z][a-z0-9+.-]*://[^/@:\s]*:)[^/@\s]+(@)", re.IGNORECASE)


def shown_command(command: Sequence[str], length: int = 0) -> str:
    """Join a command line for a message, masked, at most ``length`` characters long (0: any length)."""
    parts = [part if part == _MASK else shlex.quote(part) for part in masked(command)]
    text = " ".join(" ".join(parts).split())
    return text if not length or len(text) <= length else f"{text[: length - 3]}..."


def secrets_among(environment: Mapping[str, str]) -> list[str]:
    """Return the values of variables whose names speak of secrets. One that is short is none."""
    return [
        value
        for name, value in environment.items()
        if is_secret_name(name) and len(value) >= _SHORTEST_SECRET
    ]


def masked(command: Sequence[str]) -> list[str]:
    """Mask what looks like a secret in a command line.

    That is the value of options and variables whose name speaks of a secret (``--api-key X``, ``TOKEN=X``,
    ``Authorization: X``), the password in any URL, and in one of a server what `public_url` does not show.
    """
    shown = []
    secret_next = False
    for part in command:
        if secret_next and not part.startswith("-"):
            shown.append(_MASK)
            secret_next = False
        else:
            shown.append(_masked(part))
            secret_next = _OPTION.fullmatch(part) is not None
    return shown


def _masked(part: str) -> str:
    for pattern in (_ASSIGNMENT, _HEADER):
        if pattern.fullmatch(part):
            return pattern.sub(rf"\1{_MASK}", part)
    return _URL.sub(_shown_url, _USERINFO.sub(rf"\1{_MASK}\2", part))


def _shown_url(found: re.Match[str]) -> str:
    return public_url(found[0]) + (f"?{_MASK}" if "?" in found[0] else "")

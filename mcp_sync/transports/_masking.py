"""Command lines as they may be shown: without the secrets that users put into them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_MASK = "***"
_SECRET_NAME = r"[\w.-]*(?:key|token|secret|passw(?:or)?d|credential|auth|bearer)[\w.-]*"
_OPTION = re.compile(rf"--?{_SECRET_NAME}", re.IGNORECASE)
_ASSIGNMENT = re.compile(rf"((?:--?)?{_SECRET_NAME}=).+", re.IGNORECASE | re.DOTALL)
_HEADER = re.compile(rf"({_SECRET_NAME}\s*:\s*).+", re.IGNORECASE | re.DOTALL)
_USERINFO = re.compile(r"([a-z][a-z0-9+.-]*://[^/@:\s]*:)[^/@\s]+(@)", re.IGNORECASE)


def shown_command(command: Sequence[str], length: int = 0) -> str:
    """Join a command line for a message, at most ``length`` characters long (0: any length).

    Masked are the values of options and variables whose name speaks of a secret (``--api-key X``,
    ``TOKEN=X``, ``Authorization: X``) and passwords in URLs.
    """
    shown = []
    secret_next = False
    for part in command:
        if secret_next and not part.startswith("-"):
            shown.append(_MASK)
            secret_next = False
            continue
        secret_next = _OPTION.fullmatch(part) is not None
        shown.append(shlex.quote(_masked(part)).replace(f"'{_MASK}'", _MASK))
    text = " ".join(" ".join(shown).split())
    return text if not length or len(text) <= length else f"{text[: length - 3]}..."


def _masked(part: str) -> str:
    for pattern in (_ASSIGNMENT, _HEADER):
        if pattern.fullmatch(part):
            return pattern.sub(rf"\1{_MASK}", part)
    return _USERINFO.sub(rf"\1{_MASK}\2", part)

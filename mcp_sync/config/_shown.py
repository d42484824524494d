"""Configurations as they may be shown: without the secrets that users put into them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Optional

from .._protocol.urls import public_url
from ..transports._stdio.masking import masked
from ._keys import plain

MASK = "***"
# A reference says where a secret is, and not what it is. A default might.
_REFERENCE = re.compile(r"((Bearer|Basic|Token) )?\$\{(env:|file:|input:)?[\w./~ -]*\}")
_DEFAULT = re.compile(r":-[^{}]*\}")
# What is a name, an address or a number, and no secret.
_OPEN = {
    *("type", "kind", "clientid", "scopes", "issuer", "enabled", "redirecturi", "callbackport", "clientname"),
    *("authorizationurl", "tokenurl", "audiences", "interactive"),
}


def secret(value: Any) -> Any:
    """Return a value as it may be shown: a reference as it is, else nothing of it."""
    return value if isinstance(value, str) and _REFERENCE.fullmatch(value) else MASK


def is_reference(value: str) -> bool:
    """Whether a value is nothing but a reference to one that stands elsewhere."""
    return _REFERENCE.fullmatch(value) is not None


def secrets(values: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """Return names with hidden values."""
    return {str(name): secret(value) for name, value in (values or {}).items()}


def shown_auth(value: Any) -> Any:
    """Return what was said about authorization, with nothing in it but what is known to be harmless."""
    if isinstance(value, Mapping):
        return {
            str(name): each if plain(str(name)) in _OPEN else shown_auth(each) for name, each in value.items()
        }
    return value if value in ("oauth", True, False, None) else secret(value)


def shown_url(url: Optional[str]) -> Optional[str]:
    """Return a URL without what may be a secret in it."""
    if url is None or _REFERENCE.fullmatch(url):
        return url
    # The variables of a URL are not what urlsplit expects: a port, say.
    names: list[str] = []

    def keep(found: re.Match[str]) -> str:
        names.append(found.group())
        return f"v{len(names) - 1}v"

    public = public_url(re.sub(r"\$\{[^{}]*\}", keep, url))
    for number, name in enumerate(names):
        public = public.replace(f"v{number}v", secret(name))
    return public


def shown_args(command: Optional[str], args: Any) -> tuple[Optional[str], list[str]]:
    """Return a command line without what looks like a secret in it."""
    if command is None:
        return None, []
    first, *rest = (_DEFAULT.sub(rf":-{MASK}}}", part) for part in masked([command, *args]))
    return first, rest

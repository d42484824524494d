"""What a URL says about its server, and how it may be shown."""

from __future__ import annotations

import ipaddress
from typing import Optional
from urllib.parse import urlsplit

# Of more places than this no URI is a part.
_DEEPEST = 64
DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def origin(url: str) -> tuple[str, str, Optional[int]]:
    """Return scheme, host and port of a URL."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").rstrip("."), parts.port or DEFAULT_PORTS.get(scheme)


def public_url(url: str) -> str:
    """Return a URL as an error may show it: without credentials, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(unreadable URL)"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else parts.path


def enclosing(uri: str) -> tuple[str, ...]:
    """Return a URI and those of what it may be a part of: all that end before or after an earlier slash."""
    found = [uri]
    while len(found) < _DEEPEST and "/" in uri:
        uri = uri.rpartition("/")[0]
        found += [uri + "/", uri]
    return tuple(found)


def is_loopback(host: Optional[str]) -> bool:
    """Whether a host name can mean nothing but this machine (RFC 6761, section 6.3)."""
    if host is None:
        return False
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False

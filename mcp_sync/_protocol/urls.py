"""What a URL says about its server, and how it may be shown."""

from __future__ import annotations

import ipaddress
import re
from typing import Optional
from urllib.parse import unquote, urlsplit

# Of more places than this no URI is a part.
_DEEPEST = 64
# A token is a UUID, or has a long word in which letters and digits take turns, or that has digits and nothing
# that could be read.
_SHORTEST_TOKEN = 20
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_LONG_WORD = re.compile("[A-Za-z0-9]{14,}")
_READABLE = re.compile("[a-z]{6}|[A-Z]{6}")
_TURN = re.compile("(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])")
_FEWEST_TURNS = 3
# So that two that differ still look different.
_SHOWN_OF_TOKEN = 4
# Parts of paths that `hide_filled` has found, and how long one is that may be a secret.
_hidden: set[str] = set()
_SHORTEST_SECRET = 8
DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def origin(url: str) -> tuple[str, str, Optional[int]]:
    """Return scheme, host and port of a URL."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").rstrip("."), parts.port or DEFAULT_PORTS.get(scheme)


def public_url(url: str) -> str:
    """Return a URL as an error may show it: without credentials, query and fragment.

    Of a part of the path that looks like a token only the beginning is left: some servers know their users
    by nothing else. Nothing is left of one that `hide_filled` was told of.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(unreadable URL)"
    host, path = parts.netloc.rpartition("@")[2], "/".join(map(_shown, parts.path.split("/")))
    if host:
        return f"{parts.scheme}://{host}{path}"
    if "@" in path:
        return path.rpartition("@")[2]  # A URL whose scheme was left out: what stands there are credentials.
    begin = url[: len(parts.scheme) + 1] if parts.scheme else ""
    return f"{begin}//{path}" if url.startswith(f"{begin}//") else f"{begin}{path}"


def hide_filled(template: str, url: str) -> None:
    """Have the parts of a URL's path never shown that a template leaves to variables."""
    written = template.split("/")
    try:
        path = urlsplit(url).path
    except ValueError:
        return
    filled = (unquote(part) for part in path.split("/") if part not in written)
    _hidden.update(part for part in filled if len(part) >= _SHORTEST_SECRET)


def _shown(part: str) -> str:
    if unquote(part) in _hidden:
        return "***"
    if len(part) < _SHORTEST_TOKEN:
        return part
    is_token = _UUID.fullmatch(part) or any(map(_is_random, _LONG_WORD.findall(part)))
    return f"{part[:_SHOWN_OF_TOKEN]}***" if is_token else part


def _is_random(word: str) -> bool:
    turns = len(_TURN.findall(word))
    return turns >= _FEWEST_TURNS or (turns > 0 and not _READABLE.search(word))


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

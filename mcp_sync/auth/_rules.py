"""Which URLs belong together, where metadata lies, and what scope to ask for: rules without any I/O.

URLs of servers are compared and sent as the strings that they are; to put them in another form breaks logins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional
from urllib.parse import SplitResult, urlsplit

from .._protocol.urls import DEFAULT_PORTS, is_loopback, public_url
from ..errors import AuthError, UsageError
from ._challenge import Challenge
from ._records import ServerRecord

PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"
AUTHORIZATION_SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"

OFFLINE_ACCESS = "offline_access"

# All that a URL may consist of (RFC 3986); anything else is there to deceive somebody.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+")
_SCOPE = re.compile(r"[!#-\[\]-~]+")


def read_url(url: Any) -> Optional[SplitResult]:
    """Return the parts of an absolute URL with a host and without credentials, ``None`` for anything else."""
    if not isinstance(url, str) or not _URL.fullmatch(url):
        return None
    try:
        parts = urlsplit(url)
        usable = parts.hostname and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        return None
    return parts if usable else None


def is_secure(url: Any) -> bool:
    """Whether it is an absolute URL to which nobody on the way listens: https, or http to this machine."""
    parts = read_url(url)
    return parts is not None and (
        parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))
    )


def endpoint(metadata: Mapping[str, Any], name: str) -> Optional[str]:
    """Return an endpoint of an authorization server, ``None`` if it has none.

    Raises:
        AuthError: It is nothing to which secrets may be sent (RFC 8414, section 2; OAuth 2.1, section 1.5).
    """
    url = metadata.get(name)
    if url is None or url == "":
        return None
    if not is_secure(url) or "#" in url:
        shown = public_url(url)[:100] if isinstance(url, str) else type(url).__name__
        raise AuthError(
            f"{name} in the metadata of the authorization server is not an absolute https URL: {shown!r}",
            url=public_url(str(metadata.get("issuer", ""))),
        )
    return str(url)


def check_redirect_uri(uri: Any) -> None:
    """Refuse a redirect URI that is neither https nor of this machine (security considerations of MCP).

    Raises:
        UsageError: It is none.
    """
    if not is_secure(uri) or "#" in uri:
        raise UsageError(f"a redirect URI is https, or http to this machine, without a fragment; not {uri!r}")


def resource_metadata_urls(server_url: str, challenge: Optional[Challenge]) -> list[str]:
    """Return where the metadata of a protected resource may lie, in the order of the specification.

    What the challenge names comes first, then the well-known places for the path of the server, then that for
    its host (RFC 9728, section 3.1).
    """
    named = challenge.params.get("resource_metadata") if challenge is not None else None
    host, path = _host(server_url), urlsplit(server_url).path
    paths = [path.rstrip("/"), path if path != "/" else "", ""]
    urls = [named] if named is not None and read_url(named) is not None else []
    return list(dict.fromkeys([*urls, *(host + PROTECTED_RESOURCE + each for each in paths)]))


def server_metadata_urls(issuer: str) -> list[str]:
    """Return where the metadata of an authorization server may lie, in the order of the specification."""
    host, path = _host(issuer), urlsplit(issuer).path.rstrip("/")
    if not path:
        return [host + AUTHORIZATION_SERVER, host + OPENID]
    return [host + AUTHORIZATION_SERVER + path, host + OPENID + path, host + path + OPENID]


def same_issuer(one: str, other: str) -> bool:
    """Whether two issuers are the same, character by character; a root may or may not end with a slash."""
    if one == other:
        return True
    shorter, longer = sorted((one, other), key=len)
    return longer == shorter + "/" and "/" not in shorter.partition("://")[2] and "://" in shorter


def resource_covers(resource: str, server_url: str) -> bool:
    """Whether a protected resource is the server, or an ancestor of its path on the same origin.

    A slash at the end makes no difference.
    """
    theirs, ours = read_url(resource), urlsplit(server_url)
    if theirs is None or "#" in resource or _origin(theirs) != _origin(ours):
        return False
    if theirs.query and theirs.query != ours.query:
        return False
    return (ours.path.rstrip("/") + "/").startswith(theirs.path.rstrip("/") + "/")


def canonical_resource(server_url: str) -> str:
    """Return the ``resource`` of a server that does not say itself what it is.

    Scheme and host are in lower case; credentials, default port, query, fragment and the slash of a root are
    left out.
    """
    parts = urlsplit(server_url)
    scheme, host, port = _origin(parts)
    bracketed = f"[{host}]" if ":" in host else host
    shown = "" if port == DEFAULT_PORTS.get(scheme) else f":{port}"
    return f"{scheme}://{bracketed}{shown}{parts.path if parts.path != '/' else ''}"


def server_origin(server_url: str) -> str:
    """Return scheme, host and port of a server as it would be written by its own authorization server."""
    return _host(canonical_resource(server_url))


def scope_tokens(*scopes: Any) -> list[str]:
    """Return the scopes of all texts, each once, in order; what can be none (RFC 6749, 3.3) is left out."""
    texts = [text for text in scopes if isinstance(text, str)]
    tokens = (token for text in texts for token in text.split(" "))
    return list(dict.fromkeys(token for token in tokens if _SCOPE.fullmatch(token)))


def scope_union(*scopes: Optional[str]) -> Optional[str]:
    """Return all scopes, each once, in order, separated by spaces; ``None`` for none."""
    return " ".join(scope_tokens(*scopes)) or None


def first_scope(challenge: Optional[Challenge], found: ServerRecord, wanted: Sequence[str]) -> Optional[str]:
    """Return what to ask for at the first login, ``None`` to leave it to the server.

    What the user wants, with what the challenge demands, or else with all that the resource lists. See the
    scope selection strategy of the specification.
    """
    demanded = scope_union(challenge.params.get("scope")) if challenge is not None else None
    return scope_union(*wanted, demanded or scope_union(*(found.scopes_supported or ())))


def with_offline_access(scope: Optional[str], found: ServerRecord) -> Optional[str]:
    """Return a scope with what a refresh token takes, where the authorization server knows of it.

    Nothing in particular stays nothing in particular: with it alone less would be granted.
    """
    offered = found.metadata.get("scopes_supported")
    if scope is None or not isinstance(offered, Iterable) or OFFLINE_ACCESS not in offered:
        return scope
    return scope_union(scope, OFFLINE_ACCESS)


def _origin(parts: SplitResult) -> tuple[str, str, Optional[int]]:
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").rstrip("."), parts.port or DEFAULT_PORTS.get(scheme)


def _host(url: str) -> str:
    """Return a URL up to its path, as it is written, without credentials."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

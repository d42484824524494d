"""Who authorizes for an MCP server (authorization server discovery of the specification).

A server that has no metadata of its own is one of the first revision with authorization: its authorization
server is at its own origin, and where that has no metadata either, the endpoints have fixed names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

from .._protocol.urls import public_url
from .._protocol.versions import LATEST_HANDSHAKE
from ..errors import AuthError, IssuerMismatch
from ._answers import described, is_passing, json_object, quoted
from ._challenge import Challenge
from ._records import ServerRecord
from ._rules import (
    canonical_resource,
    endpoint,
    is_secure,
    resource_covers,
    resource_metadata_urls,
    same_issuer,
    scope_tokens,
    server_metadata_urls,
    server_origin,
)
from ._steps import Conversation, Fetch

# More are not looked at: each of them costs requests to wherever the MCP server says.
MOST_SERVERS = 5

_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint")
_DEVICE = "device_authorization_endpoint"
_HEADERS = {"Accept": "application/json"}
_OLD_HEADERS = {**_HEADERS, "MCP-Protocol-Version": LATEST_HANDSHAKE}


class _Resource(NamedTuple):
    """What the metadata of a protected resource says."""

    resource: str
    issuers: tuple[str, ...]
    scopes: Optional[tuple[str, ...]]


class _Trail:
    """What was tried, and what came of it.

    Attributes:
        is_doubtful: Whether anything came of it but plain absence; nothing may be concluded then.
    """

    def __init__(self) -> None:
        self.is_doubtful = False
        self._is_passing = False
        self._lines: list[str] = []
        self._last_url = ""
        self._cause: Optional[AuthError] = None
        self._mismatch: Optional[tuple[str, str]] = None

    def add(
        self,
        url: str,
        said: str,
        *,
        doubtful: bool = False,
        passing: bool = False,
        cause: Optional[AuthError] = None,
    ) -> None:
        """Write down what one URL said, and whether it may say something else in a while."""
        self._last_url = public_url(url)
        self._lines.append(f"{self._last_url}: {said}")
        self.is_doubtful = self.is_doubtful or doubtful or passing
        self._is_passing = self._is_passing or passing
        self._cause = cause or self._cause

    def add_mismatch(self, url: str, expected: str, actual: str) -> None:
        """Write down that an authorization server claims to be another."""
        self.add(url, f"issuer is {actual!r} instead of {expected!r}", doubtful=True)
        self._mismatch = self._mismatch or (expected, actual)

    def error(self, what: str) -> AuthError:
        """Return the error that lists all of it, in order."""
        message = f"{what}; tried " + "; ".join(self._lines)
        error = AuthError(message, url=self._last_url, transient=self._is_passing)
        if self._mismatch is not None:
            expected, actual = self._mismatch
            error = IssuerMismatch(message, url=self._last_url, expected=expected, actual=actual)
        error.__cause__ = self._cause
        return error


def discover(
    server_url: str, challenge: Optional[Challenge], *, issuer: Optional[str] = None
) -> Conversation[ServerRecord]:
    """Find out who authorizes for an MCP server.

    Args:
        server_url: The URL of the MCP server.
        challenge: What it said when it refused a request, if it did.
        issuer: The authorization server to ask if there are several, and the only one that may be asked.
            Without metadata of the MCP server it is asked all the same.

    Raises:
        IssuerMismatch: An authorization server claims to be another; or ``issuer`` is none of those named.
        AuthError: Nothing usable was found, and the error lists what was tried; or the metadata of the
            resource are for another server; or an endpoint is nothing to which secrets may be sent.
    """
    trail = _Trail()
    resource = yield from _find_resource(server_url, challenge, trail)
    if resource is None:
        return (yield from _find_without_resource(server_url, issuer, trail))
    for each in _candidates(resource, issuer):
        metadata = yield from _find_server(each, trail)
        if metadata is not None:
            return ServerRecord(metadata["issuer"], resource.resource, metadata, resource.scopes)
    raise trail.error(f"no usable metadata of the authorization server of {public_url(server_url)}")


def server_metadata(issuer: str) -> Conversation[dict[str, Any]]:
    """Return the metadata of an authorization server that is known by its issuer.

    Raises:
        IssuerMismatch: It claims to be another.
        AuthError: Nothing usable was found, and the error lists what was tried.
    """
    trail = _Trail()
    metadata = yield from _find_server(issuer, trail)
    if metadata is None:
        raise trail.error(f"no usable metadata of {public_url(issuer)}")
    return metadata


def _find_resource(
    server_url: str, challenge: Optional[Challenge], trail: _Trail
) -> Conversation[Optional[_Resource]]:
    """Return the metadata of the MCP server itself, ``None`` if it certainly has none."""
    for url in resource_metadata_urls(server_url, challenge):
        body = yield from _read("the metadata of the MCP server", url, trail, _HEADERS)
        if body is None:
            continue
        resource = body.get("resource")
        if not isinstance(resource, str):
            is_there = resource is not None
            trail.add(url, "its resource is no text" if is_there else "no resource in it", doubtful=is_there)
            continue
        if not resource_covers(resource, server_url):
            raise AuthError(
                f"the metadata at {public_url(url)} are for {public_url(quoted(resource))!r}, "
                f"not for {public_url(server_url)!r}",
                url=public_url(url),
            )
        listed = body.get("authorization_servers")
        if not listed:
            trail.add(url, "no authorization_servers in it")
            continue
        issuers = tuple(filter(_is_issuer, listed)) if isinstance(listed, list) else ()
        if issuers:
            return _Resource(resource, issuers, _scopes(body.get("scopes_supported")))
        trail.add(url, "no https URL in authorization_servers", doubtful=True)
    if trail.is_doubtful:
        raise trail.error(f"no usable metadata of the MCP server {public_url(server_url)}")
    return None


def _find_without_resource(
    server_url: str, issuer: Optional[str], trail: _Trail
) -> Conversation[ServerRecord]:
    """Do as the first revision with authorization says."""
    own = server_origin(server_url)
    asked = issuer if issuer is not None else own
    metadata = yield from _find_server(asked, trail, _OLD_HEADERS)
    if metadata is not None:
        return ServerRecord(metadata["issuer"], canonical_resource(server_url), metadata)
    if trail.is_doubtful or not same_issuer(asked, own):
        raise trail.error(f"no usable metadata of the authorization server of {public_url(server_url)}")
    defaults = {
        "issuer": own,
        "authorization_endpoint": own + "/authorize",
        "token_endpoint": own + "/token",
        "registration_endpoint": own + "/register",
        # Where the names are fixed there is nothing to look it up in, but that revision demands it.
        "code_challenge_methods_supported": ["S256"],
    }
    for name in _ENDPOINTS:
        endpoint(defaults, name)
    # That revision knows no ``resource``.
    return ServerRecord(own, None, defaults)


def _candidates(resource: _Resource, issuer: Optional[str]) -> Sequence[str]:
    if issuer is None:
        return resource.issuers[:MOST_SERVERS]
    chosen = [each for each in resource.issuers if same_issuer(each, issuer)]
    if not chosen:
        named = ", ".join(resource.issuers[:MOST_SERVERS])
        raise IssuerMismatch(
            f"this client is for the authorization server {issuer}, but the MCP server names {named}",
            url=public_url(resource.resource),
            expected=issuer,
            actual=named,
        )
    return chosen[:1]


def _find_server(
    issuer: str, trail: _Trail, headers: Mapping[str, str] = _HEADERS
) -> Conversation[Optional[dict[str, Any]]]:
    """Return the metadata of an authorization server, ``None`` if none of its places has any of use."""
    for url in server_metadata_urls(issuer):
        body = yield from _read("the metadata of the authorization server", url, trail, headers)
        if body is not None and _is_usable(body, issuer, url, trail):
            return body
    return None


def _is_usable(body: Mapping[str, Any], issuer: str, url: str, trail: _Trail) -> bool:
    """Whether metadata are those of the issuer (RFC 8414, section 3.3), and safe to follow."""
    actual = body.get("issuer")
    if not isinstance(actual, str):
        trail.add(url, "no issuer in it", doubtful=any(name in body for name in _ENDPOINTS))
        return False
    if not same_issuer(issuer, actual):
        trail.add_mismatch(url, issuer, quoted(actual))
        return False
    try:
        for name in (*_ENDPOINTS, _DEVICE):
            endpoint(body, name)
        if endpoint(body, "token_endpoint") is None:
            raise AuthError("no token_endpoint in it")
    except AuthError as error:
        trail.add(url, str(error), doubtful=True)
        return False
    return True


def _read(
    purpose: str, url: str, trail: _Trail, headers: Mapping[str, str]
) -> Conversation[Optional[dict[str, Any]]]:
    """Return the JSON object that lies at a URL, ``None`` if there is none."""
    try:
        answer = yield Fetch(purpose, url, headers=headers)
    except AuthError as error:
        trail.add(url, str(error), doubtful=True, passing=error.transient, cause=error)
        return None
    body = json_object(answer.body) if answer.status == 200 else None
    if body is None:
        trail.add(url, described(answer), passing=is_passing(answer.status))
    return body


def _is_issuer(value: Any) -> bool:
    return is_secure(value) and not set("?#") & set(value)


def _scopes(listed: Any) -> Optional[tuple[str, ...]]:
    return tuple(scope_tokens(*listed)) if isinstance(listed, list) else None

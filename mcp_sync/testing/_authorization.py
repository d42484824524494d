"""An authorization server for tests, and what guards a fake server with its tokens."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Callable, Optional
from urllib.parse import parse_qsl, urlencode, urlsplit

from . import _grants as grants
from ._grants import ClientRecord, Grants, Refused, Token
from ._http import HTTPEndpoint, HTTPReply, HTTPRequest, Intercept
from ._server import FakeServer

_RESOURCE = "/.well-known/oauth-protected-resource"
_METADATA = "/.well-known/oauth-authorization-server"


class FakeAuthorizationServer:
    """An OAuth 2.1 authorization server on a loopback port, whose user agrees at once.

    It does what MCP asks of one: metadata (RFC 8414), registration (RFC 7591), codes with PKCE S256, tokens
    for a resource (RFC 8707), refresh tokens that are used once, client credentials, revocation (RFC 7009)
    and the issuer in its answers (RFC 9207). `guard` has a `FakeServer` take its tokens alone::

        with FakeAuthorizationServer() as auth:
            fake = FakeServer(tools=[add], principal=auth.user_of)
            with fake.serve_http(intercept=auth.guard()) as endpoint:
                ...  # the application sends its user to a URL
                answer = auth.consent(url)  # and the user comes back with this one

    Args:
        user: Who agrees, where `consent` names nobody else.
        lifetime: Seconds that an access token is good for.
        scopes: Those that there are; empty for any.
        port: The port, 0 for a free one.

    Attributes:
        issuer: Its origin.
        user: As above. May be set at any time.
        lifetime: As above.
        denies: Whether the user refuses. May be set at any time.
        asked: How often each path was asked for, and each ``grant_type``.
    """

    def __init__(
        self, *, user: str = "user", lifetime: float = 3600.0, scopes: Iterable[str] = (), port: int = 0
    ) -> None:
        self.user = user
        self.denies = False
        self.scopes = tuple(scopes)
        self.asked: Counter[str] = Counter()
        self._grants = Grants(lifetime, self.scopes)
        # Guards `asked` and `_grants`: each request has a thread of its own.
        self._lock = threading.Lock()
        self._endpoint: HTTPEndpoint = FakeServer().serve_http(port, path=_METADATA, intercept=self._answer)
        self.issuer = self._endpoint.url[: -len(_METADATA)]

    def __enter__(self) -> FakeAuthorizationServer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening."""
        self._endpoint.close()

    # --- what a test does with it ------------------------------------------------------------------------

    @property
    def lifetime(self) -> float:
        """Seconds that access tokens are good for which are issued from now on."""
        return self._grants.lifetime

    @lifetime.setter
    def lifetime(self, seconds: float) -> None:
        self._grants.lifetime = seconds

    def add_client(
        self, client_id: str, client_secret: Optional[str] = None, redirect_uris: Iterable[str] = ()
    ) -> None:
        """Know a client that was registered by hand."""
        with self._lock:
            self._grants.clients[client_id] = ClientRecord(client_id, client_secret, tuple(redirect_uris))

    def consent(self, url: str, user: Optional[str] = None) -> str:
        """Be the browser of a user who agrees; return the URL that it is sent back to.

        Args:
            url: Where the application has sent the user.
            user: Who that is, default: ``self.user``.

        Raises:
            ValueError: The request is one that no user would be shown: an unknown client or address.
        """
        query = dict(parse_qsl(urlsplit(url).query))
        with self._lock:
            self.asked["/authorize"] += 1
            try:
                return self._authorize(query, self.user if user is None else user)
            except Refused as refused:
                raise ValueError(f"{refused.error}: {refused.description}") from None

    def expire_access_tokens(self) -> None:
        """Have every access token of now refused; refresh tokens stay good."""
        with self._lock:
            self._grants.access.clear()

    def forget_grants(self) -> None:
        """Have everything refused that was granted so far, as when a user has withdrawn it."""
        with self._lock:
            self._grants.access.clear()
            self._grants.refresh.clear()
            self._grants.codes.clear()

    def user_of(self, headers: Mapping[str, str]) -> Optional[str]:
        """Return whose token a request carries, also that of a client: ``principal`` of a `FakeServer`."""
        token = self._token(headers)
        return None if token is None else token.user or token.client_id

    # --- the guard ---------------------------------------------------------------------------------------

    def guard(self, scopes: Iterable[str] = (), tools: Optional[Mapping[str, str]] = None) -> Intercept:
        """Return an ``intercept`` for `FakeServer.serve_http` that lets no request pass without a good token.

        Args:
            scopes: Those that every request needs.
            tools: Further scopes, separated by spaces, by the names of tools.
        """
        needed = tuple(scopes)

        def intercept(request: HTTPRequest) -> Optional[HTTPReply]:
            origin = f"http://{request.headers.get('host', '')}"
            path = request.path.split("?")[0]
            if path.startswith(_RESOURCE):
                body = {"resource": origin + path[len(_RESOURCE) :], "authorization_servers": [self.issuer]}
                return json_reply({**body, "scopes_supported": [*needed]} if needed else body)
            if path.startswith("/.well-known/"):
                return HTTPReply(404)
            return self._refusal(request, origin, path, {*needed, *_scopes_for(request, tools or {})})

        return intercept

    def _refusal(self, request: HTTPRequest, origin: str, path: str, needed: set[str]) -> Optional[HTTPReply]:
        challenge = f'Bearer resource_metadata="{origin}{_RESOURCE}{path}"'
        if needed:
            challenge += f', scope="{" ".join(sorted(needed))}"'
        token = self._token(request.headers)
        if token is None or token.resource not in ("", origin + path):
            error = ', error="invalid_token"' if "authorization" in request.headers else ""
            return HTTPReply(401, {"WWW-Authenticate": challenge + error})
        if not needed <= set(token.scope.split()):
            return HTTPReply(403, {"WWW-Authenticate": f'{challenge}, error="insufficient_scope"'})
        return None

    def _token(self, headers: Mapping[str, str]) -> Optional[Token]:
        scheme, _, value = headers.get("authorization", "").partition(" ")
        with self._lock:
            return self._grants.good(value) if scheme.lower() == "bearer" else None

    # --- the endpoints -----------------------------------------------------------------------------------

    def _answer(self, request: HTTPRequest) -> HTTPReply:
        parts = urlsplit(request.path)
        form = dict(parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True))
        with self._lock:
            self.asked[parts.path] += 1
            if parts.path == "/token":
                self.asked[form.get("grant_type", "")] += 1
            try:
                if (request.method, parts.path) == ("GET", "/authorize"):
                    location = self._authorize(dict(parse_qsl(parts.query)), self.user)
                    return HTTPReply(302, {"Location": location})
                return self._endpoints(request, parts.path, form)
            except Refused as refused:
                body = {"error": refused.error, "error_description": refused.description}
                extra = {"WWW-Authenticate": "Basic"} if refused.status == 401 else {}
                return json_reply(body, refused.status, extra)

    def _endpoints(self, request: HTTPRequest, path: str, form: dict[str, str]) -> HTTPReply:
        known: dict[tuple[str, str], Callable[[], HTTPReply]] = {
            ("GET", _METADATA): lambda: json_reply(self._metadata()),
            ("POST", "/register"): lambda: json_reply(self._grants.register(_json(request.body)), 201),
            ("POST", "/token"): lambda: json_reply(self._grants.token(form, request.headers)),
            ("POST", "/revoke"): lambda: json_reply(self._grants.revoke(form, request.headers)),
        }
        answer = known.get((request.method, path))
        return HTTPReply(404) if answer is None else answer()

    def _metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "response_types_supported": ["code"],
            "grant_types_supported": list(grants.GRANT_TYPES),
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": list(grants.METHODS),
            "authorization_response_iss_parameter_supported": True,
        }
        return {**found, "scopes_supported": list(self.scopes)} if self.scopes else found

    def _authorize(self, query: dict[str, str], user: str) -> str:
        """Return where the browser is sent; raise what must not be sent to an address nobody has checked."""
        client, redirect_uri = self._grants.addressee(query)
        answer = {"state": query["state"]} if "state" in query else {}
        try:
            if self.denies:
                raise Refused("access_denied", "the user refused")
            answer["code"] = self._grants.code(client, redirect_uri, query, user)
        except Refused as refused:
            answer.update(error=refused.error, error_description=refused.description)
        joint = "&" if "?" in redirect_uri else "?"
        return f"{redirect_uri}{joint}{urlencode({**answer, 'iss': self.issuer})}"


def json_reply(body: Any, status: int = 200, headers: Optional[Mapping[str, str]] = None) -> HTTPReply:
    """Answer with JSON that nobody may keep."""
    fields = {"Content-Type": "application/json", "Cache-Control": "no-store", **(headers or {})}
    return HTTPReply(status, fields, json.dumps(body).encode())


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _scopes_for(request: HTTPRequest, tools: Mapping[str, str]) -> list[str]:
    message = _json(request.body) if request.body else None
    params = message.get("params") if isinstance(message, dict) else None
    name = params.get("name") if isinstance(params, dict) else None
    return tools.get(name, "").split() if isinstance(name, str) else []

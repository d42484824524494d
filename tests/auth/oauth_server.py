"""A small authorization server for tests: real requests over real sockets, with a switch for every oddity.

It is the authorization server, and with `protect` it guards a `FakeServer`. Its user agrees at once: whoever
opens the authorization URL is sent back with a code.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from typing import Any, Callable, Optional
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from mcp_sync.testing import FakeServer
from mcp_sync.testing._http import HTTPReply, HTTPRequest

from .plain_server import PlainServer, Reply, Request


class OAuthServer:
    """Listens while it is open.

    Attributes:
        asked: How often each endpoint was asked, and each grant type.
        forms: What came to the token endpoint.
        authorizations: The queries that came to the authorization endpoint.
        tokens: The access tokens that are valid, with their scopes.
        families: By refresh token: its family; a family of which an old token was used is revoked.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.plain = PlainServer(self._answer, host)
        self.issuer = self.plain.origin
        self.resource: Optional[str] = None
        self.asked: Counter[str] = Counter()
        self.forms: list[dict[str, str]] = []
        self.authorizations: list[dict[str, str]] = []
        self.registrations: list[dict[str, Any]] = []
        self.clients: dict[str, Optional[str]] = {}
        self.tokens: dict[str, str] = {}
        self.refresh_tokens: dict[str, int] = {}
        self.used_refresh_tokens: dict[str, int] = {}
        self.revoked_families: set[int] = set()
        self.revoked: list[str] = []
        # Switches.
        self.metadata: dict[str, Any] = {}
        self.resource_metadata: dict[str, Any] = {}
        self.lifetime: Optional[float] = 3600.0
        self.rotates = True
        self.gives_refresh_tokens = True
        self.refuses_tokens = False
        self.takes_basic = True
        self.needed_scope: dict[str, str] = {}
        self.granted: Callable[[Optional[str]], Optional[str]] = lambda scope: scope
        self.on_token: Callable[[dict[str, str]], Optional[Reply]] = lambda form: None
        self.on_authorize: Callable[[dict[str, str]], Optional[dict[str, str]]] = lambda query: None
        self.on_register: Callable[[dict[str, Any]], Optional[Reply]] = lambda asked: None
        self.on_resource: Callable[[HTTPRequest], Optional[HTTPReply]] = lambda request: None
        self._codes: dict[str, dict[str, str]] = {}
        self._numbers = itertools.count(1)
        # Guards all of it: the endpoints run on threads.
        self._lock = threading.RLock()

    def __enter__(self) -> OAuthServer:
        self.plain.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.plain.__exit__(*exc_info)

    # --- the protected MCP server -----------------------------------------------------------------------

    def protect(self, request: HTTPRequest) -> Optional[HTTPReply]:
        """Guard an MCP server: an ``intercept`` of `FakeServer.serve_http`."""
        canned = self.on_resource(request)
        if canned is not None:
            return canned
        host = request.headers["host"]
        if request.path.startswith("/.well-known/oauth-protected-resource"):
            return self._resource_metadata(host, request.path)
        if request.path.startswith("/.well-known/"):
            return HTTPReply(404)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        with self._lock:
            scope = self.tokens.get(token)
        where = f'resource_metadata="http://{host}/.well-known/oauth-protected-resource/mcp"'
        if scheme not in ("Bearer", "DPoP") or scope is None or self.refuses_tokens:
            self.asked["401"] += 1
            error = ', error="invalid_token", error_description="no good"' if token else ""
            return HTTPReply(401, {"WWW-Authenticate": f"Bearer {where}{error}"}, b"refused " * 100)
        needed = self._needed(request)
        if not set(needed.split()) <= set(scope.split()):
            self.asked["403"] += 1
            challenge = f'Bearer error="insufficient_scope", scope="{needed}", {where}'
            return HTTPReply(403, {"WWW-Authenticate": challenge})
        return None

    def _needed(self, request: HTTPRequest) -> str:
        try:
            message = json.loads(request.body or b"{}")
        except ValueError:
            return ""
        name = (message.get("params") or {}).get("name", "") if isinstance(message, dict) else ""
        return self.needed_scope.get(name, "")

    def _resource_metadata(self, host: str, path: str) -> HTTPReply:
        self.asked["resource metadata"] += 1
        resource = self.resource or f"http://{host}/mcp"
        body = {"resource": resource, "authorization_servers": [self.issuer], **self.resource_metadata}
        return HTTPReply(200, {"Content-Type": "application/json"}, json.dumps(body).encode())

    # --- the authorization server -----------------------------------------------------------------------

    def _answer(self, request: Request) -> Reply:
        parts = urlsplit(request.path)
        endpoints = {
            "/.well-known/oauth-authorization-server": self._metadata,
            "/authorize": self._authorize,
            "/token": self._token,
            "/register": self._register,
            "/revoke": self._revoke,
        }
        endpoint = endpoints.get(parts.path)
        if endpoint is None:
            return Reply(404)
        with self._lock:
            self.asked[parts.path.rpartition("/")[2]] += 1
        return endpoint(request)

    def _metadata(self, request: Request) -> Reply:
        values = {
            "issuer": self.issuer,
            **{f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in ENDPOINTS.items()},
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            **self.metadata,
        }
        return json_reply({name: value for name, value in values.items() if value is not None})

    def _authorize(self, request: Request) -> Reply:
        query = dict(parse_qsl(urlsplit(request.path).query))
        with self._lock:
            self.authorizations.append(query)
            code = f"code-{next(self._numbers)}"
            self._codes[code] = query
        answer = self.on_authorize(query)
        params = {"code": code, "state": query["state"], "iss": self.issuer} if answer is None else answer
        return Reply(302, b"", {"Location": f"{query['redirect_uri']}?{urlencode(params)}"})

    def _token(self, request: Request) -> Reply:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        basic = request.headers.get("authorization", "")
        if basic.startswith("Basic "):
            name, _, secret = base64.b64decode(basic[6:]).decode().partition(":")
            if not self.takes_basic:
                self.asked["basic"] += 1
                return json_reply({"error": "invalid_client"}, 401)
            form = {**form, "client_id": name, "client_secret": secret}
        with self._lock:
            self.forms.append(form)
            self.asked[form.get("grant_type", "")] += 1
        canned = self.on_token(form)
        if canned is not None:
            return canned
        with self._lock:
            if form.get("client_id", "") not in self.clients:
                return json_reply({"error": "invalid_client"}, 401)
            if self.clients[form["client_id"]] not in (None, form.get("client_secret")):
                return json_reply({"error": "invalid_client"}, 401)
            return self._granted(form)

    def _granted(self, form: dict[str, str]) -> Reply:
        kind = form.get("grant_type")
        if kind == "authorization_code":
            asked = self._codes.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if asked is None or asked["code_challenge"] != proof or asked["client_id"] != form["client_id"]:
                return json_reply({"error": "invalid_grant"}, 400)
            return self._tokens(self.granted(asked.get("scope")), next(self._numbers))
        if kind == "refresh_token":
            return self._refreshed(form["refresh_token"])
        if kind == "client_credentials":
            return self._tokens(self.granted(form.get("scope")), None)
        return json_reply({"error": "unsupported_grant_type"}, 400)

    def _refreshed(self, token: str) -> Reply:
        family = self.refresh_tokens.get(token)
        if family is None or family in self.revoked_families:
            used = self.used_refresh_tokens.get(token)
            if used is not None:
                self.revoked_families.add(used)  # Reuse: whoever has stolen it loses all of it.
            return json_reply({"error": "invalid_grant", "error_description": "it was used before"}, 400)
        if self.rotates:
            del self.refresh_tokens[token]
            self.used_refresh_tokens[token] = family
        return self._tokens(None, family if self.rotates else -1)

    def _tokens(self, scope: Optional[str], family: Optional[int]) -> Reply:
        number = next(self._numbers)
        access = f"access-{number}"
        self.tokens[access] = scope or ""
        body: dict[str, Any] = {"access_token": access, "token_type": "Bearer"}
        if self.lifetime is not None:
            body["expires_in"] = self.lifetime
        if scope is not None:
            body["scope"] = scope
        if family is not None and family >= 0 and self.gives_refresh_tokens:
            refresh = f"refresh-{number}"
            self.refresh_tokens[refresh] = family
            body["refresh_token"] = refresh
        return json_reply(body)

    def _register(self, request: Request) -> Reply:
        asked = json.loads(request.body)
        with self._lock:
            self.registrations.append(asked)
        canned = self.on_register(asked)
        if canned is not None:
            return canned
        with self._lock:
            name = f"client-{next(self._numbers)}"
            self.clients[name] = None
        return json_reply({**asked, "client_id": name}, 201)

    def _revoke(self, request: Request) -> Reply:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        with self._lock:
            self.revoked.append(form["token"])
            self.tokens.pop(form["token"], None)
        return Reply(200)

    def expire_all(self) -> None:
        """Have every access token refused from now on."""
        with self._lock:
            self.tokens.clear()


ENDPOINTS = {
    "authorization": "authorize",
    "token": "token",
    "registration": "register",
    "revocation": "revoke",
}


def json_reply(body: Any, status: int = 200, headers: Any = None) -> Reply:
    """Answer with JSON."""
    return Reply(status, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})


def visit(url: str) -> bool:
    """Be the browser of a user who agrees to everything."""
    with urllib.request.urlopen(url, timeout=10) as response:
        response.read()
    return True


class _Stop(urllib.request.HTTPRedirectHandler):
    """Follows no redirect."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def agree(url: str) -> str:
    """Be the user's browser up to the redirect to the application; return the URL that it is sent to."""
    try:
        urllib.request.build_opener(_Stop).open(url, timeout=10)
    except urllib.error.HTTPError as error:
        with error:
            return str(error.headers["Location"])
    raise AssertionError("no redirect")


def protected(server: OAuthServer, **options: Any) -> Any:
    """Serve an MCP server that the authorization server guards."""

    def add(a: int, b: int) -> dict[str, int]:
        """Add."""
        return {"sum": a + b}

    return FakeServer(tools=[add]).serve_http(intercept=server.protect, **options)


def later(seconds: float) -> float:
    """Return a time from now."""
    return time.time() + seconds

"""What stands before a protected MCP server: bound tokens, scopes of single tools, a record for the test."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import jwt

try:
    import httpx
except ImportError:
    import httpx2 as httpx  # The name that version 2 of the SDK has it under.

WRITER = "write"  # the tool that takes a further scope
WRITER_SCOPE = "notes:write"
SECRET = ("protected-server", "of-the-protected-server")
Reply = tuple[int, dict[str, str], Any]


class Introspection:
    """Asks the authorization server about tokens (RFC 7662)."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._client = httpx.AsyncClient(auth=SECRET, timeout=20)

    async def __call__(self, token: str) -> dict[str, Any] | None:
        """Return what is known of a token that is good."""
        response = await self._client.post(self._endpoint, data={"token": token})
        response.raise_for_status()
        known = response.json()
        return known if known["active"] else None


class Guard:
    """An ASGI application around that of the SDK.

    Args:
        app: The application of the SDK.
        ask: Tells what is known of a token.
        metadata_url: Where the metadata of the protected resource lie.
        dpop: Whether tokens are bound to keys (RFC 9449), with nonces.
        bare: Whether there are no metadata at all, as 2025-03-26 allows.
    """

    def __init__(self, app: Any, ask: Any, metadata_url: str, dpop: bool, bare: bool) -> None:
        self._app = app
        self._ask = ask
        self._metadata = f'resource_metadata="{metadata_url}"'
        self._dpop = dpop
        self._bare = bare
        self._nonce = secrets.token_urlsafe(8)
        self._proofs: set[str] = set()
        self._counters: Counter[str] = Counter()
        self._seen: list[str] = []
        self._faults: list[dict[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection."""
        if self._bare and scope["type"] == "http" and scope["path"].startswith("/.well-known/"):
            await _send(send, (404, {}, "Not Found"))
            return
        if scope["type"] != "http" or scope["path"] not in ("/mcp", "/control"):
            await self._app(scope, receive, send)
            return
        body = await _whole(receive)
        if scope["path"] == "/control":
            await _send(send, self._control(body))
            return
        reply = await self._judge(scope, body)
        if reply is not None:
            await _send(send, reply)
            return
        await self._app(scope, _again(body, receive), self._counting(send))

    def _control(self, body: bytes) -> Reply:
        told = json.loads(body or b"{}")
        if told.get("reset"):
            self._counters.clear()
            self._seen.clear()
            self._faults.clear()
        self._faults += told.get("faults", [])
        return 200, {}, {"counters": self._counters, "authorizations": self._seen}

    async def _judge(self, scope: Any, body: bytes) -> Reply | None:
        """Return a refusal, unless the SDK is to decide."""
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        given = headers.get("authorization", "")
        self._counters["requests"] += 1
        if given not in self._seen:
            self._seen.append(given)
        if self._faults:
            fault = self._faults.pop(0)
            return fault["status"], fault.get("headers", {}), fault.get("body", "")
        if self._dpop:
            reply = await self._check_proof(scope, headers, given)
            if reply is not None:
                return reply
        return await self._check_tool(given.partition(" ")[2], body)

    async def _check_tool(self, token: str, body: bytes) -> Reply | None:
        message = json.loads(body) if body else {}
        if message.get("method") != "tools/call" or message["params"]["name"] != WRITER:
            return None
        known = await self._ask(token) or {}
        scopes = known.get("scope", "").split()
        if not known or WRITER_SCOPE in scopes:
            return None
        self._counters["insufficient scope"] += 1
        challenge = f'Bearer error="insufficient_scope", scope="{WRITER_SCOPE}", {self._metadata}'
        return 403, {"WWW-Authenticate": challenge}, {"error": "insufficient_scope"}

    async def _check_proof(self, scope: Any, headers: Mapping[str, str], given: str) -> Reply | None:
        """Check that the token comes with a proof of its key, and let the SDK see a plain token then."""
        scheme, _, token = given.partition(" ")
        if scheme.lower() != "dpop":
            return self._refusal("invalid_token" if given else "")
        known = await self._ask(token)
        if known is None:
            return self._refusal("invalid_token")
        host = headers["host"]
        problem = self._problem(
            headers.get("dpop", ""), scope["method"], f"http://{host}/mcp", token, known.get("cnf", {})
        )
        if problem:
            self._counters[problem] += 1
            return self._refusal(problem)
        self._counters["proofs"] += 1
        scope["headers"] = [
            (name, b"Bearer " + token.encode()) if name == b"authorization" else (name, value)
            for name, value in scope["headers"]
        ]
        return None

    def _problem(self, proof: str, method: str, url: str, token: str, bound: Mapping[str, str]) -> str:
        """Return the error code of a proof, empty if it is good (RFC 9449, section 4.3)."""
        try:
            key = jwt.get_unverified_header(proof)["jwk"]
            claims = jwt.decode(proof, jwt.PyJWK(key, "ES256"), algorithms=["ES256"])
        except (jwt.PyJWTError, KeyError):
            return "invalid_dpop_proof"
        public = {name: key[name] for name in ("crv", "kty", "x", "y")}
        good = (
            claims["htm"] == method
            and claims["htu"] == url
            and claims["ath"] == _hash(token)
            and bound.get("jkt") == _hash(json.dumps(public, separators=(",", ":")))
            and abs(claims["iat"] - time.time()) < 60
            and claims["jti"] not in self._proofs
            and "d" not in key
        )
        self._proofs.add(claims["jti"])
        if good and claims.get("nonce") != self._nonce:
            return "use_dpop_nonce"
        return "" if good else "invalid_dpop_proof"

    def _refusal(self, error: str) -> Reply:
        said = f'error="{error}", ' if error else ""
        headers = {"WWW-Authenticate": f'DPoP {said}algs="ES256", {self._metadata}'}
        if error == "use_dpop_nonce":
            headers["DPoP-Nonce"] = self._nonce
        return 401, headers, {"error": error}

    def _counting(self, send: Callable[[Any], Awaitable[None]]) -> Any:
        async def counted(event: Any) -> None:
            if event["type"] == "http.response.start":
                self._counters[str(event["status"])] += 1
            await send(event)

        return counted


async def _whole(receive: Any) -> bytes:
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            return body


def _again(body: bytes, receive: Any) -> Any:
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def once_more() -> Any:
        return waiting.pop() if waiting else await receive()

    return once_more


async def _send(send: Any, reply: Reply) -> None:
    status, headers, body = reply
    text = body if isinstance(body, str) else json.dumps(body)
    kind = "text/html" if isinstance(body, str) else "application/json"
    fields = {"content-type": kind, "content-length": str(len(text.encode())), **headers}
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": text.encode()})


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()

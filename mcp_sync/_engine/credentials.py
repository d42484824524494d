"""For whom a client asks, as far as its credentials tell.

Two things depend on it. The cache keeps apart what is meant for different credentials (`credentials_of`).
Envelopes and handles are bound to somebody for longer than a token lives (`bound_to`), so there it counts who
that is, and not what the token is.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Callable, Optional
from urllib.parse import unquote, urlsplit

from .._concurrency.fork import no_fork
from .._protocol.striking import secrets_of

if TYPE_CHECKING:
    from .plan import Plan


def credentials_of(target: Any) -> tuple[Callable[[], Any], bool]:
    """Return what tells for whom a target asks (``None``: that cannot be told), and whether it changes."""
    with no_fork():
        from ..transports._http.target import HTTPTarget
        from ..transports._websocket.target import WebSocket
    if not isinstance(target, (HTTPTarget, WebSocket)) or getattr(target, "session", None) is not None:
        return (lambda: None), False
    auth = target.auth
    parts = urlsplit(target.url)
    headers = sorted((name.lower(), value) for name, value in (target.headers or {}).items())
    session_id = getattr(target, "session_id", None)
    rest = [parts.netloc, parts.query, headers, target.cert, session_id]
    if auth is None or isinstance(auth, tuple):
        return (lambda: [rest, auth]), False
    if not type(auth).__module__.startswith("mcp_sync.auth."):
        return (lambda: None), False
    with no_fork():
        from ..auth._bearer import BearerToken
        from ..auth._hook import TokenAuth
    if isinstance(auth, BearerToken):
        return (lambda: [rest, "bearer", auth.read()]), True
    if isinstance(auth, TokenAuth) and auth.principal:
        return (lambda: [rest, "oauth", *_asks(auth), str(auth.scopes)]), False
    return (lambda: None), False


def secrets_given(target: Any) -> list[str]:
    """Return the secrets that a target was given as they are: headers, passwords, variables of a process.

    What an authorization fetches is not among them.
    """
    with no_fork():
        from ..auth._bearer import BearerToken
        from ..transports._stdio.masking import secrets_among
    url, auth = getattr(target, "url", None) or "", getattr(target, "auth", None)
    found = secrets_of(getattr(target, "headers", None) or {}, url)
    found += secrets_among(getattr(target, "env", None) or {})
    password: Any = unquote(urlsplit(url).password or "")
    if isinstance(auth, tuple) and len(auth) == 2:
        password = auth[1]
    elif isinstance(auth, BearerToken):
        password = auth._source
    return found + ([password] if isinstance(password, str) and password else [])


def bound_to(plan: Plan) -> Optional[str]:
    """Return a digest of whom the credentials of a client are for, ``None`` if they do not tell.

    It is the same in every process. It is made of names alone, never of a secret: those of the principal and
    of the client of an authorization, and that of the user of a password. (A name without a password is often
    a key.) A token of the user's own, or a header, names nobody.

    Args:
        plan: That of the client. Where it names a principal, that counts instead.
    """
    target = plan.target
    if plan.principal is not None:
        return None
    auth = getattr(target, "auth", None)
    names = [name if isinstance(name, str) else None for name in (_user(target, auth), *_asks(auth))]
    if not any(names):
        return None
    text = json.dumps(["mcp_sync principal", *names])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _user(target: Any, auth: Any) -> Any:
    """Return the user of a password, ``None`` if there is none."""
    if auth is None:
        parts = urlsplit(getattr(target, "url", None) or "")
        name, password = parts.username, parts.password
    elif isinstance(auth, tuple):
        name, password = auth
    else:
        name, password = getattr(auth, "username", None), getattr(auth, "password", None)
    return name if password else None


def _asks(auth: Any) -> list[Any]:
    """Return the user and the client of an authorization, as far as it has them."""
    asks = getattr(auth, "identity", None)
    of_client = [getattr(asks, name, None) for name in ("client_id", "metadata_url", "issuer")]
    return [getattr(auth, "principal", None), *of_client]

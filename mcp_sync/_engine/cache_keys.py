"""Under which keys answers are kept, and who may share them.

A key is a digest: of the server, of who may have the answer, and of the request. No credential can be read
from it, nor guessed without the secret that the digest of credentials takes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import platform
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple, Optional, Union
from urllib.parse import urlsplit

from .._protocol.urls import is_loopback
from ..transports._base import Target
from .credentials import credentials_of

# Makes keys mean nothing in other processes, but for the children of this one.
_OURS = secrets.token_bytes(32)
_NETWORK = ("http", "sse", "websocket")
_PUBLIC = "public"
# More places than this are not remembered.
_MOST = 1000


class Place(NamedTuple):
    """Where the answer to one request is kept.

    Attributes:
        marks: The keys of the marks that it belongs to.
        private: Its key, if it is for one principal.
        public: Its key, if it is for everybody.
        names: What the marks are of: its method, and its URI if it has one.
    """

    marks: tuple[str, ...]
    private: str
    public: str
    names: tuple[str, ...] = ()


class Keys:
    """Makes the keys of one client.

    Args:
        target: The server.
        principal: For whom the calls are made; ``None`` to tell it by the credentials.
        secret: With which credentials are hashed; ``None`` for a random one of this process.
        declared: What the client says of itself, by the revision: answers may depend on it.

    Attributes:
        tells: Whether it is known, at each call, for whom that is. A session of the user's may be logged in
            as somebody else by now.
    """

    def __init__(
        self,
        target: Target,
        principal: Optional[str],
        secret: Union[str, bytes, None],
        declared: Callable[[str], Any] = lambda version: None,
    ) -> None:
        self._secret = _OURS if secret is None else secret.encode() if isinstance(secret, str) else secret
        self._server = self._server_of(target)
        self._places: dict[str, Place] = {}
        # Whoever cannot be told apart from others by the credentials shares with nobody.
        self._alone = secrets.token_hex(16)
        self._credentials: Callable[[], Any] = lambda: None
        self._fixed: Optional[str] = None
        self._is_named = principal is not None
        self.tells = self._is_named or getattr(target, "session", None) is None
        self._declared = declared
        self._versions: dict[str, str] = {}
        if principal is not None:
            # Where it is known, that of the server, too: the same user may be somebody else there by now.
            account = getattr(getattr(target, "auth", None), "_account", "")
            self._fixed = _digest("principal", principal, *([account] if account else []))
        else:
            self._credentials, changes = credentials_of(target)
            if not changes:
                self._fixed = self._partition()

    def place(
        self, method: str, params: Mapping[str, Any], version: str, cookies: Sequence[Any] = ()
    ) -> Place:
        """Return where the answer to a request is kept.

        Args:
            method: Its method.
            params: Its params.
            version: The revision.
            cookies: Those that go with it.

        Raises:
            AuthError: The function that gives the token failed.
        """
        partition = self._fixed or self._partition()
        if cookies and not self._is_named:
            # They may say who it is, or that it is somebody else by now.
            partition = self._keyed("cookies", partition, cookies)
        era = self._versions.get(version) or self._era(version)
        what = f"{partition}\n{era}\n{method}\n{json.dumps(params, sort_keys=True) if params else ''}"
        place = self._places.get(what)
        if place is None:
            uri = params.get("uri")
            names = (method, uri) if isinstance(uri, str) else (method,)
            everybody = what.replace(partition, _PUBLIC, 1)
            keys = _digest(self._server, what), _digest(self._server, everybody)
            place = Place(tuple(map(self.mark, names)), *keys, names)
            if len(self._places) >= _MOST:
                self._places = {}
            self._places[what] = place
        return place

    def _era(self, version: str) -> str:
        """Return what stands for a revision, and for what the client declares in it."""
        declared = json.dumps(self._declared(version), sort_keys=True, default=str)
        era = self._versions[version] = f"{version} {_digest(declared)}"
        return era

    def mark(self, name: str) -> str:
        """Return the key of a mark: that of a method, or of the URI of a resource."""
        return _digest(self._server, "mark", name)

    def _partition(self) -> str:
        known = self._credentials()
        return self._alone if known is None else self._keyed("credentials", known)

    def _keyed(self, *parts: Any) -> str:
        text = json.dumps(parts, sort_keys=True, default=str)
        return hmac.new(self._secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def _server_of(self, target: Target) -> str:
        """Return what tells this server from all others that may be in the same store."""
        identity = target.identity()
        url = getattr(target, "url", None)
        if not (isinstance(identity, tuple) and identity[:1] and identity[0] in _NETWORK and url):
            # A command, or an object, means something else in another process.
            return f"{identity!r}\n{_OURS.hex()}"
        parts = urlsplit(url)
        query = self._keyed("query", parts.query) if parts.query else ""
        machine = platform.node() if is_loopback(parts.hostname) else ""
        return f"{identity!r}\n{query}\n{machine}"


def _digest(*parts: str) -> str:
    text = "\n\n".join(parts)
    return "mcp-" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

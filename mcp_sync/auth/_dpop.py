"""Proof of possession (RFC 9449): a token that is of no use without the key that it is bound to."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from typing import Any, Callable, Optional
from urllib.parse import urlsplit, urlunsplit

from .._concurrency.fork import no_fork
from ..errors import UsageError
from ._signing import base64url, missing_package, new_jti, signer_of

# The members of a public key, in the order of a thumbprint (RFC 7638, section 3; RFC 8037, section 2).
_PUBLIC = {"EC": ("crv", "kty", "x", "y"), "RSA": ("e", "kty", "n"), "OKP": ("crv", "kty", "x")}
_NONCE = re.compile(r"[!#-\[\]-~]{1,1024}")  # RFC 9449, section 8.1; what is longer is no honest one.
_MOST_NONCES = 64


def new_key() -> dict[str, Any]:
    """Return a new private key for ES256, as a JWK.

    Raises:
        UsageError: The packages of the extra ``jwt`` are missing.
    """
    with no_fork():
        try:
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError as error:
            raise missing_package(error) from error
    numbers = ec.generate_private_key(ec.SECP256R1()).private_numbers()
    public = numbers.public_numbers
    values = {"x": public.x, "y": public.y, "d": numbers.private_value}
    return {
        "kty": "EC",
        "crv": "P-256",
        **{name: base64url(value.to_bytes(32, "big")) for name, value in values.items()},
    }


def public_key(key: Mapping[str, Any]) -> dict[str, Any]:
    """Return what may be shown of a JWK.

    Raises:
        UsageError: It is no key for signatures, or something of it is missing.
    """
    names = _PUBLIC.get(key.get("kty", ""), ())
    if not names or not all(isinstance(key.get(name), str) for name in names):
        raise UsageError("the key of a DPoP proof must be a JWK of EC, RSA or OKP")
    return {name: key[name] for name in names}


def is_private_key(key: Mapping[str, Any]) -> bool:
    """Whether it looks like a private JWK; what is wrong inside shows at the first proof."""
    names = _PUBLIC.get(str(key.get("kty")), ())
    return bool(names) and all(isinstance(key.get(name), str) for name in (*names, "d"))


def thumbprint(key: Mapping[str, Any]) -> str:
    """Return the SHA-256 thumbprint of a JWK, by which a token names its key (RFC 7638)."""
    text = json.dumps(public_key(key), separators=(",", ":"))
    return base64url(hashlib.sha256(text.encode()).digest())


def token_hash(access_token: str) -> str:
    """Return what a proof says of the token that it comes with: the claim ``ath``."""
    return base64url(hashlib.sha256(access_token.encode("ascii")).digest())


class Prover:
    """Makes the proofs for one key, and remembers the nonces of the servers. Safe for any number of threads.

    A nonce is remembered for the URL that gave it. So an authorization server and an MCP server never get
    each other's, even where both have the same origin.

    Args:
        key: The private key, as a JWK.
        nonces: Where to keep the nonces; shared, they outlive the prover.
        clock: Says how late it is, in seconds since 1970.

    Attributes:
        key: The private key.
        thumbprint: Its thumbprint.

    Raises:
        UsageError: It is no private key.
    """

    def __init__(
        self,
        key: Mapping[str, Any],
        nonces: Optional[dict[str, str]] = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.key = dict(key)
        self.thumbprint = thumbprint(key)
        self._header = {"typ": "dpop+jwt", "jwk": public_key(key)}
        # The proof holds the key itself; a name for it says nothing more.
        self._signer = signer_of({name: value for name, value in key.items() if name != "kid"})
        # Single operations only, so it needs no lock.
        self._nonces: dict[str, str] = {} if nonces is None else nonces
        self._clock = clock

    def proof(
        self, method: str, url: str, nonce: Optional[str] = None, access_token: Optional[str] = None
    ) -> str:
        """Return a new proof for one request, never to be used again.

        Args:
            method: The method of the request.
            url: Its URL; query and fragment do not count.
            nonce: The nonce of the server, by default the last that it gave.
            access_token: The token that goes with it.
        """
        claims: dict[str, Any] = {
            "jti": new_jti(),
            "htm": method,
            "htu": target_of(url),
            "iat": int(self._clock()),
        }
        if access_token is not None:
            claims["ath"] = token_hash(access_token)
        if nonce is None:
            nonce = self.nonce_for(url)
        if nonce is not None:
            claims["nonce"] = nonce
        return self._signer.sign(self._header, claims)

    def note_nonce(self, url: str, headers: Mapping[str, str]) -> bool:
        """Remember the nonce that a response brings, whatever else it says.

        Args:
            url: Where the response came from.
            headers: Its headers; their names in lower case, unless the mapping does not mind.

        Returns:
            Whether there was one.
        """
        nonce = nonce_in(headers)
        if nonce is None:
            return False
        if len(self._nonces) >= _MOST_NONCES:
            self._nonces.clear()
        self._nonces[target_of(url)] = nonce
        return True

    def nonce_for(self, url: str) -> Optional[str]:
        """Return the last nonce that came from a URL, ``None`` if there was none."""
        return self._nonces.get(target_of(url))

    def __repr__(self) -> str:
        return f"<prover {self.thumbprint}>"


def nonce_in(headers: Mapping[str, str]) -> Optional[str]:
    """Return the nonce that a response brings, ``None`` if there is none, or none that can be sent."""
    nonce = headers.get("dpop-nonce")
    return nonce if nonce is not None and _NONCE.fullmatch(nonce) else None


def target_of(url: str) -> str:
    """Return what a proof says of a URL: without user name, query and fragment (the claim ``htu``)."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path or "/", "", ""))

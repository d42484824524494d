"""Signed tokens (RFC 7515, RFC 7519), and the one by which a client authenticates (RFC 7523).

PyJWT and cryptography come with the extra ``jwt``. They are loaded by the first signature that needs them; a
signing function of the user needs neither.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple, Optional, Protocol, Union

from .._arguments import check_callback
from .._concurrency.fork import no_fork
from ..errors import AuthError, MCPError, UsageError

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
ASSERTION_SECONDS = 300
_RSA = ALGORITHMS[:6]
_BY_CURVE = {
    "secp256r1": "ES256",
    "secp384r1": "ES384",
    "secp521r1": "ES512",
    "P-256": "ES256",
    "P-384": "ES384",
    "P-521": "ES512",
    "Ed25519": "EdDSA",
}
_LEAST_RSA_BITS = 2048  # RFC 7518, section 3.3
# What JWS makes of these signatures: two numbers of a fixed size, and no DER (RFC 7518, section 3.4).
_SIZES = {"ES256": 64, "ES384": 96, "ES512": 132, "EdDSA": 64}

SigningFunction = Callable[[bytes], bytes]


class Signer(Protocol):
    """Makes signed tokens. Safe for any number of threads."""

    @property
    def alg(self) -> str:
        """The algorithm of its signatures, as JWS names it."""

    def sign(self, header: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
        """Return a token in the compact form, with ``alg`` (and ``kid``) in its header."""


def signer_of(key: Any, alg: Optional[str] = None, kid: Optional[str] = None) -> Signer:
    """Make a signer of what a user has for a private key.

    Args:
        key: A key in PEM (text or bytes), a JWK as a dict, a private key of ``cryptography`` (RSA, EC P-256,
            P-384 or P-521, Ed25519), or a function that takes the bytes to be signed and returns the
            signature as JWS has it: for one that asks a key service.
        alg: One of `ALGORITHMS`. It has to be given with a function; else it follows from the key.
        kid: The name of the key, for the header.

    Raises:
        UsageError: It cannot be used. What only shows when the key is read shows at the first signature.
    """
    if alg is not None and alg not in ALGORITHMS:
        raise UsageError(f"the algorithm of a signature must be one of {', '.join(ALGORITHMS)}")
    if kid is not None and not (isinstance(kid, str) and kid):
        raise UsageError("the id of a key must be a string that is not empty")
    if isinstance(key, (str, bytes, bytearray)):
        return _KeySigner(_checked_pem(key), alg, kid)
    if isinstance(key, Mapping):
        _check_jwk(key)
        return _KeySigner(dict(key), alg or key.get("alg"), kid or key.get("kid"))
    if hasattr(key, "private_bytes"):
        return _KeySigner(key, alg, kid)
    if not callable(key):
        raise UsageError(
            "a private key must be PEM text, a JWK as a dict, a key object of cryptography, or a function "
            f"that signs, not {type(key).__name__}"
        )
    check_callback("the function that signs", key)
    if alg is None:
        raise UsageError("with a function that signs, the algorithm has to be given")
    return _FunctionSigner(key, alg, kid)


def client_assertion(client_id: str, audience: str, signer: Signer, now: float) -> str:
    """Return the token by which a client authenticates (RFC 7523, section 3).

    Args:
        client_id: The client.
        audience: The issuer of the authorization server, which its successor asks for (7523bis).
        signer: Who signs.
        now: Seconds since 1970.
    """
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "iat": int(now),
        "exp": int(now) + ASSERTION_SECONDS,
        "jti": new_jti(),
    }
    return signer.sign({"typ": "JWT"}, claims)


def new_jti() -> str:
    """Return a name for a token that no other has."""
    return base64url(os.urandom(18))


def base64url(data: bytes) -> str:
    """Encode bytes as JOSE does: without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


class _Signer:
    """Puts a token together. Its ``repr`` shows nothing of the key."""

    def __init__(self, alg: Optional[str], kid: Optional[str]) -> None:
        self._alg = alg
        self._kid = kid

    @property
    def alg(self) -> str:
        """See `Signer.alg`."""
        raise NotImplementedError

    def sign(self, header: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
        """See `Signer.sign`."""
        head = {**header, "alg": self.alg}
        if self._kid is not None:
            head["kid"] = self._kid
        text = f"{_encoded(head)}.{_encoded(claims)}"
        return f"{text}.{base64url(self._signature(text.encode('ascii')))}"

    def _signature(self, data: bytes) -> bytes:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<signer alg={self._alg} kid={self._kid}>"


class _FunctionSigner(_Signer):
    """Has a function of the user sign."""

    def __init__(self, function: SigningFunction, alg: str, kid: Optional[str]) -> None:
        super().__init__(alg, kid)
        self._function = function
        self._name = alg

    @property
    def alg(self) -> str:
        """See `Signer.alg`."""
        return self._name

    def _signature(self, data: bytes) -> bytes:
        try:
            signature: Any = self._function(data)
        except MCPError:
            raise
        except Exception as error:
            raise AuthError(f"the function that signs has failed: {type(error).__name__}") from error
        if not isinstance(signature, (bytes, bytearray)) or not signature:
            raise UsageError(f"the function that signs must return bytes, not {type(signature).__name__}")
        size = _SIZES.get(self._name, len(signature))
        if len(signature) != size:
            raise UsageError(
                f"the function that signs returned {len(signature)} bytes; an {self._name} signature has "
                f"{size}: the plain numbers, not DER"
            )
        return bytes(signature)


class _Loaded(NamedTuple):
    """A key that has been read."""

    alg: str
    algorithm: Any
    key: Any


class _KeySigner(_Signer):
    """Signs with a key, which is read at the first signature."""

    def __init__(self, given: Any, alg: Optional[str], kid: Optional[str]) -> None:
        super().__init__(alg, kid)
        self._given = given
        self._loaded: Optional[_Loaded] = None

    @property
    def alg(self) -> str:
        """See `Signer.alg`."""
        return self._load().alg

    def _signature(self, data: bytes) -> bytes:
        loaded = self._load()
        return bytes(loaded.algorithm.sign(data, loaded.key))

    def _load(self) -> _Loaded:
        # Two threads may both do it: they come to the same.
        loaded = self._loaded
        if loaded is None:
            loaded = self._loaded = _load(self._given, self._alg)
        return loaded


def _load(given: Any, wanted: Optional[str]) -> _Loaded:
    """Read a key, and find the algorithm for it.

    Raises:
        UsageError: It cannot be read, or not be used with this algorithm; or a package is missing.
    """
    with no_fork():
        try:
            import cryptography.hazmat.primitives.asymmetric  # noqa: F401
            import jwt.algorithms
        except ImportError as error:
            raise missing_package(error) from error
    key = _private_key(given, jwt.algorithms)
    possible = _algorithms_for(key)
    alg = wanted or possible[0]
    if alg not in possible:
        raise UsageError(f"the private key signs with {' or '.join(possible)}, not with {alg}")
    return _Loaded(alg, jwt.algorithms.get_default_algorithms()[alg], key)


def missing_package(error: ImportError) -> UsageError:
    """Return what says how to get the packages of the extra."""
    return UsageError(
        f"a signature needs a package that is missing ({error.name}): pip install 'mcp-sync-client[jwt]'"
    )


def _private_key(given: Any, algorithms: Any) -> Any:
    """Return the key object of what was given."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        if isinstance(given, bytes):
            return load_pem_private_key(given, password=None)
        if isinstance(given, dict):
            kinds = {
                "RSA": algorithms.RSAAlgorithm,
                "EC": algorithms.ECAlgorithm,
                "OKP": algorithms.OKPAlgorithm,
            }
            return kinds[given["kty"]].from_jwk(given)
    except Exception as error:
        raise UsageError(f"the private key cannot be read ({type(error).__name__})") from error
    return given


def _algorithms_for(key: Any) -> tuple[str, ...]:
    """Return the algorithms that a key can sign with, the usual one first."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, rsa.RSAPrivateKey):
        if key.key_size < _LEAST_RSA_BITS:
            raise UsageError(f"the RSA key has {key.key_size} bits; it takes {_LEAST_RSA_BITS} or more")
        return _RSA
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return ("EdDSA",)
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in _BY_CURVE:
        return (_BY_CURVE[key.curve.name],)
    raise UsageError("a private key must be of RSA, of EC with P-256, P-384 or P-521, or of Ed25519")


def _checked_pem(key: Union[str, bytes, bytearray]) -> bytes:
    """Return PEM as bytes, if it looks like a private key that can be read without a password."""
    try:
        data = key.encode("ascii") if isinstance(key, str) else bytes(key)
    except UnicodeEncodeError:
        data = b""
    data = data.strip()
    if not data.startswith(b"-----BEGIN "):
        raise UsageError(
            "a private key as text must be the content of a PEM file, not its path or anything else"
        )
    if b"PRIVATE KEY-----" not in data:
        raise UsageError("the PEM text holds no private key")
    if b"ENCRYPTED" in data:
        raise UsageError(
            "the private key is encrypted: read it with load_pem_private_key of cryptography, and pass that"
        )
    return data


def _check_jwk(key: Mapping[str, Any]) -> None:
    kty, alg = key.get("kty"), key.get("alg")
    if kty not in ("RSA", "EC", "OKP"):
        raise UsageError(f"a JWK for signatures has the kty RSA, EC or OKP, not {kty!r}")
    if not isinstance(key.get("d"), str):
        raise UsageError("the JWK holds no private key: it has no member d")
    if kty != "RSA" and key.get("crv") not in _BY_CURVE:
        raise UsageError(
            f"a JWK for signatures has the crv P-256, P-384, P-521 or Ed25519, not {key.get('crv')!r}"
        )
    if alg is not None and alg not in ALGORITHMS:
        raise UsageError(f"the alg of the JWK is {alg!r}; known are {', '.join(ALGORITHMS)}")


def _encoded(value: Mapping[str, Any]) -> str:
    return base64url(json.dumps(value, separators=(",", ":")).encode())

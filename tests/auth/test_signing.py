"""Signed tokens, checked with another implementation than the one that makes them."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from mcp_sync.auth._signing import ALGORITHMS, base64url, client_assertion, signer_of
from mcp_sync.errors import UsageError

# The name EdDSA is deprecated since RFC 9864; it is the one that servers know.
pytestmark = pytest.mark.filterwarnings("ignore:EdDSA is deprecated")

NOW = 1_800_000_000.7
RSA = rsa.generate_private_key(65537, 2048)
P256 = ec.generate_private_key(ec.SECP256R1())
P384 = ec.generate_private_key(ec.SECP384R1())
P521 = ec.generate_private_key(ec.SECP521R1())
ED25519 = ed25519.Ed25519PrivateKey.generate()
KEYS = {"rsa": RSA, "p256": P256, "p384": P384, "p521": P521, "ed25519": ED25519}
USUAL = {"rsa": "RS256", "p256": "ES256", "p384": "ES384", "p521": "ES512", "ed25519": "EdDSA"}
KINDS = {"rsa": RSAKey, "p256": ECKey, "p384": ECKey, "p521": ECKey, "ed25519": OKPKey}


def pem(key: Any, password: bytes = b"", form: str = "PKCS8") -> bytes:
    """Write a private key as PEM."""
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    data: bytes = key.private_bytes(
        serialization.Encoding.PEM, getattr(serialization.PrivateFormat, form), how
    )
    return data


def public_pem(key: Any) -> bytes:
    data: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return data


def jwk(name: str) -> dict[str, Any]:
    return dict(KINDS[name].import_key(pem(KEYS[name])).as_dict(private=True))


def checked(token: str, name: str) -> jwt.Token:
    """Check a token with the public key, and return it."""
    return jwt.decode(token, KINDS[name].import_key(public_pem(KEYS[name])), algorithms=list(ALGORITHMS))


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("form", ["PEM bytes", "PEM text", "JWK", "object"])
def test_every_kind_of_key_in_every_form_signs_with_the_algorithm_that_follows_from_it(
    name: str, form: str
) -> None:
    forms = {"PEM bytes": pem(KEYS[name]), "PEM text": pem(KEYS[name]).decode(), "object": KEYS[name]}
    signer = signer_of(jwk(name) if form == "JWK" else forms[form])
    token = checked(signer.sign({"typ": "x"}, {"a": "ä", "b": [1]}), name)
    assert token.header == {"typ": "x", "alg": USUAL[name]}
    assert token.claims == {"a": "ä", "b": [1]}
    assert signer.alg == USUAL[name]


@pytest.mark.parametrize("alg", [name for name in ALGORITHMS if name[:2] in ("RS", "PS")])
def test_an_rsa_key_signs_with_the_algorithm_that_is_asked_for(alg: str) -> None:
    signer = signer_of(pem(RSA), alg=alg)
    assert checked(signer.sign({}, {}), "rsa").header == {"alg": alg}


def test_the_older_forms_of_pem_can_be_read_too() -> None:
    checked(signer_of(pem(RSA, form="TraditionalOpenSSL")).sign({}, {}), "rsa")
    checked(signer_of(b"\n" + pem(P256, form="TraditionalOpenSSL") + b"\n").sign({}, {}), "p256")


def test_the_id_of_the_key_is_in_the_header_where_it_is_known() -> None:
    assert checked(signer_of(P256, kid="k1").sign({}, {}), "p256").header == {"alg": "ES256", "kid": "k1"}
    key = {**jwk("p256"), "kid": "of the JWK"}
    assert checked(signer_of(key).sign({}, {}), "p256").header["kid"] == "of the JWK"
    assert checked(signer_of(key, kid="given").sign({}, {}), "p256").header["kid"] == "given"


def test_the_algorithm_of_a_jwk_counts_unless_another_is_given() -> None:
    key = {**jwk("rsa"), "alg": "PS384"}
    assert signer_of(key).alg == "PS384"
    assert signer_of(key, alg="RS512").alg == "RS512"


def plain(der: bytes) -> bytes:
    """Make of a DER signature what JWS wants: what users of a key service have to do."""
    r, s = decode_dss_signature(der)
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def test_a_function_signs_in_the_place_of_a_key() -> None:
    seen = []

    def sign(data: bytes) -> bytes:
        seen.append(data)
        return plain(P256.sign(data, ec.ECDSA(hashes.SHA256())))

    signer = signer_of(sign, alg="ES256", kid="in the vault")
    text = signer.sign({"typ": "JWT"}, {"a": 1})
    assert checked(text, "p256").header == {"typ": "JWT", "alg": "ES256", "kid": "in the vault"}
    assert seen == [text.rpartition(".")[0].encode()]


def test_what_a_function_returns_is_checked_as_far_as_it_can_be() -> None:
    der = P256.sign(b"", ec.ECDSA(hashes.SHA256()))
    with pytest.raises(UsageError, match="not DER"):
        signer_of(lambda data: der, alg="ES256").sign({}, {})
    for value in ("text", b"", None):
        with pytest.raises(UsageError, match="must return bytes"):
            signer_of(lambda data, value=value: value, alg="RS256").sign({}, {})
    with pytest.raises(UsageError, match="must return bytes"):
        signer_of(lambda data: 5, alg="EdDSA").sign({}, {})  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("alg", ["HS256", "none", "None", "", "ES256K", "es256", "RSA-OAEP"])
def test_no_other_algorithm_is_ever_used(alg: str) -> None:
    with pytest.raises(UsageError, match="must be one of"):
        signer_of(P256, alg=alg)
    if alg:
        with pytest.raises(UsageError, match="alg of the JWK"):
            signer_of({**jwk("p256"), "alg": alg})


@pytest.mark.parametrize(("name", "alg"), [("p256", "ES384"), ("rsa", "ES256"), ("ed25519", "RS256")])
def test_a_key_does_not_sign_with_an_algorithm_that_is_not_its_own(name: str, alg: str) -> None:
    with pytest.raises(UsageError, match=f"not with {alg}"):
        signer_of(KEYS[name], alg=alg).sign({}, {})


REFUSED = {
    "a path": ("/etc/key.pem", "not its path"),
    "nothing": ("", "not its path"),
    "text that is no ASCII": ("ключ", "not its path"),
    "a public key": (public_pem(P256), "no private key"),
    "an encrypted key": (pem(P256, b"secret"), "encrypted"),
    "an encrypted key of the older form": (pem(RSA, b"secret", "TraditionalOpenSSL"), "encrypted"),
    "a symmetric JWK": ({"kty": "oct", "k": "c2VjcmV0"}, "kty RSA, EC or OKP"),
    "a public JWK": ({"kty": "EC", "crv": "P-256", "x": "", "y": ""}, "no member d"),
    "a JWK of another curve": ({"kty": "EC", "crv": "secp256k1", "d": "x"}, "crv P-256"),
    "a number": (5, "not int"),
    "None": (None, "not NoneType"),
    "a function without an algorithm": (lambda data: data, "has to be given"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_never_sign_is_refused_at_once(case: str) -> None:
    key, words = REFUSED[case]
    with pytest.raises(UsageError, match=words):
        signer_of(key)


def test_a_coroutine_function_and_an_empty_id_are_refused_too() -> None:
    async def sign(data: bytes) -> bytes:
        return data

    with pytest.raises(UsageError, match="async def"):
        signer_of(sign, alg="RS256")
    for kid in ("", 5):
        with pytest.raises(UsageError, match="id of a key"):
            signer_of(P256, kid=kid)  # type: ignore[arg-type]


BROKEN = {
    "PEM with nothing in it": b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    "a JWK with half a key": {"kty": "RSA", "d": "AQAB"},
    "a JWK that is no point of the curve": {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "d": "AA"},
    "a short RSA key": rsa.generate_private_key(65537, 1024),
    "a key of another curve": ec.generate_private_key(ec.SECP256K1()),
    "a key of another kind": ed448.Ed448PrivateKey.generate(),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_turns_out_to_be_no_usable_key_is_a_usage_error_at_the_first_signature(case: str) -> None:
    signer = signer_of(BROKEN[case])
    for _ in range(2):
        with pytest.raises(UsageError, match="key"):
            signer.sign({}, {})


@pytest.mark.parametrize("name", KEYS)
def test_no_part_of_the_key_is_shown(name: str) -> None:
    for given in (pem(KEYS[name]), jwk(name)):
        signer = signer_of(given, kid="k1")
        before = repr(signer)
        signer.sign({}, {})
        shown = before + repr(signer) + str(signer)
        assert "k1" in shown
        secrets = [jwk(name)["d"], *pem(KEYS[name]).decode().splitlines()[1:-1]]
        assert not any(secret in shown for secret in secrets)


def test_an_error_about_a_key_does_not_show_it() -> None:
    secret = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49"
    for key in (f"-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----\n", secret):
        with pytest.raises(UsageError) as caught:
            signer_of(key).sign({}, {})
        assert secret not in f"{caught.value!r} {caught.value.__cause__!r}"
    with pytest.raises(UsageError) as caught:
        signer_of({"kty": "EC", "crv": "P-256", "x": secret, "y": secret, "d": secret}).sign({}, {})
    assert secret not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_a_signer_of_text_can_be_sent_to_another_process() -> None:
    signer = pickle.loads(pickle.dumps(signer_of(pem(P256))))
    checked(signer.sign({}, {}), "p256")


def test_an_assertion_says_what_the_specification_asks_for() -> None:
    token = checked(client_assertion("my client", "https://as.example", signer_of(RSA), NOW), "rsa")
    assert token.header == {"typ": "JWT", "alg": "RS256"}
    jti = token.claims.pop("jti")
    assert token.claims == {
        "iss": "my client",
        "sub": "my client",
        "aud": "https://as.example",
        "iat": 1_800_000_000,
        "exp": 1_800_000_300,
    }
    assert isinstance(jti, str)
    assert len(jti) >= 22


def test_no_two_assertions_have_the_same_name() -> None:
    tokens = [client_assertion("c", "https://as.example", signer_of(ED25519), NOW) for _ in range(50)]
    assert len({checked(token, "ed25519").claims["jti"] for token in tokens}) == 50


def test_the_signature_of_the_rfc_comes_out() -> None:
    # RFC 8037, appendix A: key, text and signature.
    key = {
        "kty": "OKP",
        "crv": "Ed25519",
        "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    }
    text = b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"
    signature = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
    signer: Any = signer_of(key)
    assert base64url(signer._signature(text)) == signature


LAZY = """
import sys
from mcp_sync.auth import _signing, _dpop
pem, jwk = sys.argv[1], {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "d": "AA"}
by_function = _signing.signer_of(lambda data: b"x", alg="RS256")
signers = [_signing.signer_of(pem), _signing.signer_of(jwk), by_function]
prover = _dpop.Prover(jwk)
prover.note_nonce("https://mcp.example/", {"dpop-nonce": "n"})
repr(signers)
by_function.sign({}, {})
assert not {"jwt", "cryptography"} & set(sys.modules), "loaded too early"
signers[0].sign({}, {})
assert {"jwt", "cryptography"} <= set(sys.modules)
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, pem(P256).decode()],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_libraries_are_loaded_by_the_first_signature_that_needs_them() -> None:
    done = run(LAZY)
    assert done.returncode == 0, done.stderr


MISSING = """
import sys
from mcp_sync.auth import _signing, _dpop
from mcp_sync.errors import UsageError
sys.modules[NAME] = None
for act in (lambda: _signing.signer_of(sys.argv[1]).sign({}, {}), _dpop.new_key):
    try:
        act()
    except UsageError as error:
        print(error)
"""


@pytest.mark.parametrize(("name", "count"), [("jwt", 1), ("cryptography", 2)])
def test_a_missing_package_is_named_with_the_way_to_get_it(name: str, count: int) -> None:
    done = run(MISSING.replace("NAME", json.dumps(name)))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == count
    assert all("pip install 'mcp-sync-client[jwt]'" in line for line in lines)

"""Proofs of possession, against the examples of RFC 9449 and checked with another implementation."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey
from requests.structures import CaseInsensitiveDict

from mcp_sync.auth._dpop import Prover, new_key, public_key, thumbprint, token_hash
from mcp_sync.errors import UsageError

# RFC 9449: the key of figure 2 with its thumbprint (figure 9), the token of figure 12 with its hash.
RFC_KEY = {
    "kty": "EC",
    "x": "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs",
    "y": "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA",
    "crv": "P-256",
}
RFC_THUMBPRINT = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"
RFC_TOKEN = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
RFC_HASH = "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"
# RFC 7638, section 3.1.
RSA_KEY = {
    "kty": "RSA",
    "n": (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZ"
        "CiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJ"
        "ZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBn"
        "iIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
    ),
    "e": "AQAB",
    "alg": "RS256",
    "kid": "2011-04-29",
}
RSA_THUMBPRINT = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
# RFC 8037, appendix A.3.
OKP_KEY = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
OKP_THUMBPRINT = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"

KEY = new_key()
AS = "https://as.example/token"
MCP = "https://mcp.example/mcp"


def prover(**given: Any) -> Prover:
    return Prover(KEY, clock=lambda: 1_800_000_000.9, **given)


def checked(proof: str) -> jwt.Token:
    """Check a proof with the key in its own header, as a server does, and return it."""
    return jwt.decode(proof, lambda token: ECKey.import_key(token.headers()["jwk"]), algorithms=["ES256"])


def claims(proof: str) -> dict[str, Any]:
    return dict(checked(proof).claims)


def test_a_thumbprint_is_that_of_the_rfc() -> None:
    assert thumbprint(RFC_KEY) == RFC_THUMBPRINT
    assert thumbprint(RSA_KEY) == RSA_THUMBPRINT
    assert thumbprint(OKP_KEY) == OKP_THUMBPRINT


def test_a_thumbprint_is_that_of_another_implementation() -> None:
    for kind, size in ((ECKey, "P-384"), (ECKey, "P-521"), (RSAKey, 2048), (OKPKey, "Ed25519")):
        key = kind.generate_key(size)  # type: ignore[attr-defined]
        assert thumbprint(key.as_dict(private=True)) == key.thumbprint()


def test_the_hash_of_a_token_is_that_of_the_rfc() -> None:
    assert token_hash(RFC_TOKEN) == RFC_HASH


def test_a_new_key_is_a_private_key_that_no_other_is() -> None:
    keys = [new_key() for _ in range(20)]
    assert len({key["d"] for key in keys}) == len({thumbprint(key) for key in keys}) == 20
    for key in keys:
        assert (key["kty"], key["crv"]) == ("EC", "P-256")
        assert ECKey.import_key(key).is_private


def test_the_numbers_of_a_key_have_a_fixed_size_however_small_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ec, "generate_private_key", lambda curve: ec.derive_private_key(1, curve))
    key = new_key()
    assert key["d"] == "A" * 42 + "E"
    assert [len(key[name]) for name in "xyd"] == [43, 43, 43]
    checked(Prover(key).proof("POST", AS))


def test_a_proof_has_what_the_specification_asks_for_and_nothing_private() -> None:
    token = checked(prover().proof("POST", AS))
    assert token.header == {"typ": "dpop+jwt", "alg": "ES256", "jwk": public_key(KEY)}
    assert "d" not in token.header["jwk"]
    jti = token.claims.pop("jti")
    assert token.claims == {"htm": "POST", "htu": AS, "iat": 1_800_000_000}
    assert isinstance(jti, str)
    assert len(jti) >= 22


def test_the_key_of_a_proof_is_the_one_whose_thumbprint_the_prover_names() -> None:
    assert thumbprint(checked(prover().proof("GET", MCP)).header["jwk"]) == prover().thumbprint
    assert prover().thumbprint == thumbprint(KEY)


def test_with_a_token_the_proof_holds_its_hash() -> None:
    assert claims(prover().proof("POST", MCP, access_token=RFC_TOKEN))["ath"] == RFC_HASH
    assert "ath" not in claims(prover().proof("POST", MCP))


@pytest.mark.parametrize(
    ("url", "htu"),
    [
        ("https://mcp.example/mcp?session=1&b=2#part", "https://mcp.example/mcp"),
        ("https://mcp.example/mcp#part", "https://mcp.example/mcp"),
        ("https://mcp.example", "https://mcp.example/"),
        ("https://mcp.example?a=1", "https://mcp.example/"),
        ("https://Mcp.Example:8443/a%20b/", "https://Mcp.Example:8443/a%20b/"),
        ("https://mcp.example:443/a//b;c=d", "https://mcp.example:443/a//b;c=d"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp"),
        ("https://user:secret@mcp.example/mcp", "https://mcp.example/mcp"),
    ],
)
def test_a_proof_names_the_url_as_it_is_sent_without_query_and_fragment(url: str, htu: str) -> None:
    assert claims(prover().proof("POST", url))["htu"] == htu


def test_no_two_proofs_are_the_same() -> None:
    one = prover()
    proofs = [one.proof("POST", MCP) for _ in range(50)]
    assert len({claims(proof)["jti"] for proof in proofs}) == 50


def test_the_nonce_of_a_response_is_in_the_next_proofs_for_that_server_alone() -> None:
    one = prover()
    assert one.nonce_for(AS) is None
    assert "nonce" not in claims(one.proof("POST", AS))
    assert one.note_nonce(AS, {"dpop-nonce": "for-the-as"})
    assert one.nonce_for(AS) == "for-the-as"
    for _ in range(2):
        assert claims(one.proof("POST", AS))["nonce"] == "for-the-as"
    assert "nonce" not in claims(one.proof("POST", MCP, access_token="t"))
    assert one.note_nonce(MCP, {"dpop-nonce": "rs"})
    assert claims(one.proof("POST", MCP, access_token="t"))["nonce"] == "rs"
    assert claims(one.proof("POST", AS))["nonce"] == "for-the-as"


def test_servers_of_one_origin_do_not_get_each_others_nonces() -> None:
    one = prover()
    one.note_nonce("https://both.example/token", {"dpop-nonce": "as"})
    one.note_nonce("https://both.example/mcp?session=1", {"dpop-nonce": "rs"})
    assert one.nonce_for("https://both.example/token") == "as"
    assert one.nonce_for("https://both.example/mcp#x") == "rs"


def test_a_newer_nonce_takes_the_place_of_an_older_one() -> None:
    one = prover()
    for nonce in ("n1", "n2", "n2", "n1"):
        assert one.note_nonce(AS, {"dpop-nonce": nonce})
        assert claims(one.proof("POST", AS))["nonce"] == nonce
    assert not one.note_nonce(AS, {})
    assert one.nonce_for(AS) == "n1"


def test_a_nonce_that_is_given_counts() -> None:
    one = prover()
    one.note_nonce(AS, {"dpop-nonce": "kept"})
    assert claims(one.proof("POST", AS, nonce="given"))["nonce"] == "given"
    assert one.nonce_for(AS) == "kept"


def test_the_names_of_headers_need_not_be_in_lower_case_where_the_mapping_does_not_mind() -> None:
    one = prover()
    assert one.note_nonce(MCP, CaseInsensitiveDict({"DPoP-Nonce": "n"}))
    assert one.nonce_for(MCP) == "n"


@pytest.mark.parametrize("nonce", ["", "a b", "a, b", 'a"b', "a\\b", "ä", "a\n", "x" * 1025])
def test_what_cannot_be_a_nonce_is_left_alone(nonce: str) -> None:
    one = prover()
    assert not one.note_nonce(AS, {"dpop-nonce": nonce})
    assert one.nonce_for(AS) is None


def test_every_character_that_a_nonce_may_have_is_taken() -> None:
    nonce = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"\\')
    one = prover()
    assert one.note_nonce(AS, {"dpop-nonce": nonce})
    assert claims(one.proof("POST", AS))["nonce"] == nonce


def test_shared_nonces_outlive_the_prover() -> None:
    nonces: dict[str, str] = {}
    prover(nonces=nonces).note_nonce(AS, {"dpop-nonce": "n"})
    assert claims(prover(nonces=nonces).proof("POST", AS))["nonce"] == "n"


def test_nonces_do_not_pile_up() -> None:
    nonces: dict[str, str] = {}
    one = prover(nonces=nonces)
    for number in range(1000):
        url = f"https://mcp.example/{number}"
        one.note_nonce(url, {"dpop-nonce": "n"})
        assert one.nonce_for(url) == "n"
    assert len(nonces) <= 64


def test_a_key_that_was_kept_makes_the_same_proofs() -> None:
    kept = json.loads(json.dumps(KEY))
    assert checked(Prover(kept).proof("POST", AS)).header["jwk"] == public_key(KEY)


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
def test_other_kinds_of_keys_work_too() -> None:
    for kind, size, alg in ((ECKey, "P-384", "ES384"), (OKPKey, "Ed25519", "EdDSA")):
        key = kind.generate_key(size)  # type: ignore[attr-defined]
        proof = Prover({**key.as_dict(private=True), "kid": "k"}).proof("POST", AS)
        token = jwt.decode(proof, key, algorithms=[alg])
        assert token.header == {"typ": "dpop+jwt", "alg": alg, "jwk": public_key(key.as_dict())}


@pytest.mark.parametrize(
    "key",
    [
        {},
        {"kty": "oct", "k": "c2VjcmV0"},
        {**KEY, "x": None},
        {**KEY, "kty": "EC2"},
        RFC_KEY,
        {**KEY, "alg": "HS256"},
        {**KEY, "crv": "secp256k1"},
    ],
)
def test_what_is_no_private_key_is_refused_at_once(key: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Prover(key)


def test_nothing_private_is_shown() -> None:
    one = prover()
    one.proof("POST", AS)
    assert KEY["d"] not in repr(one) + str(one) + repr(vars(one)["_signer"])
    assert one.thumbprint in repr(one)


def test_many_threads_make_proofs_at_once() -> None:
    one, start, proofs = prover(), threading.Barrier(8), []

    def make() -> None:
        start.wait()
        for number in range(20):
            one.note_nonce(MCP, {"dpop-nonce": f"n{number}"})
            proofs.append(one.proof("POST", MCP, access_token="t"))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = [claims(proof) for proof in proofs]
    assert len({each["jti"] for each in made}) == 160
    assert all(re.fullmatch(r"n\d+", each["nonce"]) for each in made)

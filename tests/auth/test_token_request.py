"""Requests to the token endpoint."""

from __future__ import annotations

import base64
import html
import json
import logging
import pickle
import re
from urllib.parse import quote, quote_plus, unquote_plus

import pytest

from mcp_sync.auth._records import Grant
from mcp_sync.auth._token_request import ask_token, authentication_method, grant_of
from mcp_sync.errors import AccessDenied, AuthError, TokenRequestFailed, UsageError

from .conversations import ISSUER, NOW, Outcome, answer, client, lead, server

TOKEN = ISSUER + "/token"
GRANTED = {"access_token": "t0ken", "token_type": "Bearer"}
FORM = {"grant_type": "authorization_code", "code": "c0de-of-the-user", "code_verifier": "ver1fier-of-it"}


class Signer:
    """Signs by counting."""

    alg = "ES256"

    def __init__(self):
        self.claims = []

    def sign(self, header, claims):
        self.claims.append(claims)
        return f"assertion-{len(self.claims)}"


class Prover:
    """Proves by writing down what for."""

    def __init__(self):
        self.nonces = {}

    def proof(self, method, url, nonce=None, access_token=None):
        return f"proof-of {method} {url} {nonce}"

    def note_nonce(self, url, headers):
        if "dpop-nonce" not in headers:
            return False
        self.nonces[url] = headers["dpop-nonce"]
        return True

    def nonce_for(self, url):
        return self.nonces.get(url)


def ask(replies, who=None, found=None, **values) -> Outcome:
    conversation = ask_token(
        found if found is not None else server(),
        who if who is not None else client(),
        FORM,
        now=NOW,
        purpose="token for the code",
        **values,
    )
    return lead(conversation, {TOKEN: replies})


def refused(error, status=400, **values):
    return answer({"error": error, **values}, status)


def credentials(step) -> list[str]:
    scheme, _, value = step.headers["Authorization"].partition(" ")
    assert scheme == "Basic"
    return [unquote_plus(part) for part in base64.b64decode(value).decode().split(":")]


# Authentication of the client


@pytest.mark.parametrize(
    ("method", "secret", "offered", "expected"),
    [
        ("client_secret_post", "s3cret", ["client_secret_basic"], "client_secret_post"),
        ("client_secret_basic", "s3cret", ["client_secret_post"], "client_secret_basic"),
        ("none", "s3cret", ["client_secret_basic"], "none"),
        ("private_key_jwt", None, None, "private_key_jwt"),
        (None, "s3cret", ["client_secret_post"], "client_secret_post"),
        (None, "s3cret", ["client_secret_post", "client_secret_basic"], "client_secret_basic"),
        (None, "s3cret", ["none"], "none"),
        (None, "s3cret", ["tls_client_auth"], "client_secret_basic"),
        (None, "s3cret", None, "client_secret_basic"),
        (None, "s3cret", "garbage", "client_secret_basic"),
        (None, None, ["client_secret_basic"], "none"),
        (None, None, None, "none"),
        ("client_secret_basic", None, None, "none"),
        ("tls_client_auth", "s3cret", None, "client_secret_basic"),
    ],
)
def test_the_method_is_that_of_the_registration_or_else_one_of_the_server(method, secret, offered, expected):
    found = server(token_endpoint_auth_methods_supported=offered)
    assert authentication_method(client(method=method, client_secret=secret), found) == expected


def test_a_public_client_sends_its_name_only():
    done = ask(GRANTED)
    (step,) = done.asked
    assert done.value == GRANTED
    assert (step.method, step.url) == ("POST", TOKEN)
    assert step.form == {**FORM, "client_id": "me"}
    assert step.headers == {"Accept": "application/json"}


def test_basic_encodes_name_and_secret_and_sends_neither_in_the_body():
    (step,) = ask(GRANTED, client(client_id="client id!", client_secret="se:cr%t+é")).asked
    assert credentials(step) == ["client id!", "se:cr%t+é"]
    assert base64.b64decode(step.headers["Authorization"][6:]) == b"client%20id%21:se%3Acr%25t%2B%C3%A9"
    assert step.form == FORM


def test_post_sends_both_in_the_body_and_nothing_in_the_header():
    (step,) = ask(GRANTED, client(client_secret="s3cret", method="client_secret_post")).asked
    assert step.form == {**FORM, "client_id": "me", "client_secret": "s3cret"}
    assert "Authorization" not in step.headers


def test_a_key_signs_for_the_issuer():
    signer = Signer()
    (step,) = ask(GRANTED, client(method="private_key_jwt"), signer=signer).asked
    assert step.form == {
        **FORM,
        "client_id": "me",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": "assertion-1",
    }
    assert signer.claims[0]["aud"] == ISSUER
    assert signer.claims[0]["iss"] == signer.claims[0]["sub"] == "me"
    assert signer.claims[0]["exp"] > NOW


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_secret_that_cannot_be_sent_is_not_shown(method):
    done = ask([], client(client_secret="canary-secret\udcff", method=method))
    assert done.asked == []
    assert isinstance(done.value, AuthError)
    assert "the client_secret for a token for the code cannot be sent" in str(done.value)
    assert "canary" not in repr(done.value) + repr(done.value.__cause__) + repr(done.value.__context__)
    assert b"canary" not in pickle.dumps(done.value)


def test_without_a_key_there_is_no_signature():
    assert isinstance(ask(GRANTED, client(method="private_key_jwt")).value, UsageError)


# The other method


@pytest.mark.parametrize("error", ["invalid_client", "invalid_request"])
@pytest.mark.parametrize(("method", "status"), [(None, 401), ("client_secret_basic", 400)])
def test_a_server_that_does_not_take_basic_gets_the_secret_in_the_body_once(error, method, status):
    done = ask([refused(error, status), answer(GRANTED)], client(client_secret="s3cret", method=method))
    first, second = done.asked
    assert done.value == GRANTED
    assert "Authorization" in first.headers
    assert "client_secret" not in first.form
    assert "Authorization" not in second.headers
    assert second.form == {**FORM, "client_id": "me", "client_secret": "s3cret"}


@pytest.mark.parametrize("method", ["client_secret_post", "none"])
def test_a_server_that_takes_neither_body_nor_nothing_gets_basic_once(method):
    replies = [refused("invalid_client", 401), answer(GRANTED)]
    done = ask(replies, client(client_secret="s3cret", method=method))
    assert done.value == GRANTED
    assert credentials(done.asked[1]) == ["me", "s3cret"]
    assert done.asked[1].form == FORM


@pytest.mark.parametrize(
    ("error", "words"),
    [("unauthorized_client", "Missing client_id"), ("invalid_client", "client_id is required")],
)
def test_a_server_that_misses_the_name_beside_basic_gets_it_there_once(error, words):
    """As that of the official Python SDK does, 1.x and 2.x."""
    replies = [refused(error, 401, error_description=words), answer(GRANTED)]
    done = ask(replies, client(client_secret="s3cret"))
    first, second = done.asked
    assert done.value == GRANTED
    assert credentials(first) == credentials(second) == ["me", "s3cret"]
    assert (first.form, second.form) == (FORM, {**FORM, "client_id": "me"})


NAMELESS = refused("unauthorized_client", 401, error_description="Missing client_id")


def test_a_server_that_misses_a_secret_in_the_body_gets_an_empty_one_and_the_real_one_stays_in_the_header():
    """As the revocation of the official Python SDK does, 1.x and 2.x."""
    misses = refused("invalid_request", 400, error_description="client_secret: Field required")
    done = ask([NAMELESS, misses, answer(GRANTED)], client(client_secret="s3cret"))
    assert done.value == GRANTED
    assert credentials(done.asked[2]) == ["me", "s3cret"]
    assert done.asked[2].form == {**FORM, "client_id": "me", "client_secret": ""}


def test_a_server_that_knows_its_client_by_the_body_alone_gets_both_there_in_the_end():
    needs = refused("unauthorized_client", 401, error_description="Client secret is required")
    done = ask([NAMELESS, needs, answer(GRANTED)], client(client_secret="s3cret"))
    assert done.value == GRANTED
    assert "Authorization" not in done.asked[2].headers
    assert done.asked[2].form == {**FORM, "client_id": "me", "client_secret": "s3cret"}


def test_the_last_of_three_refusals_counts():
    replies = [
        NAMELESS,
        refused("invalid_client", 401),
        refused("invalid_client", 401, error_description="no such client"),
    ]
    done = ask(replies, client(client_secret="s3cret"))
    assert "no such client" in str(done.value)
    assert len(done.asked) == 3


@pytest.mark.parametrize(
    ("replies", "method"),
    [
        ([refused("invalid_client", 401), answer(GRANTED)], "client_secret_post"),
        ([NAMELESS, answer(GRANTED)], "client_secret_basic with client_id in the body"),
    ],
)
def test_what_a_server_takes_is_learned_and_comes_first_the_next_time(replies, method):
    done = ask(replies, client(client_secret="s3cret"))
    (learned,) = done.learned
    assert learned == client(client_secret="s3cret", method=method)
    again = ask([answer(GRANTED)], learned)
    assert (again.value, again.learned) == (GRANTED, [])
    assert again.asked[0].form == done.asked[-1].form
    assert again.asked[0].headers == done.asked[-1].headers


def test_what_comes_to_nothing_teaches_nothing():
    assert ask([refused("invalid_client", 401)] * 2, client(client_secret="s3cret")).learned == []
    assert ask(GRANTED, client(client_secret="s3cret")).learned == []


def test_there_is_no_third_attempt():
    done = ask([refused("invalid_client", 401)] * 2, client(client_secret="s3cret"))
    assert done.value.error == "invalid_client"
    assert len(done.asked) == 2


@pytest.mark.parametrize("who", [client(), client(method="private_key_jwt")])
def test_without_a_secret_there_is_no_second_attempt(who):
    done = ask([refused("invalid_client", 401)], who, signer=Signer())
    assert done.value.error == "invalid_client"
    assert len(done.asked) == 1


@pytest.mark.parametrize("error", ["invalid_grant", "unauthorized_client", "invalid_scope"])
def test_other_refusals_are_no_reason_to_try_another_method(error):
    done = ask([refused(error)], client(client_secret="s3cret"))
    assert done.value.error == error
    assert len(done.asked) == 1


def test_what_the_second_attempt_says_of_the_grant_counts():
    done = ask([refused("invalid_client", 401), refused("invalid_grant")], client(client_secret="s3cret"))
    assert done.value.error == "invalid_grant"


def test_what_the_second_attempt_says_of_the_client_does_not_hide_the_first():
    replies = [refused("invalid_request", 400, error_description="no code"), refused("invalid_client", 401)]
    done = ask(replies, client(client_secret="s3cret"))
    assert "invalid_request: no code" in str(done.value)


# Proof of possession


def test_a_proof_goes_along():
    prover = Prover()
    (step,) = ask(GRANTED, prover=prover).asked
    assert step.headers["DPoP"] == f"proof-of POST {TOKEN} None"


def test_a_nonce_is_used_once_more_and_kept():
    prover, signer = Prover(), Signer()
    challenge = answer({"error": "use_dpop_nonce"}, 400, {"dpop-nonce": "n1"})
    granted = answer(GRANTED, headers={"dpop-nonce": "n2"})
    done = ask([challenge, granted], client(method="private_key_jwt"), prover=prover, signer=signer)
    assert done.value == GRANTED
    assert [step.headers["DPoP"] for step in done.asked] == [
        f"proof-of POST {TOKEN} {n}" for n in (None, "n1")
    ]
    # An assertion serves once (RFC 7523, section 3).
    assert [step.form["client_assertion"] for step in done.asked] == ["assertion-1", "assertion-2"]
    assert prover.nonces == {TOKEN: "n2"}


def test_a_server_that_is_never_content_with_a_nonce_is_asked_twice():
    challenge = answer({"error": "use_dpop_nonce"}, 400, {"dpop-nonce": "n1"})
    done = ask([challenge, challenge], prover=Prover())
    assert done.value.error == "use_dpop_nonce"
    assert len(done.asked) == 2


def test_a_demand_for_a_nonce_without_one_is_a_refusal():
    assert len(ask([refused("use_dpop_nonce")], prover=Prover()).asked) == 1


# Refusals


@pytest.mark.parametrize(
    ("reply", "error", "status", "transient"),
    [
        (refused("invalid_grant"), "invalid_grant", 400, False),
        (refused("invalid_client", 401), "invalid_client", 401, False),
        (answer({"error": "bad_verification_code"}, 200), "bad_verification_code", 200, False),
        (refused("temporarily_unavailable"), "temporarily_unavailable", 400, True),
        (refused("server_error"), "server_error", 400, True),
        (refused("authorization_pending"), "authorization_pending", 400, True),
        (refused("slow_down"), "slow_down", 400, True),
        (answer(b"<html>", 503), "", 503, True),
        (answer({"error": "invalid_grant"}, 500), "invalid_grant", 500, True),
        (answer(None, 429), "", 429, True),
        (answer(b"<html>log in to the wifi", 200), "", 200, True),
        (answer(["x"], 200), "", 200, True),
        (answer({}, 200), "", 200, False),
        (answer({"access_token": ""}, 200), "", 200, False),
        (answer({"access_token": 7}, 200), "", 200, False),
        (answer({"access_token": "x"}, 400), "", 400, False),
        (answer(b"<html>", 404), "", 404, False),
        (answer({"error": 7}, 400), "", 400, False),
        (answer({"error": {"code": "x"}}, 200), "", 200, False),
        (answer(None, 302), "", 302, False),
    ],
)
def test_a_refusal_says_whether_trying_again_may_help(reply, error, status, transient):
    failed = ask([reply]).value
    assert type(failed) is TokenRequestFailed
    assert (failed.error, failed.status, failed.transient) == (error, status, transient)
    assert failed.url == TOKEN
    assert f"{ISSUER} gave no token for the code" in str(failed)
    assert str(status) in str(failed)


def test_a_user_who_refuses_is_told_apart():
    failed = ask([refused("access_denied", error_description="not today")]).value
    assert type(failed) is AccessDenied
    assert failed.error == "access_denied"
    assert "not today" in str(failed)


def test_a_failure_on_the_way_is_passed_on():
    error = TokenRequestFailed("no route", transient=True)
    assert ask([error]).value is error


def test_words_of_the_server_are_shortened_and_made_harmless():
    words = "a\x00b\x1b[31m\r\nLocation: x\u2028y\u202e" + "z" * 5000
    failed = ask([refused("invalid_grant", error_description=words)]).value
    assert len(str(failed)) < 400
    assert str(failed).isprintable()
    assert "a b [31m Location: x y zzz" in str(failed)


@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
def test_no_word_of_a_server_brings_a_secret_back(method):
    who = client(client_secret="s3cret%/of", method=method)
    header = base64.b64encode(b"me:s3cret%25%2Fof").decode()
    echo = f"c0de-of-the-user ver1fier-of-it s3cret%/of s3cret%25%2Fof {header} proof-of authorization_code"
    reply = refused("invalid_grant c0de-of-the-user", error_description=echo, error_uri="c0de-of-the-user")
    failed = ask([reply, reply], who, prover=Prover()).value
    assert "authorization_code" in str(failed)
    for secret in ("c0de-of", "ver1fier", "s3cret", header):
        assert secret not in str(failed)
        assert secret not in repr(failed.__dict__)
        assert secret.encode() not in pickle.dumps(failed)


SECRET = 'pa/ss+w=rd & "quoted" <ü>'


def lower(text: str) -> str:
    return re.sub("%..", lambda found: found.group().lower(), text)


ECHOES = {
    "plain": lambda text: text,
    "form": quote_plus,
    "percent": lambda text: quote(text, safe=""),
    "percent, but the slash": quote,
    "lower percent": lambda text: lower(quote(text, safe="")),
    "lower form": lambda text: lower(quote_plus(text)),
    "all percent": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "twice percent": lambda text: quote(quote(text, safe=""), safe=""),
    "html": html.escape,
    "html with numbers": lambda text: "".join(f"&#{ord(each)};" for each in text),
    "json": lambda text: json.dumps(text)[1:-1],
    "json with escaped slashes": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "json with numbers": lambda text: "".join(f"\\u{ord(each):04x}" for each in text),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 of more": lambda text: base64.urlsafe_b64encode(f"code={text}&x=1".encode()).decode().rstrip("="),
    "base64 of a form": lambda text: base64.b64encode(quote_plus(text).encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "cut off": lambda text: text[:18],
    "cut off form": lambda text: quote_plus(text)[:25],
}


def traces(secret: str) -> list[str]:
    """Return what would give a secret away, in any spelling: its letters in a row, and their codes."""
    return [
        secret[:12],
        quote(secret, safe="")[:12],
        secret.encode().hex()[:16],
        base64.b64encode(secret.encode()).decode()[:12],
    ]


@pytest.mark.parametrize("echo", ECHOES)
def test_no_spelling_brings_a_secret_back(echo, caplog):
    shown = ECHOES[echo](SECRET)
    words = f"the value {shown} is wrong"
    caplog.set_level(logging.DEBUG)
    for form, who in (
        ({**FORM, "code": SECRET}, client()),
        ({"grant_type": "refresh_token", "refresh_token": SECRET}, client()),
        ({"grant_type": "x", "assertion": SECRET, "code_verifier": SECRET}, client()),
        (FORM, client(client_secret=SECRET, method="client_secret_post")),
    ):
        reply = refused("invalid_grant", error_description=words)
        failed = lead(ask_token(server(), who, form, now=NOW, purpose="token"), {TOKEN: reply}).value
        told = str(failed) + repr(failed.__dict__) + caplog.text
        assert "the value" in told or "(secret)" in told
        assert shown not in told
        assert not [trace for trace in traces(SECRET) if trace in told]


def test_what_comes_in_place_of_a_lifetime_is_not_logged(caplog):
    granted(expires_in="c0de-of-the-user")
    assert "no number" in caplog.text
    assert "c0de" not in caplog.text


def test_requests_show_no_secret():
    (step,) = ask(GRANTED, client(client_secret="s3cret")).asked
    assert "c0de" not in repr(step)
    assert "Basic" not in repr(step)


def test_a_server_without_a_safe_endpoint_gets_nothing():
    for url in (None, "http://as.example/token"):
        done = ask([], found=server(token_endpoint=url))
        assert isinstance(done.value, AuthError)
        assert "token_endpoint" in str(done.value)
        assert done.asked == []


# Grants


def granted(old=None, requested="read", dpop_key=None, **values) -> Grant:
    return grant_of(
        {**GRANTED, **values},
        issuer=ISSUER,
        resource="https://h.example/mcp",
        client_id="me",
        requested=requested,
        now=NOW,
        old=old,
        dpop_key=dpop_key,
    )


OLD = Grant(ISSUER, None, "me", "old", refresh_token="r0", scope="read write", requested="read write admin")


def test_a_grant_holds_what_was_given():
    assert granted(expires_in=3600, refresh_token="r1", scope="read") == Grant(
        ISSUER,
        "https://h.example/mcp",
        "me",
        "t0ken",
        "Bearer",
        NOW + 3600,
        "r1",
        "read",
        "read",
    )


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("5250", 5250),
        (3600.0, 3600),
        ("3600.5", 3600.5),
        (" 60 ", 60),
        (0, 0),
        ("0", 0),
        (-1, 0),
        ("-1", 0),
        (None, None),
    ],
)
def test_the_lifetime_is_understood_in_odd_forms(given, seconds, caplog):
    expected = None if seconds is None else NOW + seconds
    assert granted(expires_in=given).expires_at == expected
    assert caplog.records == []


@pytest.mark.parametrize(
    "given",
    [
        "3600abc",
        "",
        "soon",
        True,
        [],
        {"x": 1},
        float("nan"),
        float("inf"),
        10**400,
        "9" * 400,
        "1e400",
        "1_0",
    ],
)
def test_a_lifetime_that_is_garbage_counts_as_none_with_a_warning(given, caplog):
    caplog.set_level(logging.WARNING, "mcp_sync.auth")
    assert granted(expires_in=given).expires_at is None
    (record,) = caplog.records
    assert "expires_in" in record.getMessage()
    assert len(record.getMessage()) < 400
    assert "t0ken" not in record.getMessage()


def test_without_a_lifetime_the_end_is_not_known():
    assert granted().expires_at is None


@pytest.mark.parametrize("given", [{}, {"refresh_token": ""}, {"refresh_token": None}, {"refresh_token": 7}])
def test_a_refresh_token_that_is_left_out_stays(given):
    assert granted(OLD, **given).refresh_token == "r0"
    assert granted(None, **given).refresh_token is None


def test_a_new_refresh_token_replaces_the_old():
    assert granted(OLD, refresh_token="r1").refresh_token == "r1"


@pytest.mark.parametrize("given", [{}, {"scope": ""}, {"scope": None}, {"scope": " "}, {"scope": 7}])
def test_a_scope_that_is_left_out_stays(given):
    assert granted(OLD, **given).scope == "read write"
    assert granted(None, **given).scope is None


def test_a_new_scope_replaces_the_old():
    assert granted(OLD, scope="read").scope == "read"
    assert granted(OLD, scope=["read", "list"]).scope == "read list"


def test_what_was_asked_for_is_kept():
    assert granted(OLD, requested=None).requested == "read write admin"
    assert granted(OLD, requested="x").requested == "x"


@pytest.mark.parametrize("given", ["Bearer", "bearer", "BEARER", None, ""])
def test_the_type_is_written_in_one_way(given):
    assert granted(token_type=given).token_type == "Bearer"


def test_a_bound_token_keeps_its_key():
    key = {"kty": "EC"}
    assert granted(token_type="dpop", dpop_key=key).token_type == "DPoP"
    assert granted(token_type="DPoP", dpop_key=key).dpop_key == key
    # The refresh token of a public client is bound even where the access token is not (RFC 9449, section 5).
    assert granted(token_type="Bearer", dpop_key=key).dpop_key == key


@pytest.mark.parametrize(
    "values",
    [
        {"token_type": "mac"},
        {"token_type": "N_A"},
        {"token_type": 7},
        {"token_type": "DPoP"},
        {"access_token": "a b"},
        {"access_token": "a\r\nX: y"},
        {"access_token": "é"},
        {"access_token": ""},
        {"access_token": None},
    ],
)
def test_a_token_that_cannot_be_presented_is_refused(values):
    with pytest.raises(TokenRequestFailed) as caught:
        granted(**values)
    assert ISSUER in str(caught.value)
    assert "t0ken" not in str(caught.value)


def test_a_grant_shows_no_secret():
    grant = granted(refresh_token="r1-secret", dpop_key={"d": "secret"}, token_type="DPoP")
    assert "t0ken" not in repr(grant)
    assert "secret" not in repr(grant)

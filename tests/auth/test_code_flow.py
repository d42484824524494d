"""The authorization code flow, from the URL for the user to the grant."""

from __future__ import annotations

import base64
import hashlib
import json
import pickle
import re
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest

from mcp_sync.auth._code_flow import begin, check_callback, redeem
from mcp_sync.auth._granted import refresh
from mcp_sync.auth._pkce import challenge_of, new_state, new_verifier
from mcp_sync.auth._reading import read_record
from mcp_sync.auth._records import Grant, Pending, ServerRecord
from mcp_sync.errors import AccessDenied, AuthError, IssuerMismatch, TokenRequestFailed, UsageError

from .conversations import ISSUER, METADATA, NOW, SERVER, answer, client, lead, server

CALLBACK = "http://127.0.0.1:4000/callback"
TOKEN = ISSUER + "/token"
GRANTED = {"access_token": "t0ken", "token_type": "Bearer", "expires_in": 60}


def start(found=None, who=None, scope="read", redirect_uri=CALLBACK) -> Pending:
    return begin(
        found if found is not None else server(),
        who if who is not None else client(),
        server=SERVER,
        principal="alice",
        redirect_uri=redirect_uri,
        scope=scope,
        now=NOW,
    )


def query(pending: Pending) -> dict[str, str]:
    pairs = parse_qsl(urlsplit(pending.url).query, strict_parsing=True, keep_blank_values=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


# PKCE


def test_the_challenge_is_that_of_the_rfc():
    assert (
        challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
        == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )


def test_verifiers_and_states_are_new_each_time_and_long_enough():
    values = {make() for make in (new_verifier, new_state) for _ in range(100)}
    assert len(values) == 200
    assert all(re.fullmatch(r"[A-Za-z0-9\-_]{43}", value) for value in values)


@pytest.mark.parametrize("methods", [None, [], ["plain"], "S256", {"S256": True}])
def test_without_s256_in_its_metadata_a_server_is_not_asked(methods):
    with pytest.raises(AuthError, match="code_challenge_methods_supported") as caught:
        start(server(code_challenge_methods_supported=methods))
    assert caught.value.url == ISSUER


# The URL for the user


def test_the_url_has_all_that_the_specification_asks_for():
    pending = start()
    params = query(pending)
    digest = hashlib.sha256(pending.verifier.encode()).digest()
    assert pending.url.startswith(ISSUER + "/authorize?")
    assert params == {
        "response_type": "code",
        "client_id": "me",
        "redirect_uri": CALLBACK,
        "state": pending.state,
        "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
        "code_challenge_method": "S256",
        "resource": SERVER,
        "scope": "read",
    }


@pytest.mark.parametrize("resource", ["https://H.Example", "https://h.example/", "https://h.example:443/mcp"])
def test_the_resource_is_sent_letter_by_letter_each_time(resource):
    found = ServerRecord(ISSUER, resource, METADATA)
    pending = start(found)
    assert query(pending)["resource"] == resource
    redeemed = lead(redeem(pending, "c0de", now=NOW), {TOKEN: {**GRANTED, "refresh_token": "r1"}})
    assert redeemed.asked[0].form["resource"] == resource
    assert redeemed.value.resource == resource
    # Even if discovery says something else by then.
    refreshed = lead(refresh(redeemed.value, server(), client(), now=NOW), {TOKEN: GRANTED})
    assert refreshed.asked[0].form["resource"] == resource
    assert refreshed.value.resource == resource


def test_where_there_is_no_resource_none_is_sent():
    pending = start(ServerRecord(ISSUER, None, METADATA))
    assert "resource" not in query(pending)
    redeemed = lead(redeem(pending, "c0de", now=NOW), {TOKEN: {**GRANTED, "refresh_token": "r1"}})
    assert "resource" not in redeemed.asked[0].form
    refreshed = lead(refresh(redeemed.value, server(), client(), now=NOW), {TOKEN: GRANTED})
    assert "resource" not in refreshed.asked[0].form


def test_without_a_scope_there_is_no_such_parameter():
    assert "scope" not in query(start(scope=None))
    assert "scope" not in query(start(scope=""))


def test_offline_access_needs_the_consent_of_the_user():
    assert query(start(scope="read offline_access"))["prompt"] == "consent"
    assert "prompt" not in query(start(scope="read"))


def test_the_query_of_the_endpoint_stays_as_it_is():
    pending = start(server(authorization_endpoint=ISSUER + "/authorize?tenant=a%2Fb&empty&q=1+2"))
    assert pending.url.startswith(ISSUER + "/authorize?tenant=a%2Fb&empty&q=1+2&response_type=code&")


def test_the_query_of_the_endpoint_changes_none_of_ours():
    found = server(authorization_endpoint=ISSUER + "/authorize?client_id=evil&x=1&sc%6Fpe=admin&state=known")
    params = query(start(found))
    assert (params["client_id"], params["scope"], params["x"]) == ("me", "read", "1")
    assert parse_qs(urlsplit(start(found).url).query)["state"] != ["known"]


def test_white_space_is_sent_in_a_form_that_all_servers_understand():
    assert "scope=read%20write" in start(scope="read write").url


@pytest.mark.parametrize(
    "url", [None, "http://as.example/authorize", "javascript:alert(1)", "file:///bin/sh"]
)
def test_a_user_is_sent_nowhere_but_to_a_safe_endpoint(url):
    with pytest.raises(AuthError, match="authorization_endpoint"):
        start(server(authorization_endpoint=url))


def test_a_redirect_uri_that_is_not_safe_is_refused():
    with pytest.raises(UsageError):
        start(redirect_uri="http://app.example/callback")


def test_a_pending_authorization_survives_json_and_shows_no_secret():
    pending = start(who=client(client_secret="s3cret"))
    again = read_record(Pending, json.loads(json.dumps(pending.to_json())))
    assert again == pending
    assert check_callback(again, {"state": pending.state, "code": "c0de"}) == "c0de"
    for secret in ("s3cret", pending.state, pending.verifier):
        assert secret not in repr(pending)


# The callback


ISS = "authorization_response_iss_parameter_supported"


@pytest.mark.parametrize("flag", [True, False, None])
def test_an_answer_of_the_right_server_brings_the_code(flag):
    pending = start(server(**{ISS: flag}))
    assert check_callback(pending, {"state": pending.state, "code": "c0de", "iss": ISSUER}) == "c0de"


@pytest.mark.parametrize("flag", [True, False, None])
@pytest.mark.parametrize("iss", ["https://evil.example", ISSUER + "/", ISSUER.upper(), ISSUER + ":443", ""])
@pytest.mark.parametrize("rest", [{"code": "c0de"}, {"error": "access_denied", "error_description": "w0rds"}])
def test_an_answer_of_another_server_is_refused_unread(flag, iss, rest):
    pending = start(server(**{ISS: flag}))
    with pytest.raises(IssuerMismatch) as caught:
        check_callback(pending, {"state": pending.state, "iss": iss, **rest})
    assert (caught.value.expected, caught.value.actual) == (ISSUER, iss)
    assert "access_denied" not in str(caught.value)
    assert "w0rds" not in str(caught.value)


@pytest.mark.parametrize("rest", [{"code": "c0de"}, {"error": "access_denied"}])
def test_an_answer_without_a_sender_is_refused_where_the_server_says_that_it_names_itself(rest):
    pending = start(server(**{ISS: True}))
    with pytest.raises(IssuerMismatch, match="does not say"):
        check_callback(pending, {"state": pending.state, **rest})


@pytest.mark.parametrize("flag", [False, None, "true"])
def test_an_answer_without_a_sender_will_do_elsewhere(flag):
    pending = start(server(**{ISS: flag}))
    assert check_callback(pending, {"state": pending.state, "code": "c0de"}) == "c0de"


@pytest.mark.parametrize("issuer", [ISSUER + "/", ISSUER])
def test_the_sender_is_compared_with_the_issuer_as_the_metadata_spell_it(issuer):
    pending = start(server(issuer=issuer))
    assert check_callback(pending, {"state": pending.state, "code": "c0de", "iss": issuer}) == "c0de"


@pytest.mark.parametrize("given", [{}, {"state": ""}, {"state": "other"}, {"state": "\ud800é"}])
@pytest.mark.parametrize("rest", [{"code": "c0de"}, {"error": "access_denied", "error_description": "w0rds"}])
def test_an_answer_with_a_wrong_state_is_refused_unread(given, rest):
    pending = start()
    with pytest.raises(AuthError, match="state") as caught:
        check_callback(pending, {**given, **rest})
    assert type(caught.value) is AuthError
    for secret in (pending.state, "c0de", "w0rds"):
        assert secret not in str(caught.value)


def test_a_state_that_only_begins_right_is_wrong():
    pending = start()
    with pytest.raises(AuthError, match="state"):
        check_callback(pending, {"state": pending.state[:-1], "code": "c0de"})


def test_a_refusal_is_passed_on_with_its_words():
    pending = start()
    params = {"error": "access_denied", "error_description": f"not\n today {pending.state}", "code": "c0de"}
    with pytest.raises(AccessDenied, match="access_denied: not today") as caught:
        check_callback(pending, {"state": pending.state, **params})
    assert caught.value.error == "access_denied"
    assert caught.value.url == ISSUER
    assert pending.state not in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("rest", [{}, {"code": ""}, {"error": ""}])
def test_an_answer_that_brings_nothing_is_an_error(rest):
    pending = start()
    with pytest.raises(AuthError, match="neither a code nor an error"):
        check_callback(pending, {"state": pending.state, **rest})


def test_a_damaged_pending_authorization_is_an_error_of_its_own():
    pending = Pending("u", "s", "v", SERVER, "", {"issuer": 7}, {}, CALLBACK, None, NOW)
    with pytest.raises(AuthError, match="damaged"):
        check_callback(pending, {"state": "s", "code": "c0de"})
    assert isinstance(lead(redeem(pending, "c0de", now=NOW), {}).value, AuthError)


# The grant


def test_a_code_is_redeemed_with_the_verifier():
    pending = start(who=client(client_secret="s3cret", method="client_secret_post"))
    done = lead(redeem(pending, "c0de", now=NOW), {TOKEN: GRANTED})
    assert done.value == Grant(ISSUER, SERVER, "me", "t0ken", "Bearer", NOW + 60, requested="read")
    assert done.asked[0].form == {
        "grant_type": "authorization_code",
        "code": "c0de",
        "redirect_uri": CALLBACK,
        "code_verifier": pending.verifier,
        "resource": SERVER,
        "client_id": "me",
        "client_secret": "s3cret",
    }


def test_a_code_that_is_refused_gives_no_grant():
    done = lead(redeem(start(), "c0de", now=NOW), {TOKEN: answer({"error": "invalid_grant"}, 400)})
    assert isinstance(done.value, TokenRequestFailed)
    assert done.value.error == "invalid_grant"


def test_a_bound_token_is_kept_with_its_key():
    key = {"kty": "EC", "d": "secret"}
    reply = {"access_token": "t0ken", "token_type": "DPoP"}
    done = lead(redeem(start(), "c0de", now=NOW, dpop_key=key), {TOKEN: reply})
    assert (done.value.token_type, done.value.dpop_key) == ("DPoP", key)

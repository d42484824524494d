"""What is done with a grant later: the refresh, and the revocation."""

from __future__ import annotations

import pytest

from mcp_sync.auth._granted import refresh, revoke
from mcp_sync.auth._records import Grant
from mcp_sync.errors import AuthError, IssuerMismatch, TokenRequestFailed

from .conversations import ISSUER, NOW, SERVER, answer, client, lead, server

TOKEN = ISSUER + "/token"
REVOKE = ISSUER + "/revoke"
GRANTED = {"access_token": "t0ken", "token_type": "Bearer", "expires_in": 60}
GRANT = Grant(
    ISSUER, SERVER, "me", "old-access", refresh_token="old-refresh", scope="read", requested="read write"
)


def test_a_refresh_keeps_what_the_answer_leaves_out():
    conversation = refresh(GRANT, server(), client(), now=NOW)
    first = lead(conversation, {TOKEN: GRANTED})
    assert first.asked[0].form == {
        "grant_type": "refresh_token",
        "refresh_token": "old-refresh",
        "resource": SERVER,
        "client_id": "me",
    }
    assert first.value == Grant(
        ISSUER, SERVER, "me", "t0ken", "Bearer", NOW + 60, "old-refresh", "read", "read write"
    )
    again = lead(refresh(first.value, server(), client(), now=NOW), {TOKEN: GRANTED})
    assert again.asked[0].form["refresh_token"] == "old-refresh"


def test_a_refresh_takes_what_the_answer_replaces():
    reply = {**GRANTED, "refresh_token": "new-refresh", "scope": "read write"}
    done = lead(refresh(GRANT, server(), client(), now=NOW), {TOKEN: reply})
    assert (done.value.refresh_token, done.value.scope) == ("new-refresh", "read write")


def test_a_refresh_keeps_the_key_of_the_token():
    key = {"kty": "EC"}
    old = Grant(ISSUER, SERVER, "me", "old", "DPoP", refresh_token="r0", dpop_key=key)
    reply = {"access_token": "t0ken", "token_type": "DPoP"}
    assert lead(refresh(old, server(), client(), now=NOW), {TOKEN: reply}).value.dpop_key == key


def test_without_a_refresh_token_nothing_is_sent():
    done = lead(refresh(Grant(ISSUER, SERVER, "me", "old"), server(), client(), now=NOW), {TOKEN: GRANTED})
    assert isinstance(done.value, TokenRequestFailed)
    assert done.asked == []


OTHER = "https://other.example"


@pytest.mark.parametrize("conversation", [refresh, revoke])
@pytest.mark.parametrize(
    ("found", "who"),
    [
        (server(issuer=OTHER), client()),
        (server(issuer=OTHER), client(issuer=OTHER)),
        (server(), client(issuer=OTHER)),
    ],
)
def test_a_grant_is_never_shown_to_another_server(conversation, found, who):
    done = lead(conversation(GRANT, found, who, now=NOW), {TOKEN: GRANTED, REVOKE: 200})
    assert isinstance(done.value, IssuerMismatch)
    assert (done.value.expected, done.value.actual) == (ISSUER, OTHER)
    assert done.asked == []


@pytest.mark.parametrize("conversation", [refresh, revoke])
def test_a_grant_is_never_shown_in_the_name_of_another_client(conversation):
    done = lead(
        conversation(GRANT, server(), client(client_id="you"), now=NOW), {TOKEN: GRANTED, REVOKE: 200}
    )
    assert isinstance(done.value, TokenRequestFailed)
    assert done.asked == []


def test_the_slash_of_a_root_issuer_makes_no_other_server():
    done = lead(refresh(GRANT, server(issuer=ISSUER + "/"), client(), now=NOW), {TOKEN: GRANTED})
    assert done.value.issuer == ISSUER


# Revocation


def test_both_tokens_are_revoked_the_refresh_token_first():
    done = lead(revoke(GRANT, server(), client(), now=NOW), {REVOKE: 200})
    assert done.value is None
    assert [step.form for step in done.asked] == [
        {"token": "old-refresh", "token_type_hint": "refresh_token", "client_id": "me"},
        {"token": "old-access", "token_type_hint": "access_token", "client_id": "me"},
    ]
    assert all(step.method == "POST" for step in done.asked)


def test_without_a_refresh_token_the_access_token_is_revoked():
    done = lead(revoke(Grant(ISSUER, SERVER, "me", "old"), server(), client(), now=NOW), {REVOKE: 200})
    assert [step.form["token"] for step in done.asked] == ["old"]


def test_a_client_authenticates_for_a_revocation_as_for_a_token():
    who = client(client_secret="s3cret", method="client_secret_basic")
    done = lead(revoke(GRANT, server(), who, now=NOW), {REVOKE: 200})
    assert all(step.headers["Authorization"].startswith("Basic ") for step in done.asked)
    assert not any("client_id" in step.form for step in done.asked)


def test_without_an_endpoint_nothing_is_revoked():
    done = lead(revoke(GRANT, server(revocation_endpoint=None), client(), now=NOW), {})
    assert done[:2] == (None, [])


def test_a_server_that_revokes_one_kind_only_is_no_error():
    replies = [answer(status=200), answer({"error": "unsupported_token_type"}, 400)]
    assert lead(revoke(GRANT, server(), client(), now=NOW), {REVOKE: replies}).value is None


@pytest.mark.parametrize(
    ("reply", "transient"),
    [
        (answer(None, 503), True),
        (answer({"error": "invalid_client", "error_description": "old-refresh"}, 401), False),
    ],
)
def test_a_revocation_that_failed_is_told_after_the_other_was_tried(reply, transient):
    done = lead(revoke(GRANT, server(), client(), now=NOW), {REVOKE: [reply, 200]})
    assert isinstance(done.value, TokenRequestFailed)
    assert done.value.transient is transient
    assert done.value.url == REVOKE
    assert "refresh_token" in str(done.value)
    assert "old-refresh" not in str(done.value)
    assert len(done.asked) == 2


def test_a_server_that_cannot_be_reached_for_the_one_is_asked_for_the_other():
    error = AuthError("no route")
    done = lead(revoke(GRANT, server(), client(), now=NOW), {REVOKE: [error, 200]})
    assert done.value is error
    assert len(done.asked) == 2

"""The authorization server for tests: our client logs in there, and it refuses what has to be refused."""

from __future__ import annotations

import base64
import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from mcp_sync import (
    AccessDenied,
    AuthorizationRequired,
    BearerToken,
    Client,
    ClientCredentials,
    HTTPStatusError,
    InsufficientScope,
    OAuth,
)
from mcp_sync.auth import LoopbackBrowser
from mcp_sync.testing import FakeAuthorizationServer, FakeServer, HTTPEndpoint

REDIRECT = "https://app.example/callback"
VERIFIER = "v" * 50
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture
def auth() -> Iterator[FakeAuthorizationServer]:
    with FakeAuthorizationServer(user="anna") as auth:
        auth.add_client("app", "secret", [REDIRECT])
        auth.add_client("other", None, [REDIRECT])
        yield auth


@pytest.fixture
def endpoint(auth: FakeAuthorizationServer) -> Iterator[HTTPEndpoint]:
    fake = FakeServer(tools={"hello": lambda: "Hello", "write": lambda: "written"}, principal=auth.user_of)
    with fake.serve_http(intercept=auth.guard(tools={"write": "notes:write"})) as endpoint:
        yield endpoint


def log_in(auth: FakeAuthorizationServer, url: str, **options: Any) -> OAuth:
    """Log in as a web application does."""
    oauth = OAuth(redirect_uri=REDIRECT, **options)
    oauth.finish(auth.consent(oauth.begin(url).url))
    return oauth


def post(auth: FakeAuthorizationServer, path: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(auth.issuer + path, urlencode(form).encode())
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def authorization(auth: FakeAuthorizationServer, **changes: str) -> str:
    """Return the URL of a good request, or of one that differs."""
    query = {
        "response_type": "code",
        "client_id": "app",
        "redirect_uri": REDIRECT,
        "state": "s",
        "scope": "notes",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    return f"{auth.issuer}/authorize?{urlencode({**query, **changes})}"


def answer_of(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


def code_form(auth: FakeAuthorizationServer) -> dict[str, str]:
    code = answer_of(auth.consent(authorization(auth)))["code"]
    return {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": REDIRECT,
        "code_verifier": VERIFIER,
        "client_id": "app",
        "client_secret": "secret",
    }


def refresh_form(token: str, **changes: str) -> dict[str, str]:
    form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": "app"}
    return {**form, "client_secret": "secret", **changes}


def test_an_application_registers_logs_a_user_in_and_calls(auth, endpoint):
    with Client(endpoint.url, auth=log_in(auth, endpoint.url)) as client:
        assert client.call_tool("hello").text == "Hello"
    assert auth.asked["/register"] == 1
    assert auth.user_of(endpoint.requests[-1].headers) == "anna"


def test_a_call_without_a_token_says_where_to_log_in(auth, endpoint):
    client = Client(endpoint.url, auth=OAuth(redirect_uri=REDIRECT))
    with pytest.raises(AuthorizationRequired) as caught, client:
        client.list_tools()
    assert caught.value.url.startswith(auth.issuer)


def test_a_browser_is_redirected_back_at_once(auth, endpoint):
    def visit(url: str) -> bool:
        with urllib.request.urlopen(url, timeout=10) as response:
            response.read()
        return True

    with Client(endpoint.url, auth=OAuth(interaction=LoopbackBrowser(open=visit, timeout=20))) as client:
        assert client.call_tool("hello").text == "Hello"


def test_an_expired_token_is_refreshed_and_withdrawn_grants_are_over(auth, endpoint):
    with Client(endpoint.url, auth=log_in(auth, endpoint.url)) as client:
        client.list_tools()
        auth.expire_access_tokens()
        client.list_tools()
        assert auth.asked["refresh_token"] == 1
        auth.forget_grants()
        with pytest.raises(AuthorizationRequired):
            client.list_tools()


def test_a_tool_may_need_a_further_scope(auth, endpoint):
    with Client(endpoint.url, auth=log_in(auth, endpoint.url, scopes=["notes"])) as client:
        assert client.call_tool("hello").text == "Hello"
        with pytest.raises((InsufficientScope, AuthorizationRequired)) as caught:
            client.call_tool("write")
        url = getattr(caught.value, "url", "")
    assert "notes%3Awrite" in url


def test_a_user_may_refuse(auth, endpoint):
    auth.denies = True
    with pytest.raises(AccessDenied):
        log_in(auth, endpoint.url)


def test_a_client_may_come_on_its_own_account(auth, endpoint):
    with Client(endpoint.url, auth=ClientCredentials("app", "secret")) as client:
        client.call_tool("hello")
    assert auth.user_of(endpoint.requests[-1].headers) == "app"


def test_a_token_of_another_server_and_a_wrong_one_are_refused(auth, endpoint):
    form = {"grant_type": "client_credentials", "client_id": "app", "client_secret": "secret"}
    _, other = post(auth, "/token", {**form, "resource": "https://other.example/mcp"})
    for token in (other["access_token"], "made-up"):
        client = Client(endpoint.url, auth=BearerToken(token), mode="2026-07-28")
        with pytest.raises(HTTPStatusError) as caught, client:
            client.list_tools()
        assert caught.value.status == 401
        assert 'error="invalid_token"' in caught.value.headers["www-authenticate"]


def test_a_refresh_token_that_is_used_twice_ends_all_that_came_of_it(auth):
    _, first = post(auth, "/token", code_form(auth))
    _, second = post(auth, "/token", refresh_form(first["refresh_token"]))
    assert second["refresh_token"] != first["refresh_token"]
    assert post(auth, "/token", refresh_form(first["refresh_token"]))[1]["error"] == "invalid_grant"
    assert post(auth, "/token", refresh_form(second["refresh_token"]))[1]["error"] == "invalid_grant"
    assert auth.user_of({"authorization": f"Bearer {second['access_token']}"}) is None


def test_a_code_that_is_used_twice_ends_the_tokens_that_it_gave(auth):
    form = code_form(auth)
    _, tokens = post(auth, "/token", form)
    assert auth.user_of({"authorization": f"Bearer {tokens['access_token']}"}) == "anna"
    assert post(auth, "/token", form) == (
        400,
        {"error": "invalid_grant", "error_description": "it was used before"},
    )
    assert auth.user_of({"authorization": f"Bearer {tokens['access_token']}"}) is None


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({"code_verifier": "w" * 50}, 400, "invalid_grant"),
        ({"redirect_uri": "https://evil.example"}, 400, "invalid_grant"),
        ({"client_id": "other", "client_secret": ""}, 400, "invalid_grant"),
        ({"client_secret": "wrong"}, 401, "invalid_client"),
        ({"client_id": "nobody"}, 401, "invalid_client"),
        ({"resource": "https://other.example"}, 400, "invalid_target"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
    ],
)
def test_what_does_not_fit_a_code_gets_no_token(auth, changes, status, error):
    got, body = post(auth, "/token", {**code_form(auth), **changes})
    assert (got, body["error"]) == (status, error)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
    ],
)
def test_a_bad_request_comes_back_with_state_and_issuer(auth, changes, error):
    answer = answer_of(auth.consent(authorization(auth, **changes)))
    assert (answer["error"], answer["state"], answer["iss"]) == (error, "s", auth.issuer)
    assert "code" not in answer


@pytest.mark.parametrize("changes", [{"client_id": "nobody"}, {"redirect_uri": "https://evil.example"}])
def test_nobody_is_sent_to_an_address_that_was_not_registered(auth, changes):
    with pytest.raises(ValueError, match="invalid_"):
        auth.consent(authorization(auth, **changes))


def test_a_revoked_refresh_token_takes_its_access_tokens_along(auth):
    _, tokens = post(auth, "/token", code_form(auth))
    form = {"token": tokens["refresh_token"], "client_id": "app", "client_secret": "secret"}
    assert post(auth, "/revoke", form)[0] == 200
    assert auth.user_of({"authorization": f"Bearer {tokens['access_token']}"}) is None
    assert post(auth, "/revoke", form)[0] == 200


def test_a_refreshed_token_may_have_fewer_scopes_but_never_more(auth):
    _, tokens = post(auth, "/token", code_form(auth))
    _, less = post(auth, "/token", refresh_form(tokens["refresh_token"], scope=""))
    assert less["scope"] == ""
    _, more = post(auth, "/token", refresh_form(less["refresh_token"], scope="notes all"))
    assert more["error"] == "invalid_scope"
    _, again = post(auth, "/token", refresh_form(less["refresh_token"]))
    assert again["scope"] == "notes"


def test_scopes_can_be_those_of_a_list():
    with FakeAuthorizationServer(scopes=["notes"], lifetime=5) as auth:
        auth.add_client("app", None, [REDIRECT])
        assert "code" in answer_of(auth.consent(authorization(auth)))
        assert answer_of(auth.consent(authorization(auth, scope="all")))["error"] == "invalid_scope"

"""The login in two steps, as a web application does it: begin here, finish in another request or process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from mcp_sync import Client
from mcp_sync.auth import ClientCredentials, FileStore, MemoryStore, OAuth
from mcp_sync.errors import (
    AccessDenied,
    AuthError,
    AuthorizationRequired,
    InsufficientScope,
    IssuerMismatch,
    TokenRequestFailed,
    UsageError,
)

from .oauth_server import agree, json_reply
from .plain_server import Reply

REDIRECT = "https://app.example/oauth/callback"


def web(store: Any = None, **options: Any) -> OAuth:
    return OAuth(redirect_uri=REDIRECT, store=store, **options)


def call(url: str, auth: OAuth) -> Any:
    with Client(url, auth=auth) as client:
        return client.call_tool("add", {"a": 1, "b": 2}).structured_content


def params_of(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


def test_a_call_without_a_grant_says_where_to_send_the_user(server, endpoint) -> None:
    store = MemoryStore()
    with pytest.raises(AuthorizationRequired) as caught:
        call(endpoint.url, web(store))
    assert caught.value.url.startswith(server.issuer + "/authorize?")
    assert params_of(caught.value.url)["redirect_uri"] == REDIRECT
    web(store, server_url=endpoint.url).finish(agree(caught.value.url))
    assert call(endpoint.url, web(store)) == {"sum": 3}


def test_a_login_begins_before_a_call_needs_it(server, endpoint) -> None:
    store = MemoryStore()
    flow = web(store).begin(endpoint.url)
    assert server.asked["401"] == 0
    web(store).finish(agree(flow.url))
    assert call(endpoint.url, web(store)) == {"sum": 3}
    assert server.registrations[0]["application_type"] == "web"


def test_calls_without_a_grant_register_once(server, endpoint) -> None:
    auth = web()
    for _ in range(3):
        with pytest.raises(AuthorizationRequired):
            call(endpoint.url, auth)
    assert server.asked["register"] == 1


@pytest.mark.parametrize("form", ["url", "query", "mapping", "lists", "path"])
def test_the_answer_may_be_given_in_any_form(server, endpoint, form) -> None:
    auth = web()
    location = agree(auth.begin(endpoint.url).url)
    given: Any = {
        "url": location,
        "query": urlsplit(location).query,
        "mapping": params_of(location),
        "lists": {name: [value] for name, value in params_of(location).items()},
        "path": location[len("https://app.example") :],
    }[form]
    auth.finish(given)
    assert auth.status(endpoint.url).state == "valid"


def test_an_answer_counts_once(server, endpoint) -> None:
    auth = web()
    location = agree(auth.begin(endpoint.url).url)
    auth.finish(location)
    with pytest.raises(AuthError, match="no login that waits"):
        auth.finish(location)
    assert auth.status(endpoint.url).state == "valid"
    assert server.asked["token"] == 1


def with_params(location: str, **changed: Any) -> str:
    params = {**params_of(location), **changed}
    return REDIRECT + "?" + urlencode({name: value for name, value in params.items() if value is not None})


@pytest.mark.parametrize("state", ["another", None, ""])
def test_an_answer_without_the_right_state_changes_nothing(server, endpoint, state) -> None:
    auth = web()
    auth.finish(agree(auth.begin(endpoint.url).url))
    before = auth.vault.grant(endpoint.url)
    location = agree(auth.begin(endpoint.url).url)
    with pytest.raises(AuthError, match="no login that waits" if state else "no state"):
        auth.finish(with_params(location, state=state))
    assert auth.vault.grant(endpoint.url) == before
    auth.finish(location)


def test_an_answer_from_another_issuer_changes_nothing(server, endpoint) -> None:
    auth = web()
    auth.finish(agree(auth.begin(endpoint.url).url))
    before = auth.vault.grant(endpoint.url)
    location = agree(auth.begin(endpoint.url).url)
    with pytest.raises(IssuerMismatch):
        auth.finish(with_params(location, iss="https://evil.example"))
    assert auth.vault.grant(endpoint.url) == before
    assert server.asked["token"] == 1


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("forged", [{"iss": "https://evil.example"}, {"iss": "", "code": "x"}, {"code": ""}])
def test_a_forged_answer_does_not_keep_the_real_one_out(server, endpoint, forged, is_kept) -> None:
    auth = web()
    flow = auth.begin(endpoint.url)
    location, kept = agree(flow.url), flow.pending if is_kept else None
    with pytest.raises(AuthError):
        auth.finish(with_params(location, **forged), kept)
    auth.finish(location, kept)
    assert call(endpoint.url, auth) == {"sum": 3}


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("reply", [Reply(503), Reply(200, b"<html>"), Reply(429)], ids=str)
def test_an_answer_may_be_given_again_when_the_token_endpoint_is_out_of_order(
    server, endpoint, reply, is_kept
) -> None:
    auth = web()
    flow = auth.begin(endpoint.url)
    location, kept = agree(flow.url), flow.pending if is_kept else None
    server.on_token = lambda form: reply
    with pytest.raises(TokenRequestFailed) as caught:
        auth.finish(location, kept)
    assert caught.value.transient
    server.on_token = lambda form: None
    auth.finish(location, kept)
    assert call(endpoint.url, auth) == {"sum": 3}
    with pytest.raises(AuthError, match="no login that waits"):
        auth.finish(location, kept)


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_code_that_was_refused_is_not_shown_again(server, endpoint, is_kept) -> None:
    auth = web()
    flow = auth.begin(endpoint.url)
    location, kept = agree(flow.url), flow.pending if is_kept else None
    with pytest.raises(TokenRequestFailed, match="invalid_grant"):
        auth.finish(with_params(location, code="made-up"), kept)
    with pytest.raises(AuthError, match="no login that waits"):
        auth.finish(location, kept)
    assert server.asked["token"] == 1


def test_a_refusal_ends_the_login(server, endpoint) -> None:
    auth = web()
    flow = auth.begin(endpoint.url)
    for error, text in ((AccessDenied, "access_denied"), (AuthError, "no login that waits")):
        with pytest.raises(error, match=text):
            auth.finish({"error": "access_denied", "state": flow.state}, flow.pending)
    assert server.asked["token"] == 0


def test_a_refusal_of_the_user_changes_nothing(server, endpoint) -> None:
    auth = web()
    auth.finish(agree(auth.begin(endpoint.url).url))
    before = auth.vault.grant(endpoint.url)
    flow = auth.begin(endpoint.url)
    with pytest.raises(AccessDenied) as caught:
        auth.finish({"error": "access_denied", "state": flow.state})
    assert caught.value.error == "access_denied"
    assert auth.vault.grant(endpoint.url) == before


def test_a_code_that_is_no_good_changes_nothing(server, endpoint) -> None:
    auth = web()
    auth.finish(agree(auth.begin(endpoint.url).url))
    before = auth.vault.grant(endpoint.url)
    location = agree(auth.begin(endpoint.url).url)
    with pytest.raises(TokenRequestFailed, match="invalid_grant"):
        auth.finish(with_params(location, code="made-up"))
    assert auth.vault.grant(endpoint.url) == before


@pytest.mark.parametrize("query", ["state=a&state=b&code=c", "code=c&code=d&state=a"])
def test_parameters_that_come_twice_are_refused(query) -> None:
    with pytest.raises(AuthError, match="comes twice"):
        web().finish(query)


@pytest.mark.parametrize("callback", [None, 5, b"state=a"])
def test_what_is_no_answer_is_a_wrong_use(callback) -> None:
    with pytest.raises(UsageError):
        web().finish(callback)


def test_nobody_finishes_the_login_of_somebody_else(server, endpoint) -> None:
    store = MemoryStore()
    location = agree(web(store, principal="ada").begin(endpoint.url).url)
    with pytest.raises(AuthError, match="somebody else"):
        web(store, principal="bob").finish(location)
    assert web(store, principal="bob").status(endpoint.url).state == "none"
    assert server.asked["token"] == 0


def test_whoever_tries_to_finish_the_login_of_somebody_else_does_not_spoil_it(server, endpoint) -> None:
    store = MemoryStore()
    location = agree(web(store, principal="ada").begin(endpoint.url).url)
    bob = web(store, principal="bob")
    for kept in (None, bob.begin(endpoint.url).pending):
        with pytest.raises(AuthError, match="somebody else"):
            bob.finish(location, kept)
    web(store, principal="ada").finish(location)
    assert call(endpoint.url, web(store, principal="ada")) == {"sum": 3}


@pytest.mark.parametrize("callback", ["", {}, REDIRECT, "code=c", "/oauth/callback?code=c"])
def test_what_has_no_state_is_said_to_be_no_answer(callback) -> None:
    with pytest.raises(AuthError, match="no answer of an authorization server: it has no state"):
        web().finish(callback)


def test_what_the_server_lists_is_asked_for_with_what_the_user_wants(server, endpoint) -> None:
    server.resource_metadata = {"scopes_supported": ["notes"]}
    auth = web(scopes=["notes:write"])
    assert params_of(auth.begin(endpoint.url).url)["scope"] == "notes:write notes"
    server.clients["service"] = "s3cret"
    service = ClientCredentials("service", "s3cret", scopes=["notes:write"])
    with Client(endpoint.url, auth=service) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}
    assert service.status().scope == "notes:write notes"


def test_each_principal_has_a_grant_of_its_own(server, endpoint) -> None:
    store = MemoryStore()
    for principal in ("ada", "bob"):
        auth = web(store, principal=principal)
        auth.finish(agree(auth.begin(endpoint.url).url))
    web(store, principal="ada").logout(endpoint.url)
    assert web(store, principal="ada").status(endpoint.url).state == "needs_login"
    assert call(endpoint.url, web(store, principal="bob")) == {"sum": 3}
    assert server.asked["register"] == 1


def test_what_is_pending_may_be_kept_by_the_application(server, endpoint) -> None:
    flow = web().begin(endpoint.url)
    kept = json.loads(json.dumps(flow.pending))
    location = agree(flow.url)
    other = web()
    other.finish(location, kept)
    assert call(endpoint.url, other) == {"sum": 3}


def test_what_the_application_has_kept_counts_once(server, endpoint) -> None:
    flow = web().begin(endpoint.url)
    location, start = agree(flow.url), threading.Barrier(6)
    store = MemoryStore()

    def finish() -> Any:
        start.wait()
        return web(store).finish(location, flow.pending)

    with ThreadPoolExecutor(6) as pool:
        failures = [each.exception(20) for each in [pool.submit(finish) for _ in range(6)]]
    assert failures.count(None) == 1
    assert all("no login that waits" in str(each) for each in failures if each is not None)
    with pytest.raises(AuthError, match="no login that waits"):
        web(store).finish(location, flow.pending)
    assert server.asked["token"] == 1


def test_what_the_application_has_kept_counts_for_an_hour(server, endpoint) -> None:
    auth = web()
    flow = auth.begin(endpoint.url)
    location = agree(flow.url)
    for age in (3700, 86400):
        with pytest.raises(AuthError, match="too old"):
            auth.finish(location, {**flow.pending, "created_at": flow.pending["created_at"] - age})
    assert server.asked["token"] == 0


def test_what_is_pending_belongs_to_one_answer_also_when_it_was_kept(server, endpoint) -> None:
    auth = web()
    first, second = auth.begin(endpoint.url), auth.begin(endpoint.url)
    with pytest.raises(AuthError, match="its state is another"):
        auth.finish(agree(first.url), second.pending)


@pytest.mark.parametrize("pending", [{}, {"url": "x"}, {"state": 5}])
def test_a_damaged_record_is_an_error(pending) -> None:
    with pytest.raises(AuthError, match="damaged"):
        web().finish("state=a&code=b", pending)


def test_another_process_finishes_the_login(server, endpoint, tmp_path: Path) -> None:
    path = tmp_path / "grants.json"
    flow = web(FileStore(path)).begin(endpoint.url)
    script = (
        "import sys; from mcp_sync.auth import FileStore, OAuth\n"
        f"OAuth(redirect_uri={REDIRECT!r}, store=FileStore(sys.argv[1])).finish(sys.argv[2])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, str(path), agree(flow.url)],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert call(endpoint.url, web(FileStore(path))) == {"sum": 3}


def test_more_scope_is_a_redirect_as_well(server, endpoint) -> None:
    auth = web(scopes=["read"])
    auth.finish(agree(auth.begin(endpoint.url).url))
    server.needed_scope = {"add": "write"}
    with pytest.raises(InsufficientScope) as caught:
        call(endpoint.url, auth)
    assert caught.value.scopes == ("write",)
    assert params_of(caught.value.url)["scope"] == "read write"
    auth.finish(agree(caught.value.url))
    assert call(endpoint.url, auth) == {"sum": 3}


def test_a_client_that_was_forgotten_registers_anew_at_the_next_login(server, endpoint) -> None:
    auth = web()
    location = agree(auth.begin(endpoint.url).url)
    server.clients.clear()
    with pytest.raises(TokenRequestFailed, match="invalid_client"):
        auth.finish(location)
    auth.finish(agree(auth.begin(endpoint.url).url))
    assert server.asked["register"] == 2


def test_the_registration_can_be_forgotten_by_hand(server, endpoint) -> None:
    auth = web()
    auth.begin(endpoint.url)
    auth.reset_client()
    auth.begin(endpoint.url)
    assert server.asked["register"] == 2


def test_scopes_may_be_named_for_one_login(server, endpoint) -> None:
    auth = web(scopes=["read"])
    assert params_of(auth.begin(endpoint.url, scopes=["admin"]).url)["scope"] == "admin"
    assert params_of(auth.begin(endpoint.url).url)["scope"] == "read"


def test_without_a_redirect_uri_there_are_no_two_steps(endpoint) -> None:
    with pytest.raises(UsageError, match="redirect_uri"):
        OAuth().begin(endpoint.url)


def test_it_has_to_be_clear_which_server_is_meant(endpoint) -> None:
    with pytest.raises(UsageError, match="server_url"):
        web().begin()


def test_a_server_that_cannot_register_says_so_to_whoever_begins(server, endpoint) -> None:
    server.on_register = lambda asked: json_reply({"error": "invalid_redirect_uri"}, 400)
    with pytest.raises(AuthError, match="invalid_redirect_uri"):
        web().begin(endpoint.url)

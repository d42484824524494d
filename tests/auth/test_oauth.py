"""What a user sees of `OAuth` and of the ways without a person: settings, status, stores, processes."""

from __future__ import annotations

import inspect
import os
import pickle
import pydoc
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from mcp_sync import Client, auth
from mcp_sync.auth import (
    ClientCredentials,
    DeviceCode,
    FileStore,
    LoopbackBrowser,
    MemoryStore,
    OAuth,
    PasteBack,
    WorkloadIdentity,
)
from mcp_sync.auth._errand import Errand
from mcp_sync.errors import AuthError, AuthorizationRequired, TokenRequestFailed, UsageError
from mcp_sync.testing._http import HTTPReply, HTTPRequest

from .oauth_server import agree, json_reply, visit
from .plain_server import PlainServer, Reply, Request

ROOT = Path(__file__).parents[2]


def oauth(**options: Any) -> OAuth:
    return OAuth(interaction=LoopbackBrowser(open=visit, timeout=20), **options)


def call(url: str, auth: Any) -> Any:
    with Client(url, auth=auth) as client:
        return client.call_tool("add", {"a": 1, "b": 2}).structured_content


# --- settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"client_secret": "s"},
        {"client_id": ""},
        {"client_metadata_url": "http://h.example/c"},
        {"issuer": "http://as.example"},
        {"client_id": "me", "client_secret": "half a character \udcff"},
        {"scopes": "read write"},
        {"scopes": [5]},
        {"redirect_uri": "http://app.example/callback"},
        {"redirect_uri": "https://app.example/callback", "interaction": LoopbackBrowser()},
        {"interaction": "browser"},
        {"interactive": "yes"},
        {"store": {}},
        {"store": MemoryStore},
        {"interaction": PasteBack},
        {"principal": 5},
        {"server_url": "example.com"},
        {"leeway": -1},
        {"dpop": "yes"},
        {"token_endpoint_auth_method": "magic"},
        {"private_key": "no key", "client_id": "me"},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_at_once(options) -> None:
    with pytest.raises(UsageError):
        OAuth(**options)


PUBLIC = {
    "OAuth": {"begin", "finish", "for_principal", "logout", "reset_client", "status"},
    "ClientCredentials": {"for_principal", "logout", "reset_client", "status"},
    "DeviceCode": {"for_principal", "logout", "reset_client", "status"},
    "EnterpriseManaged": {"for_principal", "logout", "reset_client", "status"},
    "WorkloadIdentity": {
        *("for_principal", "from_environment", "from_file"),
        *("logout", "reset_client", "status"),
    },
    "BearerToken": {"read"},
}


@pytest.mark.parametrize("name", PUBLIC)
def test_help_shows_what_users_can_do_and_no_more(name) -> None:
    kind = getattr(auth, name)
    assert {each for each in dir(kind) if not each.startswith("_")} == PUBLIC[name]
    text = pydoc.render_doc(kind, renderer=pydoc.plaintext)
    assert "_log_in" not in text
    assert all(f"{each}(" in text for each in PUBLIC[name])


OWN = ["Asking", "Deadline", "Flow", "Interaction", "Key", "Pending", "Status", "Store", "Stored"]


@pytest.mark.parametrize("name", OWN)
def test_what_own_stores_and_interactions_take_is_public_and_documented(name) -> None:
    assert name in auth.__all__
    assert inspect.getdoc(getattr(auth, name))


def test_every_public_name_is_there_and_loads_nothing_of_jwt() -> None:
    code = (
        "import sys, mcp_sync.auth as auth\n"
        "for name in auth.__all__: getattr(auth, name)\n"
        "print([name for name in ('jwt', 'cryptography', 'keyring') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert done.stdout.strip() == "[]", done.stderr


def test_importing_the_package_loads_no_requests() -> None:
    code = "import sys, mcp_sync.auth; print('requests' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert done.stdout.strip() == "False", done.stderr


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = auth.no_such_name


# --- status and logout ---------------------------------------------------------------------------------


def test_the_status_asks_nobody_and_tells_what_is_there(server, endpoint) -> None:
    store = MemoryStore()
    first = oauth(store=store, scopes=["read"])
    assert first.status(endpoint.url).state == "none"
    call(endpoint.url, first)
    before = dict(server.asked)
    status = OAuth(store=store, interactive=False).status(endpoint.url)
    assert (status.state, status.issuer, status.scope) == ("valid", server.issuer, "read")
    assert status.expires_at == pytest.approx(time.time() + 3600, abs=60)
    assert server.asked == before


@pytest.mark.parametrize(("refreshable", "state"), [(True, "refreshable"), (False, "expired")])
def test_the_status_of_what_has_expired(server, endpoint, refreshable, state) -> None:
    server.lifetime = 0
    server.gives_refresh_tokens = refreshable
    auth = oauth()
    call(endpoint.url, auth)
    assert auth.status().state == state


def test_logout_revokes_the_refresh_token_first_and_forgets(server, endpoint) -> None:
    auth = oauth()
    call(endpoint.url, auth)
    assert auth.logout() is True
    assert [token.partition("-")[0] for token in server.revoked] == ["refresh", "access"]
    assert auth.status().state == "needs_login"
    call(endpoint.url, auth)
    assert server.asked["authorize"] == 2
    assert server.asked["register"] == 1


def test_logout_forgets_whatever_the_authorization_server_says(server, endpoint) -> None:
    auth = oauth()
    call(endpoint.url, auth)
    server.plain.__exit__()
    assert auth.logout() is False
    assert auth.status().state == "needs_login"


def test_without_a_revocation_endpoint_logout_only_forgets(server, endpoint) -> None:
    server.metadata = {"revocation_endpoint": None}
    auth = oauth()
    call(endpoint.url, auth)
    assert auth.logout() is False
    assert auth.status().state == "needs_login"
    assert server.revoked == []


def test_a_refresh_that_is_under_way_does_not_outlive_the_logout(server, endpoint) -> None:
    """Whether the logout comes before or after the refresh: no token is left, neither here nor there."""
    store = MemoryStore()
    auth = oauth(store=store)
    call(endpoint.url, auth)
    server.expire_all()
    asked, go_on = threading.Event(), threading.Event()

    def slow(form: dict[str, str]) -> Any:
        asked.set()
        go_on.wait(10)
        return None

    server.on_token = slow
    with ThreadPoolExecutor(2) as pool:
        calling = pool.submit(call, endpoint.url, OAuth(store=store, interactive=False))
        assert asked.wait(10)
        leaving = pool.submit(auth.logout)
        go_on.set()
        assert leaving.result(20) is True
        calling.exception(20)
    assert auth.status().state == "needs_login"
    assert {token.partition("-")[0] for token in server.revoked} == {"refresh", "access"}
    assert not server.tokens


def test_logout_without_a_grant_does_nothing(server, endpoint) -> None:
    assert oauth().logout(endpoint.url) is False


# --- where grants are kept ---------------------------------------------------------------------------------


def test_a_grant_outlives_the_process_that_got_it(server, endpoint, tmp_path) -> None:
    path = tmp_path / "grants.json"
    call(endpoint.url, oauth(store=FileStore(path)))
    assert call(endpoint.url, OAuth(store=FileStore(path), interactive=False)) == {"sum": 3}
    server.expire_all()
    assert call(endpoint.url, OAuth(store=FileStore(path), interactive=False)) == {"sum": 3}
    assert server.asked["authorize"] == 1


def test_the_absolute_expiry_survives(server, endpoint, tmp_path) -> None:
    server.lifetime = 0
    path = tmp_path / "grants.json"
    call(endpoint.url, oauth(store=FileStore(path)))
    server.lifetime = 3600
    server.asked.clear()
    assert call(endpoint.url, OAuth(store=FileStore(path), interactive=False)) == {"sum": 3}
    assert server.asked["refresh_token"] == 1
    assert server.asked["401"] == 0


def test_four_processes_share_a_refresh_token_that_may_be_used_once(server, tmp_path) -> None:
    server.lifetime = 0.1  # As many refreshes as there can be.

    def answer(request: Request) -> Reply:
        canned = server.protect(HTTPRequest(request.method, request.path, request.headers, request.body))
        return Reply(200) if canned is None else Reply(canned.status, canned.body, dict(canned.headers))

    path = tmp_path / "grants.json"
    with PlainServer(answer) as resource:
        url = resource.origin + "/mcp"
        requests.post(url, data=b"{}", auth=oauth(store=FileStore(path)), timeout=30)
        command = [sys.executable, "-W", "error", "-m", "tests.auth.grant_worker", str(path), url, "1.5"]
        workers = [
            subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(4)
        ]
        done = [worker.communicate(timeout=50) for worker in workers]
    assert [(worker.returncode, err) for worker, (_, err) in zip(workers, done)] == [(0, "")] * 4
    assert all(int(out) > 10 for out, _ in done)
    assert server.asked["refresh_token"] > 5
    assert not server.revoked_families
    assert server.asked["authorize"] == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_uses_the_grant_and_gets_another(server, endpoint, tmp_path) -> None:
    auth = oauth(store=FileStore(tmp_path / "grants.json"))
    call(endpoint.url, auth)
    (access,) = auth._accesses.values()
    taken, release = threading.Event(), threading.Event()

    def hold() -> None:
        with access.turn.taken(Errand(), "a login"):
            taken.set()
            release.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait(10)
    server.expire_all()
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if call(endpoint.url, auth) == {"sum": 3} else 1)
        finally:
            os._exit(2)
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        release.set()
        thread.join()
    assert call(endpoint.url, auth) == {"sum": 3}
    assert server.asked["refresh_token"] == 1


# --- drivers ---------------------------------------------------------------------------------------------


def test_the_address_of_the_last_page_may_be_pasted(server, endpoint) -> None:
    shown: list[str] = []

    def read() -> str:
        return agree(shown[0].splitlines()[1])

    assert call(endpoint.url, OAuth(interaction=PasteBack(show=shown.append, read=read))) == {"sum": 3}


def test_the_registration_is_used_again_though_the_port_is_another(server, endpoint) -> None:
    store = MemoryStore()
    for _ in range(3):
        auth = oauth(store=store)
        call(endpoint.url, auth)
        auth.logout()
    assert server.asked["register"] == 1


def test_a_step_up_that_was_given_up_does_not_spoil_the_refresh(server, endpoint) -> None:
    """Another port takes another registration, and the old grant still needs the old one."""
    import socket

    store = MemoryStore()
    call(endpoint.url, oauth(store=store))
    (uri,) = server.registrations[0]["redirect_uris"]
    port = int(uri.split(":")[2].partition("/")[0])
    with socket.create_server(("127.0.0.1", port)):
        server.needed_scope = {"add": "write"}
        server.on_authorize = lambda query: {"error": "access_denied", "state": query["state"]}
        with pytest.raises(AuthError):
            call(endpoint.url, oauth(store=store))
    assert server.asked["register"] == 2
    server.needed_scope = {}
    server.expire_all()
    assert call(endpoint.url, OAuth(store=store, interactive=False)) == {"sum": 3}


def test_nobody_logged_in_names_the_client_and_how_to_have_another(server, endpoint) -> None:
    auth = OAuth(interaction=LoopbackBrowser(open=lambda url: True, timeout=0.2))
    with pytest.raises(AuthorizationRequired, match=r"client-\d+.*reset_client\(\)"):
        call(endpoint.url, auth)


def test_nobody_logged_in_names_the_redirect_uri_of_a_client_registered_by_hand(
    server, endpoint, caplog, capfd
) -> None:
    server.clients["me"] = None
    browser = LoopbackBrowser(open=lambda url: False, timeout=0.2, host="localhost", path="/cb")
    with caplog.at_level("INFO", "mcp_sync.auth"), pytest.raises(AuthorizationRequired) as caught:
        call(endpoint.url, OAuth(client_id="me", interaction=browser))
    advice = r"register the redirect URI (http://localhost:\d+/cb) there for the client 'me'"
    said = re.search(advice, str(caught.value))
    assert said is not None
    assert f"the answer comes to {said.group(1)}" in caplog.text
    assert f"The answer has to come to {said.group(1)}" in capfd.readouterr().err


def test_tokens_may_be_bound_to_a_key(server, endpoint) -> None:
    proofs: list[str] = []

    def bound(form: dict[str, str]) -> Any:
        reply = server._granted(form)
        import json

        return json_reply({**json.loads(reply.body), "token_type": "DPoP"})

    server.on_token = bound

    def note(request: HTTPRequest) -> Any:
        if "dpop" in request.headers:
            proofs.append(request.headers["dpop"])
            assert request.headers["authorization"].startswith("DPoP ")
        return None

    server.on_resource = note
    store = MemoryStore()
    call(endpoint.url, oauth(dpop=True, store=store))
    server.expire_all()
    call(endpoint.url, OAuth(store=store, interactive=False))
    assert len(proofs) > 3
    assert len(set(proofs)) == len(proofs)


@pytest.mark.parametrize("way", ["by hand", "registered", "two steps", "credentials"])
def test_how_a_client_can_authenticate_is_found_out_once(server, endpoint, way) -> None:
    server.takes_basic = False
    server.clients["me"] = "s3cret"
    server.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_basic"]}
    server.on_register = lambda asked: json_reply(
        {**asked, "client_id": "me", "client_secret": "s3cret"}, 201
    )
    store = MemoryStore()

    def make() -> Any:
        if way == "credentials":
            return ClientCredentials("me", "s3cret", store=store)
        if way == "two steps":
            uri = "https://app.example/callback"
            return OAuth(redirect_uri=uri, client_id="me", client_secret="s3cret", store=store)
        given = {"client_id": "me", "client_secret": "s3cret"} if way == "by hand" else {}
        return oauth(store=store, **given)

    if way == "two steps":
        make().finish(agree(make().begin(endpoint.url).url))
    for _ in range(3):
        assert call(endpoint.url, make()) == {"sum": 3}
        server.expire_all()
    assert server.asked["token"] >= 3
    assert server.asked["basic"] == 1


# --- without a person ---------------------------------------------------------------------------------------


def test_client_credentials_get_another_token_when_it_has_expired(server, endpoint) -> None:
    server.clients["service"] = "s3cret"
    auth = ClientCredentials("service", "s3cret", scopes=["read"])
    with Client(endpoint.url, auth=auth) as client:
        for _ in range(2):
            assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}
            server.expire_all()
    assert server.asked["client_credentials"] == 2
    assert {form.get("scope") for form in server.forms} == {"read"}


def test_client_credentials_ask_for_more_when_that_is_demanded(server, endpoint) -> None:
    server.clients["service"] = "s3cret"
    server.needed_scope = {"add": "write"}
    assert call(endpoint.url, ClientCredentials("service", "s3cret", scopes=["read"])) == {"sum": 3}
    assert [form["scope"] for form in server.forms] == ["read", "read write"]


def test_the_token_of_client_credentials_is_replaced_ahead_of_its_expiry(server, endpoint) -> None:
    server.clients["service"] = "s3cret"
    server.lifetime = 0
    auth = ClientCredentials("service", "s3cret")
    with Client(endpoint.url, auth=auth) as client:
        client.call_tool("add", {"a": 1, "b": 2})
        server.asked.clear()
        client.call_tool("add", {"a": 1, "b": 2})
    assert server.asked["401"] == 0
    assert server.asked["client_credentials"] == 1


def test_a_wrong_secret_is_an_error_that_does_not_show_it(server, endpoint) -> None:
    server.clients["service"] = "s3cret"
    with pytest.raises(TokenRequestFailed, match="invalid_client") as caught:
        call(endpoint.url, ClientCredentials("service", "wr0ng"))
    assert "wr0ng" not in repr(caught.value) + str(vars(caught.value))


def test_a_workload_whose_token_is_refused_is_not_tried_in_another_way(server, endpoint) -> None:
    with pytest.raises(TokenRequestFailed):
        call(endpoint.url, WorkloadIdentity("a.b.c", "me"))
    assert server.asked["token"] == 1


def test_the_device_flow_waits_for_the_user_past_the_time_for_opening(
    server, endpoint, monkeypatch, set_forward
) -> None:
    from mcp_sync import Timeouts
    from mcp_sync.auth import _device

    monkeypatch.setattr(_device, "_SHORTEST_INTERVAL", 0.02)
    server.metadata = {"device_authorization_endpoint": server.issuer + "/register"}
    server.clients["me"] = None
    codes = {"device_code": "d", "user_code": "U", "verification_uri": server.issuer, "interval": 0.02}
    monkeypatch.setattr(server, "_register", lambda request: json_reply(codes))
    waits = iter(["authorization_pending"] * 3)

    def token(form: dict[str, str]) -> Any:
        error = next(waits, None)
        if error is not None:
            set_forward(40)
            return json_reply({"error": error}, 400)
        return server._tokens("", 99)

    server.on_token = token
    shown: list[Any] = []
    with Client(
        endpoint.url, auth=DeviceCode("me", show=shown.append), timeouts=Timeouts(open=30, probe=20)
    ) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}
    assert [prompt.user_code for prompt in shown] == ["U"]


# --- odd servers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "challenge",
    ['Bearer resource_metadata="not a url"', "Basic", "", '"', "Bearer error=", "Bearer,,,=", "\x80\xff"],
)
def test_garbage_in_the_challenge_is_no_reason_to_fail(server, endpoint, challenge) -> None:
    def answer(request: HTTPRequest) -> Any:
        if request.path == "/mcp" and "authorization" not in request.headers:
            return HTTPReply(401, {"WWW-Authenticate": challenge} if challenge else {})
        return None

    server.on_resource = answer
    assert call(endpoint.url, oauth()) == {"sum": 3}


def test_html_instead_of_metadata_is_an_error_that_says_where(server, endpoint) -> None:
    server.on_resource = lambda request: (
        HTTPReply(200, {"Content-Type": "text/html"}, b"<html>") if "well-known" in request.path else None
    )
    with pytest.raises(AuthError, match=r"http://127\.0\.0\.1:\d+ did not register this client") as caught:
        call(endpoint.url, oauth())
    assert caught.value.url


def test_errors_survive_pickling(endpoint) -> None:
    with pytest.raises(AuthorizationRequired) as caught:
        call(endpoint.url, OAuth(redirect_uri="https://app.example/callback"))
    twin = pickle.loads(pickle.dumps(caught.value))
    assert twin.url == caught.value.url


def test_the_map_of_the_package_names_every_module() -> None:
    folder = Path(auth.__file__).parent
    modules = {path.stem for path in folder.glob("_*.py")} - {"__init__"}
    assert modules == set(re.findall(r"``(_\w+)``", auth.__doc__ or ""))

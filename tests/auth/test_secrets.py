"""Secrets are nowhere but where they belong: all flows run, and everything that comes out is searched."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote_plus, urlsplit

import pytest
import requests

from mcp_sync import Client
from mcp_sync.auth import (
    BearerToken,
    ClientCredentials,
    DeviceCode,
    EnterpriseManaged,
    FileStore,
    LoopbackBrowser,
    MemoryStore,
    OAuth,
    WorkloadIdentity,
)
from mcp_sync.auth._dpop import new_key
from mcp_sync.errors import AuthError, MCPError
from mcp_sync.testing._http import HTTPReply

from .oauth_server import OAuthServer, agree, json_reply, visit
from .plain_server import PlainServer, Reply, Request

SECRET = "canary-client-secret"
WORKLOAD = "canary.workload.token"
SUBJECT = "canary.subject.token"
OWN = "canary-own-token"


class Catch(logging.Handler):
    """Collects every log message, with the tracebacks that go with it."""

    def __init__(self) -> None:
        super().__init__(0)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter("%(name)s %(message)s").format(record))
        self.lines.append(repr(record.args))


@pytest.fixture
def logs() -> Iterator[list[str]]:
    root, catch = logging.getLogger(), Catch()
    before = root.level
    root.addHandler(catch)
    root.setLevel(logging.DEBUG)
    try:
        yield catch.lines
    finally:
        root.removeHandler(catch)
        root.setLevel(before)


def call(url: str, auth: Any) -> Any:
    with Client(url, auth=auth) as client:
        return client.call_tool("add", {"a": 1, "b": 2}).structured_content


def secrets_of(server: OAuthServer, *more: str) -> set[str]:
    """Return all that was secret in what the authorization server has seen and given."""
    found = {SECRET, WORKLOAD, SUBJECT, OWN, *more}
    found |= (
        set(server.tokens)
        | set(server.revoked)
        | set(server.refresh_tokens)
        | set(server.used_refresh_tokens)
    )
    for form in server.forms:
        names = ("code", "code_verifier", "refresh_token", "client_assertion", "assertion", "subject_token")
        found |= {form[name] for name in names if name in form}
    found |= {query["state"] for query in server.authorizations}
    found |= {base64.b64encode(f"me:{SECRET}".encode()).decode()}
    return found | {quote_plus(each) for each in found}


def shown(error: BaseException) -> Iterator[str]:
    """Give everything that an error, and all that led to it, shows of itself."""
    yield "".join(traceback.format_exception(type(error), error, error.__traceback__))
    waiting: list[Any] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield str(each)
        yield repr(each)
        if isinstance(each, MCPError):
            # Where to send the user is meant for the user, and nobody else.
            values = {name: value for name, value in vars(each).items() if name != "url"}
            yield repr(values)
            twin = pickle.loads(pickle.dumps(each))
            yield repr(twin) + str(twin)
        else:
            try:
                yield pickle.dumps(each).decode("latin-1")
            except Exception:
                pass
        waiting += [each.__cause__, each.__context__]


def search(texts: list[str], secrets: set[str]) -> None:
    for secret in secrets:
        for text in texts:
            assert secret not in text, f"{secret!r} is in {text[:2000]!r}"


def whole_life(auth: OAuth, server: OAuthServer, url: str) -> list[Any]:
    """Log in, call, refresh, step up, log out; return all objects that took part."""
    store = auth.vault.store
    call(url, auth)
    (access,) = auth._accesses.values()
    in_use = access.in_use
    objects: list[Any] = [auth, access, in_use.current, in_use.current.grant, store]
    objects += [vars(access), vars(in_use)]
    server.expire_all()
    call(url, auth)
    server.needed_scope = {"add": "write"}
    call(url, auth)
    objects += [access.in_use.current, access.in_use.current.grant, auth.status(), auth.vault.grant(url)]
    objects += [auth.vault.client(server.issuer), auth.identity]
    key = auth.vault.grant_key(url)
    objects += [key, store.get(key) if key is not None else None]
    auth.logout()
    server.needed_scope = {}
    return objects


def test_a_login_shows_nothing(server, endpoint, logs, capfd, tmp_path) -> None:
    server.clients["me"] = SECRET
    objects = []
    for store in (MemoryStore(), FileStore(tmp_path / "grants.json")):
        auth = OAuth(
            client_id="me",
            client_secret=SECRET,
            interaction=LoopbackBrowser(open=visit, timeout=20),
            store=store,
        )
        objects += whole_life(auth, server, endpoint.url)
    texts = [*logs, *capfd.readouterr(), *map(repr, objects), *map(str, objects)]
    assert len(server.forms) >= 6
    search(texts, secrets_of(server))


def test_the_page_of_the_browser_shows_nothing(server, endpoint) -> None:
    pages: list[str] = []

    def open_it(url: str) -> bool:
        with requests.Session() as session:
            session.trust_env = False
            pages.append(session.get(url, timeout=10).text)
        return True

    call(endpoint.url, OAuth(interaction=LoopbackBrowser(open=open_it, timeout=20)))
    assert "You can close this page" in pages[0]
    search(pages, secrets_of(server))


def test_a_bound_token_shows_nothing_of_its_key(server, endpoint, logs, capfd) -> None:
    def bound(form: dict[str, str]) -> Any:
        reply = server._granted(form)
        return json_reply({**json.loads(reply.body), "token_type": "DPoP"})

    server.on_token = bound
    auth = OAuth(interaction=LoopbackBrowser(open=visit, timeout=20), dpop=True)
    call(endpoint.url, auth)
    (access,) = auth._accesses.values()
    key = access.in_use.current.grant.dpop_key["d"]
    in_use = access.in_use
    objects = [auth, access, in_use.current, in_use.current.prover, in_use.current.grant, vars(access)]
    objects += [vars(in_use)]
    auth.logout()
    search([*logs, *capfd.readouterr(), *map(repr, objects)], secrets_of(server, key))
    sent = [repr(request) for request in (*endpoint.requests, *server.plain.requests)]
    search(sent, {key})


def test_two_steps_show_nothing(server, endpoint, logs, capfd) -> None:
    auth = OAuth(redirect_uri="https://app.example/cb")
    flow = auth.begin(endpoint.url)
    pending = auth.vault.store.get(next(iter(auth.vault.store._store._values)))
    location = agree(flow.url)
    errors = []
    for answer in (location.replace("code=", "error=access_denied&x="), location):
        try:
            auth.finish(answer)
        except AuthError as error:
            errors.append(error)
    assert len(errors) == 2
    texts = [*logs, *capfd.readouterr(), repr(flow), repr(pending)]
    for error in errors:
        texts += shown(error)
    search(texts, {*secrets_of(server), flow.pending["verifier"], flow.state})


def machines(server: OAuthServer) -> dict[str, Callable[[], Any]]:
    key = new_key()
    return {
        "secret": lambda: ClientCredentials("me", SECRET),
        "secret in the form": lambda: ClientCredentials("me", SECRET, method="client_secret_post"),
        "key": lambda: ClientCredentials("me", private_key=key),
        "workload": lambda: WorkloadIdentity(WORKLOAD, "me", client_secret=SECRET),
        "enterprise": lambda: EnterpriseManaged(
            "me", SECRET, subject_token=SUBJECT, idp_token_endpoint=server.issuer + "/token"
        ),
        "device": lambda: DeviceCode("me", SECRET, show=lambda prompt: None),
        "login": lambda: OAuth(
            client_id="me", client_secret=SECRET, interaction=LoopbackBrowser(open=visit, timeout=20)
        ),
    }


def echo(form: dict[str, str]) -> Reply:
    """Refuse, and repeat everything that was sent, as careless servers do."""
    return json_reply({"error": "invalid_request", "error_description": " ".join(form.values())}, 400)


def page(form: dict[str, str]) -> Reply:
    """Refuse with a page that repeats everything."""
    return Reply(500, f"<html>{form}</html>".encode(), {"X-Echo": json.dumps(form)})


@pytest.mark.parametrize("refusal", [echo, page])
@pytest.mark.parametrize(
    "name", ["secret", "secret in the form", "key", "workload", "enterprise", "device", "login"]
)
def test_what_a_careless_server_repeats_is_not_repeated(server, endpoint, logs, capfd, name, refusal) -> None:
    server.clients["me"] = SECRET
    server.metadata = {
        "device_authorization_endpoint": server.issuer + "/token",
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "private_key_jwt"],
    }
    server.on_token = refusal
    auth = machines(server)[name]()
    with pytest.raises(AuthError) as caught:
        call(endpoint.url, auth)
    assert server.forms
    texts = [*logs, *capfd.readouterr(), repr(auth), *shown(caught.value)]
    search(texts, secrets_of(server))


@pytest.mark.parametrize("name", ["secret", "workload", "enterprise", "login"])
def test_a_broken_connection_shows_nothing(server, endpoint, logs, capfd, name) -> None:
    server.clients["me"] = SECRET

    def breaking(form: dict[str, str]) -> Any:
        raise ConnectionAbortedError

    server.on_token = breaking
    auth = machines(server)[name]()
    with pytest.raises(AuthError) as caught:
        call(endpoint.url, auth)
    capfd.readouterr()  # The traceback of the server.
    search([*logs, repr(auth), *shown(caught.value)], secrets_of(server))


def test_a_refused_token_is_not_repeated(server, endpoint, logs, capfd) -> None:
    auth = OAuth(interaction=LoopbackBrowser(open=visit, timeout=20))
    call(endpoint.url, auth)

    def refuse(request: Any) -> Any:
        if request.path != "/mcp":
            return None
        token = request.headers.get("authorization", "")
        challenge = f'Bearer error="invalid_token", error_description="{token} is no good"'
        return HTTPReply(401, {"WWW-Authenticate": challenge}, token.encode())

    server.on_resource = refuse
    with pytest.raises(AuthError) as caught:
        call(endpoint.url, auth)
    search([*logs, *capfd.readouterr(), *shown(caught.value)], secrets_of(server))


def test_each_server_gets_what_belongs_to_it(server, endpoint) -> None:
    """The MCP server gets access tokens, the authorization server all but those, another server nothing."""
    seen: list[Request] = []

    def answer(request: Request) -> Reply:
        seen.append(request)
        return Reply(401, b"", {"WWW-Authenticate": f'Bearer resource_metadata="{endpoint.url}"'})

    server.clients["me"] = SECRET
    auth = OAuth(client_id="me", client_secret=SECRET, interaction=LoopbackBrowser(open=visit, timeout=20))
    whole_life(auth, server, endpoint.url)
    call(endpoint.url, auth)
    with PlainServer(answer) as other:
        server.on_resource = lambda request: (
            HTTPReply(307, {"Location": other.origin + "/x"}) if request.path == "/mcp" else None
        )
        requests.post(endpoint.url, data=b"{}", auth=auth, timeout=10)
        try:
            call(endpoint.url, auth)
        except MCPError:
            pass
    assert seen
    secrets = secrets_of(server)
    search([repr(request) for request in seen], secrets)
    tokens = {secret for secret in secrets if secret.startswith("access-")}
    search([repr(request) for request in endpoint.requests], secrets - tokens)
    authorization = [r for r in server.plain.requests if urlsplit(r.path).path != "/revoke"]
    search([repr(request) for request in authorization], tokens)


def test_an_own_token_shows_nothing(server, endpoint, logs, capfd) -> None:
    auth = BearerToken(OWN)
    with pytest.raises(MCPError) as caught:
        call(endpoint.url, auth)
    search([*logs, *capfd.readouterr(), repr(auth), *shown(caught.value)], {OWN})

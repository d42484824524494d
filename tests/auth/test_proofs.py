"""The proofs of possession that go with requests: each is sent once, and is for the request that it is in."""

from __future__ import annotations

import base64
import itertools
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Optional

import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from mcp_sync.auth import LoopbackBrowser, OAuth
from mcp_sync.errors import AuthError
from mcp_sync.testing._http import HTTPReply, HTTPRequest

from .oauth_server import OAuthServer, json_reply, visit
from .plain_server import PlainServer, Reply, Request

Refuse = Callable[[HTTPRequest, dict[str, Any]], Optional[HTTPReply]]


def claims(proof: str) -> dict[str, Any]:
    text = proof.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))))


class World:
    """A server whose tokens are bound to keys, and a user who is logged in there.

    Attributes:
        seen: Method, path and the claims of the proof of each request with one.
        refuse: What refuses a request, given the claims of its proof.
    """

    def __init__(self, server: OAuthServer) -> None:
        self.server = server
        self.seen: list[tuple[str, str, dict[str, Any]]] = []
        self.refuse: Refuse = lambda request, proof: None
        plain = server._tokens

        def bound(scope: Optional[str], family: Optional[int]) -> Reply:
            return json_reply({**json.loads(plain(scope, family).body), "token_type": "DPoP"})

        server._tokens = bound  # type: ignore[method-assign]
        self.auth = OAuth(interaction=LoopbackBrowser(open=visit, timeout=20), dpop=True)

    def answer(self, request: Request) -> Reply:
        asked = HTTPRequest(request.method, request.path, request.headers, request.body)
        if "dpop" in request.headers:
            proof = claims(request.headers["dpop"])
            self.seen.append((request.method, request.path, proof))
            refusal = self.refuse(asked, proof)
            if refusal is not None:
                return Reply(refusal.status, refusal.body, dict(refusal.headers))
        canned = self.server.protect(asked)
        return Reply(200) if canned is None else Reply(canned.status, canned.body, dict(canned.headers))


@pytest.fixture
def world() -> Iterator[World]:
    with OAuthServer() as server:
        yield World(server)


@pytest.fixture
def url(world: World) -> Iterator[str]:
    with PlainServer(world.answer) as resource:
        url = resource.origin + "/mcp"
        requests.get(url, auth=world.auth, timeout=20).close()
        world.seen.clear()
        world.server.asked.clear()
        yield url


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


def wants(nonce: str, challenge: str = 'DPoP error="use_dpop_nonce"') -> HTTPReply:
    return HTTPReply(401, {"WWW-Authenticate": challenge, "DPoP-Nonce": nonce})


def ids(world: World) -> list[str]:
    return [proof["jti"] for _, _, proof in world.seen]


def test_threads_do_not_take_each_others_nonces(world, url) -> None:
    """Each nonce is good for one request: what another thread got meanwhile is none for this one."""
    numbers, valid, lock = itertools.count(), set(), threading.Lock()

    def refuse(request: HTTPRequest, proof: dict[str, Any]) -> Any:
        with lock:
            if proof.get("nonce") in valid:
                valid.discard(proof["nonce"])
                return None
            valid.add(nonce := f"n{next(numbers)}")
        return wants(nonce)

    world.refuse = refuse
    start = threading.Barrier(8)

    def work() -> list[int]:
        start.wait()
        with requests.Session() as session:
            return [session.get(url, auth=world.auth, timeout=20).status_code for _ in range(6)]

    with ThreadPoolExecutor(8) as pool:
        done = [each.result(50) for each in [pool.submit(work) for _ in range(8)]]
    assert done == [[200] * 6] * 8
    assert world.server.asked["token"] == 0
    assert len(world.seen) <= 2 * 48
    assert len(set(ids(world))) == len(world.seen)


def test_a_server_that_wants_ever_other_nonces_costs_two_requests_and_no_token(world, url) -> None:
    numbers = itertools.count()
    world.refuse = lambda request, proof: wants(f"n{next(numbers)}")
    with pytest.raises(AuthError, match="refuses a proof with the nonce that it has just given"):
        requests.get(url, auth=world.auth, timeout=20)
    assert len(world.seen) == 2
    assert world.server.asked["token"] == 0


@pytest.mark.parametrize(
    "challenge",
    ['Bearer error="invalid_token", DPoP error="use_dpop_nonce"', 'Bearer, DPoP error="use_dpop_nonce"'],
)
def test_what_a_server_says_of_bearer_tokens_does_not_count_for_bound_ones(world, url, challenge) -> None:
    world.refuse = lambda request, proof: None if proof.get("nonce") == "n" else wants("n", challenge)
    assert requests.get(url, auth=world.auth, timeout=20).status_code == 200
    assert world.server.asked["token"] == 0


def test_a_prepared_request_is_sent_with_another_proof_each_time(world, url, session) -> None:
    prepared = session.prepare_request(requests.Request("POST", url, data=b"{}", auth=world.auth))
    for _ in range(3):
        assert session.send(prepared, timeout=20).status_code == 200
    assert session.send(prepared.copy(), timeout=20).status_code == 200
    assert len(set(ids(world))) == len(world.seen) == 4


def test_a_retry_of_the_library_below_brings_another_proof(world, url, session) -> None:
    session.mount("http://", HTTPAdapter(max_retries=Retry(2, status_forcelist=[503], allowed_methods=None)))
    replies = iter([HTTPReply(503), HTTPReply(503)])
    world.refuse = lambda request, proof: next(replies, None)
    assert session.post(url, data=b"{}", auth=world.auth, timeout=20).status_code == 200
    assert len(set(ids(world))) == len(world.seen) == 3


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [(307, "POST", "POST"), (303, "POST", "GET"), (301, "POST", "GET"), (302, "POST", "GET")],
)
@pytest.mark.parametrize("is_refused_first", [False, True])
def test_after_a_redirect_the_proof_is_for_where_it_leads(
    world, url, session, status, method, then, is_refused_first
) -> None:
    def refuse(request: HTTPRequest, proof: dict[str, Any]) -> Any:
        if is_refused_first and proof.get("nonce") != "n":
            return wants("n")
        return HTTPReply(status, {"Location": "/mcp/there?x=1"}) if request.path == "/mcp" else None

    world.refuse = refuse
    assert session.request(method, url, data=b"{}", auth=world.auth, timeout=20).status_code == 200
    *_, (last, path, proof) = world.seen
    assert (last, path) == (then, "/mcp/there?x=1")
    assert (proof["htm"], proof["htu"]) == (then, url + "/there")
    assert len(set(ids(world))) == len(world.seen)


def test_a_redirected_request_that_is_sent_again_begins_where_it_began(world, url, session) -> None:
    world.refuse = lambda request, proof: (
        HTTPReply(303, {"Location": "/mcp/there"}) if request.path == "/mcp" else None
    )
    prepared = session.prepare_request(requests.Request("POST", url, data=b"{}", auth=world.auth))
    for _ in range(2):
        session.send(prepared, timeout=20)
    said = [(method, proof["htm"], proof["htu"].rpartition("/")[2]) for method, _, proof in world.seen]
    assert said == [("POST", "POST", "mcp"), ("GET", "GET", "there")] * 2


@pytest.mark.parametrize("is_refused_first", [False, True])
def test_no_proof_follows_a_redirect_to_another_server(world, url, session, is_refused_first) -> None:
    with PlainServer(lambda request: Reply(200)) as other:

        def refuse(request: HTTPRequest, proof: dict[str, Any]) -> Any:
            if is_refused_first and proof.get("nonce") != "n":
                return wants("n")
            return HTTPReply(307, {"Location": other.origin + "/x"})

        world.refuse = refuse
        assert session.post(url, data=b"{}", auth=world.auth, timeout=20).status_code == 200
        (there,) = other.requests
    assert "dpop" not in there.headers
    assert "authorization" not in there.headers


def test_a_token_that_is_not_bound_any_more_goes_without_a_proof(world, url, session) -> None:
    prepared = session.prepare_request(requests.Request("GET", url, auth=world.auth))
    del world.server._tokens
    world.server.expire_all()
    assert session.send(prepared, timeout=20).status_code == 200
    before = len(world.seen)
    assert session.send(prepared, timeout=20).status_code == 200
    assert len(world.seen) == before


def test_a_proof_of_the_users_own_stays(world, url) -> None:
    request = requests.Request("GET", url, auth=world.auth).prepare()
    request.headers["DPoP"] = "mine"
    assert dict(request.headers)["DPoP"] == "mine"
    assert request.copy().headers["dpop"] == "mine"

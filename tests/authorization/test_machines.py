"""Nobody at this machine logs in: credentials, keys, codes for another device, tokens bound to keys."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mcp_sync import Client, TokenRequestFailed
from mcp_sync.auth import (
    ClientCredentials,
    DeviceCode,
    EnterpriseManaged,
    LoopbackBrowser,
    MemoryStore,
    OAuth,
    WorkloadIdentity,
)

from .conftest import MAKERS, World
from .harness import Robot
from .users import by_robot, echo, make_expired, silent

pytestmark = pytest.mark.interop

KEY = ec.generate_private_key(ec.SECP256R1())
PEM = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)
PUBLIC = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key()))


def register(world: World, client_id: str, method: str, grant_type: str = "client_credentials") -> None:
    """Register a client by hand at Authlib."""
    client: dict[str, Any] = {
        "client_id": client_id,
        "token_endpoint_auth_method": method,
        "grant_types": [grant_type],
    }
    client.update(
        {"jwks": {"keys": [PUBLIC]}} if method == "private_key_jwt" else {"client_secret": "s3cret"}
    )
    world.authlib.tell(clients=[client])


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "private_key_jwt"])
def test_an_application_logs_in_by_itself_again_and_again(world: World, maker: str, method: str) -> None:
    register(world, "robot", method)
    if method == "private_key_jwt":
        auth = ClientCredentials("robot", private_key=PEM, scopes=["notes"])
    else:
        auth = ClientCredentials("robot", "s3cret", method=method, scopes=["notes"])
    url = world.protected[maker, "authlib"].url
    with Client(url, auth=auth) as client:
        assert echo(client) == "hello"
        world.authlib.tell(expire=True)
        assert echo(client) == "hello"
    assert world.authlib.counters == {"tokens": 2}
    assert auth.status(url).scope == "notes"


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_an_application_need_not_say_how_it_authenticates(world: World, method: str) -> None:
    register(world, "robot", method)
    with Client(world.protected["sdk2", "authlib"].url, auth=ClientCredentials("robot", "s3cret")) as client:
        assert echo(client) == "hello"


def test_an_application_logs_in_at_another_make_of_server(world: World) -> None:
    auth = ClientCredentials("robot", "of-the-robot", scopes=["notes"])
    with Client(world.protected["sdk1", "oidc"].url, auth=auth) as client:
        assert echo(client) == "hello"
    assert world.oidc.counters == {"client_credentials": 1}


def test_a_wrong_secret_is_refused_and_shown_nowhere(world: World, caplog: pytest.LogCaptureFixture) -> None:
    register(world, "robot", "client_secret_basic")
    caplog.set_level("DEBUG")
    auth = ClientCredentials("robot", "canary-secret")
    with pytest.raises(TokenRequestFailed) as caught:
        Client(world.protected["sdk2", "authlib"].url, auth=auth).open()
    assert caught.value.error == "invalid_client"
    assert caught.value.url.startswith(world.authlib.origin)
    assert "canary" not in f"{caught.value!r} {caught.value} {auth!r} {caplog.text}"


def test_a_workload_shows_the_token_of_its_platform(world: World) -> None:
    register(world, "platform", "private_key_jwt", "urn:ietf:params:oauth:grant-type:jwt-bearer")

    def token() -> str:
        now = int(time.time())
        claims = {"iss": "platform", "sub": "pod-7", "aud": world.authlib.issuer, "iat": now, "exp": now + 60}
        return jwt.encode(claims, PEM, "ES256")

    with Client(world.protected["sdk2", "authlib"].url, auth=WorkloadIdentity(token)) as client:
        assert echo(client) == "hello"
    (request,) = world.authlib.requests_for("/token")
    assert set(request["form"]) == {"grant_type", "assertion", "scope", "resource"}
    assert request["authorization"] == ""


def test_the_identity_provider_of_an_enterprise_vouches_for_its_users(world: World) -> None:
    """Two Authlibs: one is the provider, the other believes it."""
    grant_types = ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    world.authlib.tell(clients=[{"client_id": "app", "client_secret": "s3cret", "grant_types": grant_types}])
    named = {"client_id": "app-at-work", "client_secret": "of-work", "known_elsewhere_as": "app"}
    world.tenant.tell(clients=[named], settings={"id_token": "alice-has-logged-in"})
    tokens = iter(["alice-has-logged-in", "alice-has-logged-in", "mallory"])
    auth = EnterpriseManaged(
        "app",
        "s3cret",
        subject_token=lambda: next(tokens),
        idp_issuer=world.tenant.issuer,
        idp_client_id="app-at-work",
        idp_client_secret="of-work",
    )
    with Client(world.protected["sdk2", "authlib"].url, auth=auth) as client:
        assert echo(client) == "hello"
        world.authlib.tell(expire=True)
        assert echo(client) == "hello"
        world.authlib.tell(expire=True)
        with pytest.raises(TokenRequestFailed, match="nobody has this ID token") as caught:
            echo(client)
    assert caught.value.url == world.tenant.issuer + "/token"
    assert "mallory" not in str(caught.value)
    seen = json.dumps(world.authlib.requests)
    assert "alice-has-logged-in" not in seen
    assert "of-work" not in seen
    assert "s3cret" not in json.dumps(world.tenant.requests)


@pytest.mark.parametrize("name", ["authlib", "oidc"])
def test_a_user_agrees_on_another_device(world: World, robot: Robot, name: str) -> None:
    shown: list[Any] = []
    visits: list[threading.Thread] = []

    def show(prompt: Any) -> None:
        shown.append(prompt)
        visits.append(threading.Thread(target=robot.visit, args=(prompt.verification_uri_complete,)))
        visits[0].start()

    store = MemoryStore()
    url = world.protected["sdk2", name].url
    auth = DeviceCode(show=show, store=store)
    with Client(url, auth=auth) as client:
        assert echo(client) == "hello"
        make_expired(auth.vault, url)
    visits[0].join(20)
    assert len(shown) == 1
    again = DeviceCode(show=show, store=store)
    with Client(url, auth=again) as client:
        assert echo(client) == "hello"
    assert len(shown) == 1, "the refresh token does"


def test_a_user_who_refuses_on_another_device_ends_the_wait(world: World, robot: Robot) -> None:
    def show(prompt: Any) -> None:
        robot.visit(prompt.verification_uri_complete, allow="no")

    with pytest.raises(Exception, match="access_denied"):
        Client(world.protected["sdk2", "authlib"].url, auth=DeviceCode(show=show)).open()
    assert "tokens" not in world.authlib.counters


@pytest.mark.parametrize("nonce", [False, True])
def test_a_token_bound_to_a_key_comes_with_a_proof_each_time(world: World, robot: Robot, nonce: bool) -> None:
    """The MCP server always wants nonces; both servers check the proofs."""
    world.oidc.set(requireNonce=nonce)
    store = MemoryStore()
    oauth = by_robot(robot, dpop=True, store=store)
    with Client(world.bound.url, auth=oauth) as client:
        assert [echo(client, text) for text in "abc"] == ["a", "b", "c"]
    assert oauth.status().token_type == "DPoP"
    old = make_expired(oauth.vault, world.bound.url)
    with Client(world.bound.url, auth=silent(store, dpop=True)) as client:
        assert echo(client) == "hello"
    held = oauth.vault.grant(world.bound.url)
    assert held is not None
    assert held.grant.access_token != old
    counters = world.bound.counters
    assert counters["proofs"] >= 6
    assert 1 <= counters["use_dpop_nonce"] <= 2, "once for each client that does not know the nonce yet"
    assert "invalid_dpop_proof" not in counters
    assert world.oidc.counters["refresh_token"] == 1


def test_without_a_key_a_server_that_wants_one_says_so(world: World, robot: Robot) -> None:
    oauth = OAuth(interaction=LoopbackBrowser(open=robot, timeout=30))
    with pytest.raises(Exception, match="refuses a new token as well") as caught:
        Client(world.bound.url, auth=oauth).open()
    assert caught.value.url == world.bound.url

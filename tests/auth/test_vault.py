"""The typed view of a store: records go in and come out whole, or not at all."""

from __future__ import annotations

import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from mcp_sync.auth._reading import read_record
from mcp_sync.auth._records import ClientRecord, Grant, Key, Pending, ServerRecord
from mcp_sync.auth._registration import ClientIdentity
from mcp_sync.auth._store import MemoryStore
from mcp_sync.auth._vault import Vault, application_name, registration_name, server_name

from .store_worker import KINDS, open_store

SERVER = "https://mcp.example/mcp"
ISSUER = "https://as.example"
FOUND = ServerRecord(ISSUER, SERVER, {"issuer": ISSUER, "token_endpoint": f"{ISSUER}/t"}, ("read", "write"))
CLIENT = ClientRecord(
    ISSUER, "c1", "canary-secret", "client_secret_post", 9e9, True, ("http://127.0.0.1/cb",)
)
GRANT = Grant(
    ISSUER,
    SERVER,
    "c1",
    "canary-access",
    "DPoP",
    1234.5,
    "canary-refresh",
    "read",
    "read write",
    {"kty": "EC", "crv": "P-256", "x": "x", "y": "y", "d": "canary-key"},
)


def pending(state: str = "canary-state", created_at: float = 1000.0, principal: str = "ann") -> Pending:
    return Pending(
        f"{ISSUER}/authorize?state={state}", state, "canary-verifier", SERVER, principal,
        FOUND.to_json(), CLIENT.to_json(), "https://app.example/cb", None, created_at,
    )  # fmt: skip


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def vault(store: MemoryStore, clock: Clock) -> Vault:
    return vault_of(store, "ann", clock=clock)


def vault_of(store: Any, principal: str = "", clock: Any = None, **said: Any) -> Vault:
    return Vault(store, ClientIdentity(**said), None, principal, clock or Clock())


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_comes_back_as_it_was(kind, tmp_path):
    vault = vault_of(open_store(kind, tmp_path), "ann")
    assert vault.grant(SERVER) is None
    vault.keep_found(SERVER, FOUND)
    vault.keep_client(CLIENT)
    assert vault.keep_grant(SERVER, GRANT, None)
    vault.keep_pending(pending())
    assert vault.found(SERVER) == FOUND
    assert vault.client(ISSUER) == CLIENT
    held = vault.grant(SERVER)
    assert held is not None
    assert held.grant == GRANT
    assert vault.pending("canary-state") == pending()


@pytest.mark.parametrize(
    "record",
    [
        ServerRecord(ISSUER, None, {}),
        ClientRecord(ISSUER, "c"),
        Grant(ISSUER, None, "c", "t"),
        pending(),
        FOUND,
        CLIENT,
        GRANT,
    ],
)
def test_records_survive_json_with_and_without_what_may_be_missing(record):
    text = json.dumps(record.to_json())
    assert type(record).from_json(json.loads(text)) == record
    assert read_record(type(record), json.loads(text)) == record


def test_a_server_without_a_resource_has_its_grant_under_its_url(vault):
    vault.keep_found(SERVER, replace(FOUND, resource=None))
    assert vault.keep_grant(SERVER, replace(GRANT, resource=None), None)
    assert vault.grant(SERVER).grant.resource is None
    assert vault.grant_key(SERVER)[:4] == ("grant", ISSUER, SERVER, "ann")


def test_a_server_is_known_without_query_fragment_and_password(vault):
    vault.keep_found("HTTPS://user:pw@MCP.example/Mcp?key=1#x", FOUND)
    assert vault.found("https://mcp.example/Mcp") == FOUND
    assert server_name("https://u:p@h:8080/a?b#c") == "https://h:8080/a"
    assert server_name("https://h:443/") == server_name("https://H") == "https://h"
    assert server_name("https://h/mcp/") == "https://h/mcp"


def test_the_latest_finding_and_registration_win(vault):
    vault.keep_found(SERVER, FOUND)
    vault.keep_found(SERVER, replace(FOUND, scopes_supported=None))
    assert vault.found(SERVER).scopes_supported is None
    vault.keep_client(CLIENT)
    vault.keep_client(replace(CLIENT, client_id="c2"))
    assert vault.client(ISSUER).client_id == "c2"


def test_a_dead_registration_is_forgotten_but_not_the_one_that_replaced_it(vault):
    vault.keep_client(replace(CLIENT, client_id="new"))
    vault.forget_client(ISSUER, CLIENT)
    assert vault.client(ISSUER).client_id == "new"
    vault.forget_client(ISSUER, replace(CLIENT, client_id="new"))
    assert vault.client(ISSUER) is None
    vault.keep_client(CLIENT)
    vault.forget_client(ISSUER)
    assert vault.client(ISSUER) is None


def names(function: Any) -> list[Any]:
    """Return what a function makes of applications that are different."""

    def name(redirect_uri: Any = None, **said: Any) -> Any:
        return function(ClientIdentity(**said), redirect_uri)

    return [
        name(),
        name("http://127.0.0.1:1/cb"),
        name("https://a.example/cb"),
        name("https://b.example/cb"),
        name("http://127.0.0.1:1/cb", client_name="another"),
        name("http://127.0.0.1:1/cb", client_id="by-hand"),
        name("http://127.0.0.1:1/cb", client_id="another"),
        name("http://127.0.0.1:1/cb", software_id="1"),
        name("http://127.0.0.1:1/cb", method="client_secret_post"),
        name("http://127.0.0.1:1/cb", grant_types=("client_credentials",)),
        name("http://127.0.0.1:1/cb", client_id="by-hand", grant_types=("client_credentials",)),
        name("http://127.0.0.1:1/cb", metadata_url="https://app.example/client.json"),
    ]


@pytest.mark.parametrize("function", [registration_name, application_name])
def test_applications_share_a_registration_and_a_grant_only_where_they_are_the_same(function):
    different = names(function)
    assert len(set(different)) == len(different)
    one = function(ClientIdentity(), "http://127.0.0.1:1234/cb")
    assert one == function(ClientIdentity(), "http://localhost:99/callback")


@pytest.mark.parametrize("said", [{"client_id": "a"}, {"metadata_url": "https://app.example/client.json"}])
def test_an_application_with_a_name_has_its_grants_wherever_its_users_are_sent_back_to(said):
    identity = ClientIdentity(**said)
    assert application_name(identity, "https://a.example/cb") == application_name(identity)
    assert registration_name(identity, "https://a.example/cb") != registration_name(identity)


def test_a_registration_is_kept_by_issuer_for_all_users(store):
    vault_of(store, "ann").keep_client(CLIENT)
    assert vault_of(store, "bob").client(ISSUER) == CLIENT
    assert vault_of(store, "bob").client("https://other.example") is None
    assert vault_of(store, "bob", client_name="another").client(ISSUER) is None


def test_where_a_client_belongs_that_was_registered_by_hand_is_settled_once_for_all_users(store):
    by_hand = ClientRecord(ISSUER, "c1")
    vault_of(store, "ann", client_id="c1").keep_first_client(by_hand)
    bob = vault_of(store, "bob", client_id="c1", grant_types=("client_credentials",))
    bob.keep_first_client(ClientRecord("https://other.example", "c1"))
    assert bob.first_client() == by_hand
    assert vault_of(store, "ann", client_id="c2").first_client() is None
    bob.forget_first_client()
    assert vault_of(store, "ann", client_id="c1").first_client() is None


def test_a_grant_is_replaced_and_removed_only_by_somebody_who_knows_it(vault):
    vault.keep_found(SERVER, FOUND)
    assert vault.keep_grant(SERVER, GRANT, None)
    first = vault.grant(SERVER)
    newer = replace(GRANT, access_token="newer")
    assert vault.keep_grant(SERVER, newer, first.version)
    assert not vault.keep_grant(SERVER, GRANT, first.version)
    assert not vault.keep_grant(SERVER, GRANT, None)
    assert not vault.forget_grant(SERVER, first.version)
    assert vault.grant(SERVER).grant == newer
    assert vault.forget_grant(SERVER, vault.grant(SERVER).version)
    assert vault.grant(SERVER) is None


def test_a_grant_is_forgotten_whatever_it_is_where_no_version_is_named(vault):
    assert vault.forget_grant(SERVER, None)
    vault.keep_found(SERVER, FOUND)
    vault.keep_grant(SERVER, GRANT, None)
    assert vault.forget_grant(SERVER, None)
    assert vault.grant(SERVER) is None


def test_the_grants_of_users_servers_and_authorization_servers_are_kept_apart(vault):
    vault.keep_found(SERVER, FOUND)
    vault.keep_grant(SERVER, GRANT, None)
    assert vault.grant("https://mcp.example/other") is None
    vault.keep_found(SERVER, replace(FOUND, issuer="https://new.example"))
    assert vault.grant(SERVER) is None
    vault.keep_found(SERVER, FOUND)
    assert vault.grant(SERVER).grant == GRANT


@pytest.mark.parametrize(
    "other",
    [
        {"principal": "bob"},
        {"client_id": "another"},
        {"client_name": "another"},
        {"issuer": "https://new.example"},
        {"grant_types": ("client_credentials",)},
    ],
)
def test_what_a_user_has_chosen_and_was_granted_is_that_of_nobody_else(store, vault, other):
    vault.keep_found(SERVER, FOUND)
    vault.keep_grant(SERVER, GRANT, None)
    principal = other.pop("principal", "ann")
    others = vault_of(store, principal, **other)
    assert others.found(SERVER) is None
    others.keep_found(SERVER, replace(FOUND, issuer="https://new.example"))
    assert others.keep_grant(SERVER, replace(GRANT, issuer="https://new.example"), None)
    assert others.forget_grant(SERVER, None)
    assert vault.grant(SERVER).grant == GRANT
    again = vault_of(store, "ann")
    assert again.found(SERVER) == FOUND
    assert again.grant(SERVER).grant == GRANT


@pytest.mark.parametrize("kind", KINDS)
def test_a_pending_authorization_is_taken_once_however_many_callbacks_come(kind, tmp_path):
    vault = vault_of(open_store(kind, tmp_path), "ann")
    vault.keep_pending(pending())
    start = threading.Barrier(8)

    def take() -> Any:
        start.wait()
        return vault.take_pending(pending())

    with ThreadPoolExecutor(8) as pool:
        taken = [done.result() for done in [pool.submit(take) for _ in range(8)]]
    assert taken.count(True) == 1
    assert vault.pending("canary-state") is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_pending_authorization_that_the_application_keeps_is_taken_once_too(kind, tmp_path):
    vault = vault_of(open_store(kind, tmp_path), "ann")
    assert vault.take_pending(pending())
    assert not vault.take_pending(pending())
    assert vault.pending("canary-state") is None


@pytest.mark.parametrize(("later", "there"), [(3599, True), (3601, False), (-3599, True), (-3601, False)])
def test_a_pending_authorization_lasts_an_hour(vault, clock, later, there):
    vault.keep_pending(pending())
    clock.now += later
    assert (vault.pending("canary-state") is not None) == there
    assert vault.take_pending(pending()) == there
    assert not vault.take_pending(pending())


def test_no_state_and_an_unknown_state_are_those_of_none(vault):
    vault.keep_pending(pending())
    assert vault.pending("") is None
    assert vault.pending("another") is None
    assert vault.pending("canary-state") is not None


def test_what_is_given_back_waits_on_and_can_be_taken_again(vault):
    vault.keep_pending(pending())
    assert vault.take_pending(pending())
    vault.give_back_pending(pending())
    assert vault.pending("canary-state") == pending()
    assert vault.take_pending(pending())


def test_what_is_left_of_a_used_authorization_holds_no_secret_and_goes_after_its_hour(vault, store, clock):
    key = Key("pending", resource="canary-state")
    vault.keep_pending(pending())
    assert vault.take_pending(pending())
    assert store.get(key).value == {"used": 1000.0}
    clock.now += 4000
    vault.keep_pending(pending("last", clock.now))
    assert store.get(key) is None


def test_a_used_authorization_stays_known_however_many_wait(vault, clock):
    assert vault.take_pending(pending())
    for number in range(101):
        vault.keep_pending(pending(f"s{number}", clock.now + number))
    assert not vault.take_pending(pending())


def test_authorizations_that_were_given_up_do_not_pile_up(vault, store, clock):
    for number in range(5):
        vault.keep_pending(pending(f"s{number}", clock.now))
    clock.now += 4000
    vault.keep_pending(pending("last", clock.now))
    assert [store.get(Key("pending", resource=f"s{number}")) for number in range(5)] == [None] * 5
    assert vault.pending("last") is not None


def test_of_very_many_authorizations_of_one_user_the_oldest_goes(vault, clock):
    for number in range(101):
        vault.keep_pending(pending(f"s{number}", clock.now + number))
    vault.keep_pending(pending("bobs", clock.now, "bob"))
    assert vault.pending("s0") is None
    assert all(vault.pending(state) is not None for state in ("s1", "s100", "bobs"))


def test_a_broken_list_of_pending_authorizations_is_begun_anew(vault, store):
    index = Key("pending", principal="ann")
    for value in ({"waiting": [1]}, {}, {"waiting": {"a": "b"}}):
        held = store.get(index)
        store.put(index, value, held.version if held else None)
        vault.keep_pending(pending())
        assert store.get(index).value == {"waiting": {"canary-state": 1000.0}, "used": {}}


def broken(**changes: Any) -> dict[str, Any]:
    value = {**GRANT.to_json(), **changes}
    return {name: item for name, item in value.items() if item is not ...}


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (broken(access_token=...), "access_token"),
        (broken(access_token=None), "access_token"),
        (broken(access_token=["canary-access"]), "access_token"),
        (broken(expires_at="canary-soon"), "expires_at"),
        (broken(expires_at=True), "expires_at"),
        (broken(refresh_token=5), "refresh_token"),
        (broken(dpop_key="canary-key"), "dpop_key"),
        ({}, "issuer, client_id, access_token"),
    ],
)
def test_a_broken_record_counts_as_absent_and_may_be_replaced(vault, store, caplog, value, field):
    vault.keep_found(SERVER, FOUND)
    store.put(vault.grant_key(SERVER), value, None)
    with caplog.at_level(logging.WARNING, "mcp_sync.auth"):
        assert vault.grant(SERVER) is None
    assert (
        f"The grant record kept for {ISSUER} is left out: missing or of a wrong type: {field}" in caplog.text
    )
    assert "canary" not in caplog.text
    assert vault.keep_grant(SERVER, GRANT, None)
    assert vault.grant(SERVER).grant == GRANT


def test_that_a_record_is_left_out_is_said_once_until_it_changes(vault, store, caplog):
    vault.keep_found(SERVER, FOUND)
    key = vault.grant_key(SERVER)
    with caplog.at_level(logging.WARNING, "mcp_sync.auth"):
        for is_there in (False, True):
            store.put(key, {}, store.get(key).version if is_there else None)
            assert [vault.grant(SERVER) for _ in range(3)] == [None] * 3
    assert caplog.text.count("is left out") == 2


def test_broken_records_of_the_other_kinds_count_as_absent_too(vault, store, caplog):
    vault.keep_found(SERVER, FOUND)
    server = next(key for key in store._values if key.kind == "server")
    store.put(server, {"issuer": ISSUER, "metadata": "canary"}, store.get(server).version)
    store.put(vault.client_key(ISSUER), {"client_id": 5, "client_secret": "canary"}, None)
    store.put(Key("pending", resource="canary-state"), {"verifier": "canary"}, None)
    assert vault.found(SERVER) is None
    assert vault.client(ISSUER) is None
    assert vault.pending("canary-state") is None
    assert len(caplog.records) == 3
    assert "canary" not in caplog.text
    vault.keep_found(SERVER, FOUND)
    vault.forget_client(ISSUER, CLIENT)
    assert vault.found(SERVER) == FOUND
    assert store.get(vault.client_key(ISSUER)) is None


def test_what_a_newer_release_has_added_is_left_out(vault, store):
    vault.keep_found(SERVER, FOUND)
    store.put(vault.grant_key(SERVER), broken(of_the_future={"a": 1}), None)
    assert vault.grant(SERVER).grant == GRANT


def test_null_is_the_same_as_nothing(vault, store):
    vault.keep_found(SERVER, FOUND)
    value = broken(token_type=None, scope=None, expires_at=None, resource=None)
    store.put(vault.grant_key(SERVER), value, None)
    grant = vault.grant(SERVER).grant
    assert (grant.token_type, grant.scope, grant.expires_at, grant.resource) == ("Bearer", None, None, None)


def test_no_representation_shows_a_secret(vault):
    vault.keep_found(SERVER, FOUND)
    vault.keep_grant(SERVER, GRANT, None)
    assert "canary" not in repr(vault.grant(SERVER)) + repr(vault) + repr(pending()) + repr(CLIENT)

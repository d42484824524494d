"""What users set: whatever makes no sense is a `UsageError` that says what would, and nothing else."""

from __future__ import annotations

import inspect
from typing import Any, Callable

import pytest

from mcp_sync.auth import (
    BearerToken,
    ClientCredentials,
    DeviceCode,
    EnterpriseManaged,
    FileStore,
    KeyringStore,
    LoopbackBrowser,
    OAuth,
    PasteBack,
    SQLiteStore,
    WorkloadIdentity,
)
from mcp_sync.errors import AuthError, UsageError

WRONG = [
    None,
    5,
    -1,
    1.5,
    float("nan"),
    True,
    b"x",
    "",
    "a b",
    [],
    [5],
    {},
    {"a": 1},
    ("a", 5),
    object(),
    int,
    len,
]
SETTINGS = [
    *("store", "principal", "server_url", "allow_private", "allow_http", "dpop", "verify", "proxies", "cert"),
    "leeway",
]
MADE: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "OAuth": (OAuth, {}),
    "OAuth by hand": (OAuth, {"client_id": "me", "client_secret": "s"}),
    "ClientCredentials": (ClientCredentials, {"client_id": "me", "client_secret": "s"}),
    "BearerToken": (BearerToken, {"token": "t"}),
    "DeviceCode": (DeviceCode, {}),
    "WorkloadIdentity": (WorkloadIdentity, {"token": "t", "client_id": "me"}),
    "from_file": (WorkloadIdentity.from_file, {"path": "x"}),
    "from_environment": (WorkloadIdentity.from_environment, {"name": "X"}),
    "EnterpriseManaged": (
        EnterpriseManaged,
        {
            "client_id": "me",
            "client_secret": "s",
            "idp_issuer": "https://idp.example",
            "idp_client_id": "i",
            "subject_token": "t",
        },
    ),
    "LoopbackBrowser": (LoopbackBrowser, {}),
    "PasteBack": (PasteBack, {}),
}


def names(make: Callable[..., Any]) -> list[str]:
    params = inspect.signature(make).parameters.values()
    rest = SETTINGS if any(each.kind is each.VAR_KEYWORD for each in params) else []
    return [each.name for each in params if each.kind is not each.VAR_KEYWORD] + rest


@pytest.mark.parametrize("what", MADE)
def test_wrong_values_are_taken_or_refused_as_a_wrong_use(what) -> None:
    make, given = MADE[what]
    for name in names(make):
        refused = 0
        for value in WRONG:
            try:
                make(**{**given, name: value})
            except UsageError:
                refused += 1
        assert refused, name


@pytest.mark.parametrize("make", [FileStore, SQLiteStore])
@pytest.mark.parametrize("path", [None, 5, b"x", ["x"], object()])
def test_a_store_is_in_a_place(make, path) -> None:
    with pytest.raises(UsageError, match="path must be a path"):
        make(path)


@pytest.mark.parametrize("options", [{"service": 5}, {"service": ""}, {"lock_folder": 5}], ids=str)
def test_a_keyring_has_a_service_and_a_folder(options) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        KeyringStore(**options)


@pytest.mark.parametrize("scopes", ["read", "read write", 5, b"read", {"read": True}, ["read", 5], [None]])
def test_scopes_are_lists_of_strings_everywhere(scopes) -> None:
    web = OAuth(redirect_uri="https://app.example/callback")
    tries = [
        lambda: OAuth(scopes=scopes),
        lambda: ClientCredentials("me", "s", scopes=scopes),
        lambda: web.begin("https://mcp.example/mcp", scopes=scopes),
    ]
    for make in tries:
        with pytest.raises(UsageError, match=r'scopes must be a list of strings such as \["read", "write"\]'):
            make()


def test_scopes_may_come_from_anywhere() -> None:
    for scopes in (["read", "write"], ("read", "write"), (scope for scope in ("read", "write", "read"))):
        assert OAuth(scopes=scopes).scopes == ("read", "write")


@pytest.mark.parametrize("server", [5, b"https://h", "", "example.com", ["https://h.example"]])
def test_a_server_is_named_by_its_url(server) -> None:
    web = OAuth(redirect_uri="https://app.example/callback")
    for ask in (web.begin, web.status, web.logout, web.reset_client):
        with pytest.raises(UsageError, match="URL"):
            ask(server)


@pytest.mark.parametrize("pending", [5, "x", ["x"], b"x", object()])
def test_what_is_pending_is_a_mapping(pending) -> None:
    with pytest.raises(UsageError, match=r"Flow\.pending"):
        OAuth(redirect_uri="https://app.example/callback").finish("state=a&code=b", pending)


@pytest.mark.parametrize("callback", [None, 5, b"state=a", ["state=a"], object()])
def test_an_answer_is_a_url_a_query_or_a_mapping(callback) -> None:
    with pytest.raises(UsageError, match="URL of the callback, its query, or its parameters"):
        OAuth(redirect_uri="https://app.example/callback").finish(callback)


def test_a_damaged_record_is_no_wrong_use_but_an_error() -> None:
    with pytest.raises(AuthError, match="damaged"):
        OAuth(redirect_uri="https://app.example/callback").finish("state=a&code=b", {"state": "a"})

"""The clients of users, which stay from one request to the next, and how each of them goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_sync import Client
from mcp_sync.contrib import _clients
from mcp_sync.contrib._clients import UserClients
from mcp_sync.testing import FakeServer

PATIENCE = 30.0


@pytest.fixture
def old() -> Iterator[SimpleNamespace]:
    """Give a client of a server of an older revision, and the server's sessions."""
    fake = FakeServer(tools={"ask": lambda: "yes"}, versions="2025-06-18")
    with fake.serve_http() as endpoint, Client(endpoint.url) as client:
        yield SimpleNamespace(client=client, endpoint=endpoint, users=UserClients())


def call(old: Any, user: str, alias: str = "a") -> Any:
    view = old.users.get((alias, user), old.client, lambda: {"headers": {"X-User": user}})
    assert view.call_tool("ask").text == "yes"
    return view


def wait_for_sessions(endpoint: Any, count: int) -> None:
    until = time.monotonic() + PATIENCE
    while len(endpoint.sessions) != count:
        assert time.monotonic() < until, endpoint.sessions
        time.sleep(0.01)


def test_the_end_of_a_with_block_leaves_the_client_to_the_next_request(old: Any) -> None:
    before = len(old.endpoint.sessions)
    with call(old, "ada") as view:
        pass
    assert not view.closed
    assert call(old, "ada") is view
    assert len(old.endpoint.sessions) == before + 1


def test_a_client_that_was_closed_is_replaced(old: Any) -> None:
    first = call(old, "ada")
    first.close()
    assert call(old, "ada") is not first


def test_who_has_not_come_for_long_has_no_session_any_more(old: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(_clients, "_MOST", 2)
    before = len(old.endpoint.sessions)
    for user in ("ada", "bob", "ada", "eve", "ada"):
        call(old, user)
    wait_for_sessions(old.endpoint, before + 2)
    assert set(old.users._kept) == {("a", "eve"), ("a", "ada")}


def test_who_was_forgotten_begins_a_session_of_their_own(old: Any) -> None:
    first = call(old, "ada").session_id
    kept = call(old, "bob").session_id
    other = call(old, "ada", "b").session_id
    old.users.forget("a", "ada")
    assert call(old, "ada").session_id != first
    assert (call(old, "bob").session_id, call(old, "ada", "b").session_id) == (kept, other)


def test_two_pages_at_once_begin_one_session(old: Any) -> None:
    gate, seen = threading.Barrier(4), []

    def credentials() -> dict[str, Any]:
        gate.wait(PATIENCE)
        return {"headers": {}}

    def ask() -> None:
        seen.append(old.users.get(("a", "ada"), old.client, credentials))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    assert len(seen) == 4
    assert len(set(map(id, seen))) == 1

"""Visitors without a cookie: they fill no memory, and keep nobody else out."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_sync.auth import Key
from mcp_sync.contrib.flask import _stores
from mcp_sync.contrib.flask._stores import PassingMemoryStore
from mcp_sync.testing import FakeServer

from .site import World, close, csrf_of, greet, world

MOST = {"pending": 40, "server": 20, "input": 10}


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(_stores, "_MOST_PASSING", MOST)
    with world() as made:
        yield made


def without_users(site: World) -> Any:
    app = site.app()
    app.extensions["the_mcp"]._principal = None
    return app


def test_visitors_without_a_cookie_fill_no_memory_and_cost_nobody_a_grant_or_a_login(site: World) -> None:
    app = without_users(site)
    ada, late = app.test_client(), app.test_client()
    site.come_back(ada, ada.get("/use/safe/add").location)
    for _ in range(50):
        app.test_client().get("/use/safe/add")
    away = late.get("/use/safe/add").location
    for _ in range(15):  # He takes his time.
        app.test_client().get("/use/safe/add")
    assert ada.get("/use/safe/whoami").json == {"text": "ada"}
    assert site.come_back(late, away, "bob").status_code == 303
    assert late.get("/use/safe/whoami").json == {"text": "bob"}
    kept = app.extensions["mcp_sync"].store._values
    count = Counter(key.kind for key in kept)  # Bob was one of the twenty.
    assert count == {"pending": 40, "server": 19 + 2, "client": 1, "grant": 2}
    form = csrf_of(ada)
    assert ada.post("/mcp/disconnect/safe", data={"mcp_csrf": form}).status_code == 303
    for _ in range(20):
        app.test_client().get("/use/safe/add")
    assert Counter(key.kind for key in kept)["server"] == 20 + 1
    close(app)


def test_questions_of_visitors_without_a_cookie_are_bounded(site: World) -> None:
    app = without_users(site)
    ada = app.test_client()
    with app.extensions["the_mcp"].use_fake({"safe": FakeServer(tools=[greet])}, app):
        form = ada.get("/use/safe/greet").location
        for _ in range(30):
            app.test_client().get("/use/safe/greet")
            assert ada.get(form).status_code == 200  # What is looked at is in use.
    kept = app.extensions["mcp_sync"].store._values
    assert Counter(key.kind for key in kept)["input"] == 10
    close(app)


def test_what_is_over_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(_stores, "_now", lambda: now[0])
    store = PassingMemoryStore(60)
    for kind in ("grant", "server", "pending", "input"):
        assert store.put(Key(kind, principal="user:ada"), {"n": 1}, None)
        assert store.put(Key(kind if kind != "grant" else "client", principal="visitor:x"), {"n": 1}, None)
    now[0] += 61
    assert store.put(Key("input", principal="user:bob"), {"n": 1}, None)
    assert sorted(key[0] + key.principal for key in store._values if key.kind == "input") == ["inputuser:bob"]
    now[0] += 3600
    for kind in ("server", "pending"):
        assert store.put(Key(kind, principal="user:bob"), {"n": 1}, None)
    left = {(key.kind, key.principal) for key in store._values}
    assert ("server", "user:ada") in left
    assert left.isdisjoint({("server", "visitor:x"), ("pending", "visitor:x"), ("pending", "user:ada")})


def test_threads_that_come_at_once_leave_the_bounds_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stores, "_MOST_PASSING", MOST)
    store, start = PassingMemoryStore(60), threading.Barrier(4)

    def visit(number: int) -> None:
        start.wait(20)
        for each in range(300):
            key = Key("server", principal=f"{number}-{each}")
            assert store.put(key, {"n": 1}, None)
            store.get(Key("server", principal=f"{number}-{each - 5}"))

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(store._values) == len(store._used["server"]) == 20

"""Who closes the connections to the database that the threads of the client have opened; and few queries."""

from __future__ import annotations

import threading
import time
from contextlib import closing, nullcontext

import django
import pytest
from django.contrib.auth import get_user_model
from django.db import connection, connections, transaction
from django.db.backends.signals import connection_created
from django.test.utils import CaptureQueriesContext

from mcp_sync._concurrency import threads
from mcp_sync.auth import Key
from mcp_sync.contrib.django import _connections, mcp, signals
from mcp_sync.contrib.django.models import Grant
from mcp_sync.contrib.django.stores import ModelTokenStore

from .conftest import browser_of, connect

PATIENCE = 10.0  # seconds


@pytest.fixture
def opened():
    """Give the connections that threads of the client open, each with its thread."""
    found = []

    def note(connection, **_):
        if threading.current_thread().name.startswith("mcp_sync-"):
            found.append((threading.current_thread(), connection))

    connection_created.connect(note)
    yield found
    connection_created.disconnect(note)


def _others():
    """Return how many more connections PostgreSQL has than that of this thread."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' "
            "AND pid <> pg_backend_pid()"
        )
        return cursor.fetchone()[0]


def _see_that_all_are_closed(opened):
    for thread, _ in opened:
        thread.join(10)
        assert not thread.is_alive()
    assert [each.connection for _, each in opened] == [None] * len(opened)
    # A pooler keeps the sessions, for others.
    if connection.vendor == "postgresql" and "DISABLE_SERVER_SIDE_CURSORS" not in connection.settings_dict:
        until = time.monotonic() + 10  # The server sees the end of a connection a moment later.
        while _others() and time.monotonic() < until:
            time.sleep(0.01)
        assert _others() == 0


def test_a_thread_that_refreshes_closes_what_it_and_the_receivers_of_signals_have_opened(
    guarded, ada, opened
):
    refreshed = []

    def note(principal, user_id, **_):
        # On the thread that refreshes, as any receiver may.
        refreshed.append(get_user_model().objects.get(pk=user_id).username)

    browser = browser_of(ada)
    connect(browser, guarded.auth, "ada at the server")
    signals.grant_refreshed.connect(note)
    try:
        for _ in range(3):
            guarded.auth.expire_access_tokens()
            assert browser.get("/whoami/").content == b"ada at the server"
    finally:
        signals.grant_refreshed.disconnect(note)
    assert refreshed == ["ada"] * 3
    assert opened
    _see_that_all_are_closed(opened)


def test_the_threads_of_transactions_are_few_and_close_theirs_at_the_end(guarded, ada, opened):
    connect(browser_of(ada), guarded.auth, "ada at the server")
    threads = [threading.Thread(target=_call_in_a_transaction, args=(ada,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= sum("store" in thread.name for thread, _ in opened) <= 2
    _connections.close()
    _see_that_all_are_closed(opened)


def _call_in_a_transaction(user):
    try:
        for _ in range(5):
            with transaction.atomic():
                get_user_model().objects.get(pk=user.pk)
                assert mcp["guarded"].for_user(user).call_tool("whoami").text == "ada at the server"
    finally:
        connection.close()


def test_a_thread_that_calls_for_a_view_closes_what_it_has_opened(guarded, ada, opened):
    connect(browser_of(ada), guarded.auth, "ada at the server")
    view = mcp["guarded"].for_user(ada)
    futures = [view.submit(view.call_tool, "whoami") for _ in range(3)]
    assert {each.result(10).text for each in futures} == {"ada at the server"}
    mcp.reset()
    _see_that_all_are_closed(opened)


def test_a_connection_of_such_a_thread_that_broke_is_replaced():
    store, key, said = ModelTokenStore("a"), Key("grant", "https://auth.example"), []

    def work():
        assert store.put(key, {"n": 1}, None)
        assert store.get(key) is not None
        if connection.vendor != "sqlite":  # whose connections do not break
            _cut()
        said.append(store.get(key).value)

    threads.spawn("test", "store", work).join(PATIENCE)
    assert said == [{"n": 1}]


def _cut():
    """Break the connection of this thread, as when the database was restarted."""
    if connection.vendor != "mysql":
        connection.connection.close()
        return
    with closing(connections.create_connection("default")) as other, other.cursor() as cursor:
        cursor.execute(f"KILL {connection.connection.thread_id()}")


@pytest.fixture
def pool(monkeypatch):
    """Have requests take their connections from a pool of two, where there are pools."""
    if connection.vendor != "postgresql" or django.VERSION < (5, 1):
        yield
        return
    pytest.importorskip("psycopg_pool")
    connections.close_all()
    options = {"pool": {"min_size": 1, "max_size": 2, "timeout": PATIENCE}}
    monkeypatch.setitem(connections.settings["default"], "OPTIONS", options)
    yield
    connections.close_all()
    connection.close_pool()


@pytest.mark.parametrize("is_atomic", [False, True])
def test_requests_that_have_taken_all_connections_of_a_pool_get_their_tokens(
    guarded, ada, bob, pool, is_atomic
):
    for user in (ada, bob):
        connect(browser_of(user), guarded.auth, user.username)
    guarded.auth.expire_access_tokens()
    mcp.reset()
    connections.close_all()
    together, said = threading.Barrier(2), {}

    def call(user):
        try:
            with transaction.atomic() if is_atomic else nullcontext():
                get_user_model().objects.get(pk=user.pk)
                together.wait(PATIENCE)
                said[user.username] = mcp["guarded"].for_user(user).call_tool("whoami").text
        finally:
            connection.close()

    threads = [threading.Thread(target=call, args=(user,)) for user in (ada, bob)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {"ada": "ada", "bob": "bob"}
    assert time.monotonic() - began < PATIENCE
    assert guarded.auth.asked["refresh_token"] == 2


def test_no_time_for_locks_is_left_to_who_uses_a_session_of_the_database_next(guarded, ada):
    executed = []

    def note(execute, sql, *rest):
        executed.append(sql)
        return execute(sql, *rest)

    def watch(connection, **_):
        connection.execute_wrappers.append(note)

    connect(browser_of(ada), guarded.auth, "ada at the server")
    guarded.auth.expire_access_tokens()
    _connections.close()
    connection_created.connect(watch)
    try:
        with transaction.atomic():
            get_user_model().objects.get(pk=ada.pk)
            assert mcp["guarded"].for_user(ada).call_tool("whoami").text == "ada at the server"
    finally:
        connection_created.disconnect(watch)
    # Between the user and PostgreSQL there may be a pooler, which gives a session to one after the other.
    times = [sql for sql in executed if "lock_timeout" in sql]
    assert all(sql.startswith("SET LOCAL ") for sql in times), times
    assert bool(times) == (connection.vendor == "postgresql")


@pytest.mark.parametrize("place", ["/whoami/", "/connected/"])
def test_a_request_reads_the_token_store_once(guarded, ada, place):
    browser = browser_of(ada)
    connect(browser, guarded.auth, "ada at the server")
    browser.get(place)
    with CaptureQueriesContext(connection) as captured:
        assert browser.get(place).status_code == 200
    ours = [each["sql"] for each in captured if "mcp_sync" in each["sql"]]
    assert len(ours) == 1, ours


def test_whoever_was_disconnected_elsewhere_is_so_at_the_next_request(guarded, ada):
    browser = browser_of(ada)
    connect(browser, guarded.auth, "ada at the server")
    assert browser.get("/whoami/").content == b"ada at the server"
    Grant.objects.all().delete()
    assert browser.get("/whoami/").status_code == 302
    assert browser.get("/connected/").status_code == 302

"""A token that is refused within the transaction of a request: with SQLite, and with others."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError, connection, connections, transaction
from django.db.backends.signals import connection_created

from mcp_sync.contrib.django import _connections, mcp
from mcp_sync.contrib.django._connections import StoreLocked
from mcp_sync.contrib.django.authorization import ConnectionRequired
from mcp_sync.contrib.django.middleware import status_of
from mcp_sync.contrib.django.models import Grant
from mcp_sync.errors import AuthError

from .conftest import browser_of, connect

BOUND = 5  # seconds: a quarter of what a lock of the database takes here, and of a call
PATIENCE = 10.0  # seconds


@pytest.fixture
def atomic_requests(monkeypatch):
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)


@pytest.fixture(params=["delete", "wal"])
def journal(request):
    """Have SQLite work in a mode; others have none."""
    if connection.vendor == "sqlite":
        _journal(request.param)
        yield request.param
        mcp.reset()
        _connections.close()
        connections.close_all()
        _journal("delete")
    else:
        yield "wal"


def _journal(mode):
    until = time.monotonic() + PATIENCE
    with connection.cursor() as cursor:
        while True:
            try:
                cursor.execute(f"PRAGMA journal_mode={mode}")
            except OperationalError:
                # A thread that has refreshed a token is about to end, and to close its connection.
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return


@pytest.fixture(params=[False, True])
def reads_at_once(request):
    """Have each new connection read the file, as with recent versions of SQLite it does in any case."""

    def read(connection, **kwargs):
        connection.connection.execute("SELECT 1 FROM mcp_sync_grant")

    if request.param:
        connection_created.connect(read)
    yield
    connection_created.disconnect(read)


@pytest.fixture
def browser(guarded, ada, journal):
    found = browser_of(ada)
    connect(found, guarded.auth, "ada at the server")
    guarded.auth.expire_access_tokens()
    return found


@pytest.mark.parametrize("place", ["/whoami/", "/visit/"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_view_gets_the_new_token(guarded, ada, browser, atomic_requests, place, method):
    began = time.monotonic()
    assert getattr(browser, method)(place).content == b"ada at the server"
    assert time.monotonic() - began < BOUND
    assert guarded.auth.asked["refresh_token"] == 1
    ada.refresh_from_db()
    assert ada.first_name == ("." if place == "/visit/" else "")
    mcp.reset()  # As another process, which knows what was kept.
    assert browser.get(place).content == b"ada at the server"
    assert guarded.auth.asked["refresh_token"] == 1


@pytest.mark.parametrize("place", ["/whoami/", "/visit/"])
def test_who_is_not_connected_is_sent_to_the_page_for_that(guarded, ada, journal, atomic_requests, place):
    browser = browser_of(ada)
    away = browser.get(place)
    assert (away.status_code, away.headers.get("Location", "")[:21]) == (302, "/mcp/connect/guarded/")
    connect(browser, guarded.auth, "ada at the server")
    assert browser.get(place).content == b"ada at the server"


@pytest.mark.parametrize("writes", [False, True])
def test_a_call_ends_soon_and_no_token_is_lost(guarded, ada, browser, writes):
    began = time.monotonic()
    with transaction.atomic():
        ada.refresh_from_db()
        if writes:
            ada.save()
        assert mcp["guarded"].for_user(ada).call_tool("whoami").text == "ada at the server"
        transaction.set_rollback(True)
    assert time.monotonic() - began < BOUND
    mcp.reset()
    assert mcp["guarded"].for_user(ada).call_tool("whoami").text == "ada at the server"
    assert guarded.auth.asked["refresh_token"] == 1


@pytest.mark.parametrize("journal", ["delete"], indirect=True)
def test_a_database_that_is_too_slow_is_no_fault_of_a_server(browser, atomic_requests, monkeypatch):
    assert browser.get("/whoami/").content == b"ada at the server"
    monkeypatch.setattr(_connections, "_PATIENCE", 0.1)
    busy, go_on = threading.Barrier(_connections._THREADS + 1), threading.Event()

    def keep_busy():
        with suppress(AuthError):
            _connections._helpers.run(lambda: (busy.wait(PATIENCE), go_on.wait(PATIENCE)))

    waiting = [threading.Thread(target=keep_busy) for _ in range(_connections._THREADS)]
    for each in waiting:
        each.start()
    busy.wait(PATIENCE)
    mcp.users.forget("guarded")  # So that no token is known.
    page = browser.get("/whoami/")
    told = browser.get("/whoami/", headers={"accept": "application/json"})
    go_on.set()
    for each in waiting:
        each.join(PATIENCE)
    assert (page.status_code, "The database cannot be reached" in page.content.decode()) == (503, True)
    assert (told.status_code, told.json()["error"]) == (503, "temporarily_unavailable")
    assert status_of(_connections.StoreSlow("too late")) == 503


def test_a_request_that_waits_for_the_refresh_of_another_does_not_keep_that_from_being_written(
    guarded, ada, browser, monkeypatch
):
    arrived, go_on = _held_up(guarded.auth, monkeypatch)
    said = []

    def call():
        try:
            said.append(mcp["guarded"].for_user(ada).call_tool("whoami").text)
        finally:
            connection.close()

    other = threading.Thread(target=call)
    other.start()
    assert arrived.wait(PATIENCE)
    began = time.monotonic()
    with transaction.atomic():
        get_user_model().objects.filter(pk=ada.pk).update(first_name="Ada")
        waiter = threading.Timer(0.1, go_on.set)  # Once this thread waits for the other one.
        waiter.start()
        said.append(mcp["guarded"].for_user(ada).call_tool("whoami").text)
    other.join()
    assert time.monotonic() - began < BOUND
    assert said == ["ada at the server"] * 2
    assert guarded.auth.asked["refresh_token"] == 1


def _held_up(auth, monkeypatch):
    """Have the authorization server wait; return what says that it was asked, and what lets it answer."""
    arrived, go_on = threading.Event(), threading.Event()
    usual = auth._endpoint.intercept

    def intercept(request):
        if request.path == "/token":
            arrived.set()
            go_on.wait(PATIENCE)
        return usual(request)

    monkeypatch.setattr(auth._endpoint, "intercept", intercept)
    return arrived, go_on


@pytest.mark.parametrize("journal", ["delete"], indirect=True)
@pytest.mark.skipif(connection.vendor != "sqlite", reason="others lock rows")
def test_where_others_wait_for_the_transaction_to_end_it_is_told_so_soon(
    guarded, ada, browser, reads_at_once
):
    with transaction.atomic():
        ada.refresh_from_db()
        writer = _begin_to_commit()
        began = time.monotonic()
        with pytest.raises(StoreLocked, match="WAL") as caught:
            mcp["guarded"].for_user(ada).call_tool("whoami")
        assert time.monotonic() - began < BOUND
    writer.join()
    assert caught.value.alias == "guarded"
    assert guarded.auth.asked["refresh_token"] == 0
    assert mcp["guarded"].for_user(ada).call_tool("whoami").text == "ada at the server"


@pytest.mark.parametrize("journal", ["delete"], indirect=True)
@pytest.mark.skipif(connection.vendor != "sqlite", reason="others lock rows")
def test_where_others_wait_for_the_transaction_to_end_a_good_token_is_found(
    guarded, ada, journal, reads_at_once
):
    connect(browser_of(ada), guarded.auth, "ada at the server")
    assert mcp["guarded"].for_user(ada).call_tool("whoami").text == "ada at the server"
    with transaction.atomic():
        ada.refresh_from_db()
        writer = _begin_to_commit()
        began = time.monotonic()
        # A view looks into the store anew.
        assert mcp["guarded"].for_user(ada).call_tool("whoami").text == "ada at the server"
        assert time.monotonic() - began < BOUND
    writer.join()


def _begin_to_commit():
    """Have a thread commit, and return it once it waits for the transaction, and nobody else can read."""

    def write():
        try:
            Grant.objects.update(scopes="x")
        finally:
            connection.close()

    writer = threading.Thread(target=write)
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout = 0")
            writer.start()
            until = time.monotonic() + PATIENCE
            while time.monotonic() < until:
                try:
                    cursor.execute("SELECT 1 FROM mcp_sync_grant").fetchall()
                except OperationalError:
                    return writer
                time.sleep(0.005)
    finally:
        other.close()
    raise AssertionError("the other thread did not begin to commit")


def test_who_is_locked_by_the_transaction_and_not_connected_is_sent_to_the_page_for_that_soon(guarded, ada):
    began = time.monotonic()
    with transaction.atomic():
        get_user_model().objects.select_for_update().get(pk=ada.pk)
        # SQLite has no such locks.
        expected = ConnectionRequired if connection.vendor == "sqlite" else StoreLocked
        with pytest.raises(expected, match=r"the row of the user|has to connect"):
            mcp["guarded"].for_user(ada).call_tool("whoami")
    away = browser_of(ada).get("/locked/")
    assert (away.status_code, away.headers.get("Location", "")[:21]) == (302, "/mcp/connect/guarded/")
    assert time.monotonic() - began < BOUND


@pytest.mark.parametrize("journal", ["delete"], indirect=True)
@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.skipif(connection.vendor != "sqlite", reason="others lock rows")
def test_a_view_that_was_told_so_is_repeated_if_that_may_be(
    guarded, ada, browser, atomic_requests, method, monkeypatch
):
    def locked(*args, **kwargs):
        monkeypatch.undo()
        error = StoreLocked("locked")
        error.alias = "guarded"
        raise error

    browser.raise_request_exception = False
    monkeypatch.setattr("mcp_sync.contrib.django.server.Server.for_user", locked)
    answer = getattr(browser, method)("/visit/?a=1")
    if method == "get":
        assert (answer.status_code, answer["Location"]) == (302, "/visit/?a=1")
    else:
        assert answer.status_code == 503
    assert guarded.auth.asked["refresh_token"] == 1

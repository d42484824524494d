"""A token that is refused within the transaction of a request: with SQLite, and with others."""

from __future__ import annotations

import time

import pytest
from django.db import connection, connections, transaction

from mcp_sync.contrib.django import _connections, mcp
from mcp_sync.errors import AuthError

from .conftest import browser_of, connect

BOUND = 15  # seconds: half of what a lock of the database takes here, and less than a call


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
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA journal_mode={mode}")


@pytest.fixture
def browser(guarded, ada, journal):
    found = browser_of(ada)
    connect(found, guarded.auth, "ada at the server")
    guarded.auth.expire_access_tokens()
    return found


@pytest.mark.parametrize("place", ["/whoami/", "/visit/"])
def test_a_view_gets_the_new_token_and_is_repeated_if_it_must_be(
    guarded, ada, browser, atomic_requests, place
):
    began = time.monotonic()
    answer = browser.get(place, follow=True)
    assert answer.content == b"ada at the server"
    assert time.monotonic() - began < BOUND
    assert guarded.auth.asked["refresh_token"] == 1
    ada.refresh_from_db()
    assert ada.first_name == ("." if place == "/visit/" else "")
    assert browser.get(place).content == b"ada at the server"
    assert guarded.auth.asked["refresh_token"] == 1


def test_a_form_that_was_sent_is_not_repeated_but_the_next_one_works(guarded, ada, browser, atomic_requests):
    browser.raise_request_exception = False
    first = browser.post("/visit/")
    ada.refresh_from_db()
    assert (first.status_code, ada.first_name) in ((503, ""), (200, "."))
    assert browser.post("/visit/").content == b"ada at the server"
    assert guarded.auth.asked["refresh_token"] == 1


@pytest.mark.parametrize("writes", [False, True])
def test_a_call_ends_soon_and_no_token_is_lost(guarded, ada, browser, journal, writes):
    began = time.monotonic()
    is_free = connection.vendor != "sqlite" or (journal == "wal" and not writes)
    with transaction.atomic():
        ada.refresh_from_db()
        if writes:
            ada.save()
        if is_free:
            assert mcp["guarded"].for_user(ada).call_tool("whoami").text == "ada at the server"
        else:
            with pytest.raises(AuthError, match="WAL"):
                mcp["guarded"].for_user(ada).call_tool("whoami")
        transaction.set_rollback(True)
    assert time.monotonic() - began < BOUND
    assert mcp["guarded"].for_user(ada).call_tool("whoami").text == "ada at the server"
    assert guarded.auth.asked["refresh_token"] == 1

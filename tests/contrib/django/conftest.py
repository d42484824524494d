# ruff: noqa: E402  (Django wants its settings first)
"""Django for the tests, with a SQLite file, and a protected server with its authorization server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("django")
pytest.importorskip("cryptography")

from tests.contrib.django import site

site.configure(json.loads(os.environ.get("MCP_SYNC_TEST_DATABASE", "null")) or site.SQLITE)

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.test import Client, override_settings
from django.test.utils import setup_test_environment, teardown_test_environment

from mcp_sync.contrib.django import _connections, mcp
from mcp_sync.testing import FakeAuthorizationServer, FakeServer


@pytest.fixture(scope="session", autouse=True)
def _project() -> Iterator[None]:
    setup_test_environment()
    call_command("migrate", verbosity=0)
    connections.close_all()
    yield
    connections.close_all()
    teardown_test_environment()


@pytest.fixture(autouse=True)
def _clean(_project: None) -> Iterator[None]:
    yield
    mcp.reset()
    _connections.close()
    _delete_rows()
    connections.close_all()


def _delete_rows() -> None:
    """Empty the tables that tests write into: `flush` derives the others anew as well, which takes long."""
    written = (
        model._meta.db_table
        for model in apps.get_models(include_auto_created=True)
        if model not in (ContentType, Permission)
    )
    with transaction.atomic(), connection.constraint_checks_disabled(), connection.cursor() as cursor:
        for table in written:
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")


@pytest.fixture
def ada() -> Any:
    return get_user_model().objects.create_user("ada", password="x")


@pytest.fixture
def bob() -> Any:
    return get_user_model().objects.create_user("bob", password="x")


def browser_of(user: Any) -> Client:
    browser = Client(SERVER_NAME="localhost")
    browser.force_login(user)
    return browser


@pytest.fixture
def guarded() -> Iterator[SimpleNamespace]:
    """Give a server that tells whose token it was asked with, its authorization server, and the settings."""
    with FakeAuthorizationServer(user="someone") as auth:
        tools = {"whoami": lambda context: auth.user_of(context.headers) or "nobody"}
        fake = FakeServer(tools=tools, principal=auth.user_of)
        with fake.serve_http(intercept=auth.guard()) as endpoint:
            servers = {"guarded": {"URL": endpoint.url, "AUTH": {"KIND": "oauth"}}}
            with override_settings(MCP_SYNC={"SERVERS": servers}):
                yield SimpleNamespace(auth=auth, fake=fake, url=endpoint.url, servers=servers)
                mcp.reset()


def connect(browser: Client, auth: FakeAuthorizationServer, user: str) -> Any:
    """Have a user connect; return the answer to their coming back."""
    sent = browser.post("/mcp/connect/guarded/", {"next": "/whoami/"})
    assert sent.status_code == 302, sent.content
    return browser.get(auth.consent(sent["Location"], user))

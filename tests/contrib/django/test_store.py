"""The token store on models: one winner, whatever the database, and nothing that a rollback takes back."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
import unittest
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.contrib.auth import get_user_model
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.test import TestCase, override_settings

from mcp_sync import CallTimeout
from mcp_sync.auth import Deadline, Key
from mcp_sync.contrib.django import _connections, crypto
from mcp_sync.contrib.django._database_lock import database_lock
from mcp_sync.contrib.django._unwritten import Unwritten, unwritten_of
from mcp_sync.contrib.django.models import Grant
from mcp_sync.contrib.django.stores import ModelTokenStore, digest
from mcp_sync.errors import AuthError

ROOT = Path(__file__).parents[3]
PATIENCE, BOUND = 10.0, 5.0  # seconds
KEY = Key("grant", "https://auth.example", "https://mcp.example/mcp", "somebody", "app")


@pytest.fixture
def store():
    return ModelTokenStore("a")


def test_a_record_comes_back_as_it_was(store):
    assert store.get(KEY) is None
    assert store.put(KEY, {"access_token": "one", "scope": "x y"}, None)
    stored = store.get(KEY)
    assert stored.value == {"access_token": "one", "scope": "x y"}
    assert Grant.objects.get().scopes == "x y"


def test_only_the_version_that_was_named_is_replaced(store):
    assert store.put(KEY, {"n": 1}, None)
    assert not store.put(KEY, {"n": 2}, None)
    first = store.get(KEY).version
    assert store.put(KEY, {"n": 2}, first)
    assert not store.put(KEY, {"n": 3}, first)
    assert not store.put(KEY, None, first)
    assert store.put(KEY, None, store.get(KEY).version)
    assert store.get(KEY) is None
    assert store.put(KEY, None, None)


def test_servers_have_rooms_of_their_own(store):
    store.put(KEY, {"n": 1}, None)
    assert ModelTokenStore("b").get(KEY) is None


def test_a_row_that_was_moved_is_worth_nothing(store):
    store.put(KEY, {"n": 1}, None)
    other = KEY._replace(principal="mallory")
    store.put(other, {"n": 2}, None)
    Grant.objects.filter(principal="mallory").update(data=Grant.objects.get(principal="somebody").data)
    assert store.get(other).value == {}


def test_what_no_key_can_read_may_be_replaced(store):
    store.put(KEY, {"n": 1}, None)
    with override_settings(MCP_SYNC={"ENCRYPTION_KEYS": ["another"]}):
        found = store.get(KEY)
        assert found.value == {}
        assert store.put(KEY, {"n": 2}, found.version)
        assert store.get(KEY).value == {"n": 2}


def test_keys_can_be_replaced(store):
    with override_settings(SECRET_KEY="old"):
        store.put(KEY, {"n": 1}, None)
    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["old"]):
        assert store.get(KEY).value == {"n": 1}
        row = Grant.objects.get()
        Grant.objects.update(data=crypto.sealer().reseal(row.data))
    with override_settings(SECRET_KEY="new"):
        assert store.get(KEY).value == {"n": 1}


def test_a_grant_for_a_user_who_is_gone_is_refused(store):
    with pytest.raises(AuthError, match="gone"):
        store.put(KEY._replace(principal="user:4711"), {"n": 1}, None)


def test_what_was_written_survives_the_rollback_of_the_request(store):
    store.put(KEY, {"n": 1}, None)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        assert store.put(KEY, {"n": 2}, store.get(KEY).version)
        assert store.get(KEY).value == {"n": 2}
        raise ZeroDivisionError
    assert store.get(KEY).value == {"n": 2}


on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="other databases lock rows")


def _locked_while(change):
    """Do something while a transaction of this thread, which is rolled back, locks the database."""
    with transaction.atomic():
        get_user_model().objects.update(first_name="locked")
        change()
        transaction.set_rollback(True)


@on_sqlite
def test_a_request_that_has_locked_the_database_can_write_all_the_same(store, ada):
    store.put(KEY, {"n": 1, "expires_at": 10.0}, None)
    first = store.get(KEY).version

    def change():
        assert store.put(KEY, {"n": 2, "expires_at": 20.0}, first)
        second = store.get(KEY)
        assert second.value["n"] == 2
        assert not store.put(KEY, {"n": 3}, first)
        assert store.put(KEY, {"n": 4, "expires_at": 40.0}, second.version)
        assert not store.put(KEY, {"n": 5}, second.version)
        assert store.get(KEY).value["n"] == 4

    _locked_while(change)
    assert Grant.objects.get().version == first
    fourth = store.get(KEY)
    assert fourth.value["n"] == 4
    row = Grant.objects.get()
    assert (row.version, row.expires_at.timestamp()) == (fourth.version, 40.0)
    assert unwritten_of(connection).get(digest("a", KEY)) is None
    assert store.put(KEY, {"n": 6}, fourth.version)
    assert store.get(KEY).value == {"n": 6}


@on_sqlite
def test_what_could_not_be_written_is_replaced_by_what_can_be(store, ada):
    store.put(KEY, {"n": 1}, None)
    kept = []

    def change():
        assert store.put(KEY, {"n": 2}, store.get(KEY).version)
        kept.append(store.get(KEY).version)

    _locked_while(change)
    assert store.put(KEY, {"n": 3}, kept[0])
    assert unwritten_of(connection).get(digest("a", KEY)) is None
    assert store.get(KEY).value == {"n": 3}


@on_sqlite
def test_what_is_forgotten_while_the_database_is_locked_is_gone(store, ada):
    store.put(KEY, {"n": 1}, None)

    def change():
        assert store.put(KEY, None, store.get(KEY).version)
        assert store.get(KEY) is None
        assert store.put(KEY, {"n": 2}, None)
        assert store.get(KEY).value == {"n": 2}
        assert store.put(KEY, None, store.get(KEY).version)

    _locked_while(change)
    assert store.get(KEY) is None
    assert not Grant.objects.exists()
    assert store.put(KEY, {"n": 3}, None)
    assert store.get(KEY).value == {"n": 3}


@on_sqlite
def test_what_could_not_be_written_goes_with_its_row(store, ada):
    store.put(KEY, {"n": 1}, None)
    _locked_while(lambda: store.put(KEY, {"n": 2}, store.get(KEY).version))
    Grant.objects.all().delete()
    assert store.get(KEY) is None
    assert store.put(KEY, {"n": 3}, None)
    assert store.get(KEY).value == {"n": 3}


@on_sqlite
def test_what_is_new_while_the_database_is_locked_becomes_a_row(store, ada):
    def change():
        assert store.put(KEY, {"n": 1}, None)
        assert not store.put(KEY, {"n": 2}, None)
        assert store.get(KEY).value == {"n": 1}
        assert store.put(KEY, {"n": 3}, store.get(KEY).version)

    _locked_while(change)
    assert not Grant.objects.exists()
    assert not store.put(KEY, {"n": 4}, None)
    assert store.get(KEY).value == {"n": 3}
    assert crypto.sealer().unseal(Grant.objects.get().data, digest("a", KEY)) == {"n": 3}
    assert store.put(KEY, None, store.get(KEY).version)
    assert store.get(KEY) is None


@on_sqlite
def test_what_is_new_for_a_user_who_is_gone_meanwhile_is_dropped(store, ada, bob):
    key = KEY._replace(principal=f"user:{bob.pk}")
    _locked_while(lambda: store.put(key, {"n": 1}, None))
    bob.delete()
    store.get(key)
    assert store.get(key) is None
    assert unwritten_of(connection).get(digest("a", key)) is None


@pytest.mark.parametrize("command", ["mcp_rotate", "mcp_prune"])
@on_sqlite
def test_commands_write_what_could_not_be_written(store, ada, command):
    def change():
        assert store.put(KEY, {"n": 2}, store.get(KEY).version)

    with override_settings(MCP_SYNC={"ENCRYPTION_KEYS": ["old"]}):
        store.put(KEY, {"n": 1}, None)
        _locked_while(change)
    with override_settings(MCP_SYNC={"ENCRYPTION_KEYS": ["new", "old"]}):
        call_command(command, stdout=StringIO())
    with override_settings(MCP_SYNC={"ENCRYPTION_KEYS": ["new" if command == "mcp_rotate" else "old"]}):
        assert unwritten_of(connection).get(digest("a", KEY)) is None
        assert crypto.sealer().unseal(Grant.objects.get().data, digest("a", KEY)) == {"n": 2}


@pytest.mark.parametrize("command", ["mcp_rotate", "mcp_prune"])
@on_sqlite
def test_commands_say_so_where_the_database_stays_locked(store, ada, command):
    with override_settings(MCP_SYNC={"ENCRYPTION_KEYS": ["old"]}), connection.cursor() as cursor:
        _locked_while(lambda: store.put(KEY, {"n": 1}, None))
        cursor.execute("PRAGMA busy_timeout = 0")
        other = connections.create_connection("default")
        try:
            with other.cursor() as locking:
                locking.execute("BEGIN IMMEDIATE")
            with pytest.raises(CommandError, match="StoreLocked: a transaction"):
                call_command(command, stdout=StringIO())
        finally:
            other.close()
        assert store.get(KEY).value == {"n": 1}


@on_sqlite
def test_what_cannot_be_cleared_away_can_be_read_all_the_same(store, ada, monkeypatch):
    def is_read_only(*_):
        raise AuthError("read-only")

    _locked_while(lambda: store.put(KEY, {"n": 1}, None))
    monkeypatch.setattr(Unwritten, "remove", is_read_only)
    assert [store.get(KEY).value for _ in range(2)] == [{"n": 1}] * 2
    monkeypatch.undo()
    assert store.get(KEY).value == {"n": 1}
    assert unwritten_of(connection).get(digest("a", KEY)) is None


@on_sqlite
def test_what_stands_beside_the_database_belongs_to_its_owner(store, owned_by_another):
    with store.lock(KEY, Deadline(5)):
        _locked_while(lambda: store.put(KEY, {"n": 1}, None))
        path, uid = owned_by_another
        name = digest("a", KEY)
        made = {
            f"{path}-mcp-locks": 0o700,
            f"{path}-mcp-locks/{name}.lock": 0o600,
            f"{path}-mcp-unwritten": 0o700,
            f"{path}-mcp-unwritten/{name}.json": 0o600,
        }
        found = {each: os.stat(each) for each in made}
    assert {each.st_uid for each in found.values()} == {uid}
    assert {each: stat.S_IMODE(seen.st_mode) for each, seen in found.items()} == made


@on_sqlite
def test_a_check_says_so_where_the_database_belongs_to_another_user(owned_by_another, monkeypatch):
    path, uid = owned_by_another
    for me, is_told in ((uid, False), (0, False), (uid + 1, True)):
        monkeypatch.setattr("os.geteuid", lambda me=me: me)
        told = [each.msg for each in run_checks() if each.id == "mcp_sync.W008"]
        assert [path in each for each in told] == [True] * is_told
    monkeypatch.undo()


@pytest.mark.heavy
@pytest.mark.parametrize("what", ["put", "get"])
@on_sqlite
def test_whoever_is_killed_at_any_step_loses_no_record_and_holds_up_nobody(store, ada, what):
    database = {key: connection.settings_dict[key] for key in ("ENGINE", "NAME", "OPTIONS")}
    store.put(KEY, {"n": 0}, None)
    said, step = "", 0
    while not said:
        step += 1
        before = store.get(KEY)
        if what == "get":
            # What it finds in a file, and is to write into the row.
            _locked_while(lambda seen=before: store.put(KEY, {"n": seen.value["n"] + 1}, seen.version))
        command = [sys.executable, "-m", "tests.contrib.django.killed", json.dumps(database), what, str(step)]
        with transaction.atomic() if what == "put" else nullcontext():
            if what == "put":
                Grant.objects.update(scopes="locked")
            said = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, timeout=30).stdout
            if what == "put":
                transaction.set_rollback(True)
        after = store.get(KEY)
        assert after.value["n"] - before.value["n"] in ((0, 1) if what == "put" and not said else (1,))
        assert store.put(KEY, after.value, after.version)
    assert step > 3


@pytest.fixture
def owned_by_another():
    """Have the database belong to another user, if this one is root; give its path and its owner."""
    path = str(connection.settings_dict["NAME"])
    folders = [f"{path}-mcp-{each}" for each in ("locks", "unwritten")]
    before = os.stat(path)
    for each in folders:
        shutil.rmtree(each, ignore_errors=True)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    yield path, os.stat(path).st_uid
    os.chown(path, before.st_uid, before.st_gid)
    for each in folders:
        shutil.rmtree(each, ignore_errors=True)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_what_stands_beside_a_database_does_so_by_all_its_names(tmp_path):
    link = tmp_path / "link.sqlite3"
    link.symlink_to(tmp_path / "my db.sqlite3")

    def folder(name):
        found = unwritten_of(SimpleNamespace(vendor="sqlite", settings_dict={"NAME": name}))
        return found and found._folder

    names = [link, str(link), f"{tmp_path}/my db.sqlite3", f"file:{tmp_path}/my%20db.sqlite3?mode=rw"]
    assert {folder(name) for name in names} == {tmp_path / "my db.sqlite3-mcp-unwritten"}
    memory = [":memory:", "file::memory:", "file:memorydb_default?mode=memory&cache=shared"]
    assert {folder(name) for name in memory} == {None}


@on_sqlite
def test_with_the_wal_mode_of_sqlite_a_request_may_have_read(store):
    store.put(KEY, {"n": 1}, None)
    _journal("wal")
    try:
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            Grant.objects.count()
            assert store.put(KEY, {"n": 2}, store.get(KEY).version)
            assert store.get(KEY).value == {"n": 2}
            raise ZeroDivisionError
        assert store.get(KEY).value == {"n": 2}
    finally:
        _connections.close()
        _journal("delete")


def _journal(mode):
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA journal_mode={mode}")
        assert cursor.fetchone() == (mode,)


def test_the_lock_keeps_threads_apart(store):
    with store.lock(KEY, Deadline(5)):
        found = []

        def try_it():
            try:
                with store.lock(KEY, Deadline(0.05)):
                    found.append("held")
            except CallTimeout:
                found.append("timeout")
            finally:
                connection.close()

        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
        assert found == ["timeout"]
    with store.lock(KEY, Deadline(1)):
        pass


def _lock_among_processes(name, deadline):
    if connection.vendor == "sqlite":
        return unwritten_of(connection).locked(name, deadline)
    return database_lock("default", name, deadline)


def test_whoever_waits_for_the_lock_of_another_process_does_so_until_the_deadline():
    with _lock_among_processes("a", Deadline(PATIENCE)):
        began = time.monotonic()
        with pytest.raises(CallTimeout), _lock_among_processes("a", Deadline(0.2)):
            pass
        assert time.monotonic() - began < BOUND
        with _lock_among_processes("b", Deadline(PATIENCE)):
            pass
    with _lock_among_processes("a", Deadline(PATIENCE)):
        pass


if connection.vendor == "mysql":  # Others have no locks of the whole server.

    def test_sites_with_databases_of_their_own_at_one_server_do_not_wait_for_each_other(monkeypatch):
        with connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS another")
        monkeypatch.setitem(connections.settings, "another", {**connection.settings_dict, "NAME": "another"})
        with database_lock("default", "a", Deadline(PATIENCE)), database_lock("another", "a", Deadline(0.2)):
            pass


@pytest.mark.contrib
def test_a_lock_of_a_database_that_is_down_tells_no_secret(monkeypatch, tmp_path):
    pytest.importorskip("psycopg")
    down = {"ENGINE": "django.db.backends.postgresql", "HOST": str(tmp_path), "PASSWORD": "hunter2"}
    monkeypatch.setitem(connections.settings, "down", {**connection.settings_dict, "OPTIONS": {}, **down})
    with pytest.raises(AuthError) as told, database_lock("down", "a", Deadline(PATIENCE)):
        pass
    assert "OperationalError" in str(told.value)
    assert str(tmp_path) not in str(told.value)


def test_of_many_threads_each_change_is_made_once(store):
    store.put(KEY, {"n": 0}, None)
    start = threading.Barrier(6)
    failures = []

    def count():
        try:
            start.wait()
            for _ in range(5):
                with store.lock(KEY, Deadline(30)):
                    stored = store.get(KEY)
                    if not store.put(KEY, {"n": stored.value["n"] + 1}, stored.version):
                        failures.append("overtaken")
        except Exception as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=count) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert store.get(KEY).value == {"n": 30}


def test_in_a_test_case_the_store_works_on_the_connection_of_the_test():
    class Inside(TestCase):
        """It rolls everything back, and its rows are seen by its own connection only."""

        def test(self):
            store = ModelTokenStore("a")
            with store.lock(KEY, Deadline(1)):
                assert store.put(KEY, {"n": 1}, None)
            assert store.get(KEY).value == {"n": 1}

    result = unittest.TestResult()
    unittest.TestSuite([Inside("test")]).run(result)
    assert (result.errors, result.failures, result.testsRun) == ([], [], 1)
    assert not Grant.objects.exists()

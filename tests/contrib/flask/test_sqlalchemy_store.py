"""The store on SQLAlchemy: of several changes one counts, locks hold between processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import scoped_session, sessionmaker

from mcp_sync import CallTimeout
from mcp_sync.auth import Deadline, Key, OAuth
from mcp_sync.auth._records import Grant, ServerRecord
from mcp_sync.contrib._one_look import look_once
from mcp_sync.contrib.flask import SQLAlchemyTokenStore
from mcp_sync.contrib.flask._stores import key_digest
from mcp_sync.errors import AuthError

from .site import make_app

KEY = Key("grant", "https://issuer.example", "https://server.example", "user:ada", "app")
PATIENCE = 20
ROOT = Path(__file__).parents[3]


SERVERS = [pytest.param(name, marks=pytest.mark.contrib) for name in ("postgres", "pgbouncer", "mariadb")]


def store_at(url: str) -> SQLAlchemyTokenStore:
    return SQLAlchemyTokenStore(sa.create_engine(url, poolclass=sa.pool.NullPool))


@pytest.fixture(params=["sqlite", *SERVERS], scope="module")
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """Have a server run, and give the URL of its database; nothing for a file."""
    if request.param == "sqlite":
        yield ""
        return
    server = pytest.importorskip(f"contrib.django.{request.param}")
    if not server.is_installed():
        pytest.skip(f"needs a server and its driver: {request.param}")
    with server.running() as settings:
        place = f"{settings['USER']}@/{settings['NAME']}"
        if request.param == "mariadb":
            yield f"mysql+pymysql://{place}?unix_socket={settings['HOST']}&ssl_disabled=true"
        else:
            yield f"postgresql+psycopg://{place}?host={settings['HOST']}&port={settings['PORT'] or 5432}"


@pytest.fixture
def url(database: str, tmp_path: Path) -> Iterator[str]:
    found = database or f"sqlite:///{tmp_path}/site.sqlite"
    yield found
    store = store_at(found)
    store.table.drop(store.engine)


on_servers = pytest.mark.parametrize("database", SERVERS, indirect=True)


def test_of_changes_that_replace_the_same_version_one_counts(url: str) -> None:
    store = store_at(url)
    store.create_table()
    store.create_table()
    assert store.get(KEY) is None
    assert store.put(KEY, None, None)
    assert not store.put(KEY, {"n": 1}, "none")
    barrier, won = threading.Barrier(4), []

    def race(number: int, expected: Any) -> None:
        barrier.wait(PATIENCE)
        if store_at(url).put(KEY, {"n": number}, expected):
            won.append(number)

    for _ in range(3):
        stored = store.get(KEY)
        won.clear()
        expected = None if stored is None else stored.version
        threads = [threading.Thread(target=race, args=(number, expected)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        now = store.get(KEY)
        assert now is not None
        assert [now.value["n"]] == won
    assert not store.put(KEY, None, "other")
    assert store.put(KEY, None, now.version)
    assert store.get(KEY) is None


HOLDER = """
import sys
import sqlalchemy as sa
from mcp_sync.auth import Deadline, Key, OAuth
from mcp_sync.auth._records import Grant, ServerRecord
from mcp_sync.contrib._one_look import look_once
from mcp_sync.contrib.flask import SQLAlchemyTokenStore

store = SQLAlchemyTokenStore(sa.create_engine(sys.argv[1], poolclass=sa.pool.NullPool))
with store.lock(Key(*sys.argv[2:]), Deadline(20)):
    print("has it", flush=True)
    sys.stdin.readline()
"""


def test_a_lock_holds_against_other_processes_and_ends_with_its_holder(url: str) -> None:
    store = store_at(url)
    store.create_table()
    for is_killed in (False, True):
        command = [sys.executable, "-c", HOLDER, url, *KEY]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, cwd=ROOT, **pipes) as other:
            assert other.stdin is not None
            assert other.stdout is not None
            assert other.stdout.readline() == b"has it\n"
            with pytest.raises(CallTimeout), store.lock(KEY, Deadline(0.2)):
                pass
            with store.lock(KEY._replace(principal="user:bob"), Deadline(PATIENCE)):
                pass
            other.kill() if is_killed else other.stdin.close()
            with store.lock(KEY, Deadline(PATIENCE)):
                pass


@on_servers
def test_a_lock_holds_where_the_engine_commits_each_statement(url: str) -> None:
    store = SQLAlchemyTokenStore(sa.create_engine(url, isolation_level="AUTOCOMMIT"))
    store.create_table()
    with store.lock(KEY, Deadline(PATIENCE)), pytest.raises(CallTimeout):
        store_at(url).lock(KEY, Deadline(0.2)).__enter__()
    store.engine.dispose()


@pytest.mark.contrib
@pytest.mark.parametrize("database", ["mariadb"], indirect=True)
def test_sites_with_databases_of_their_own_at_one_server_do_not_wait_for_each_other(url: str) -> None:
    store = store_at(url)
    store.create_table()
    with store.engine.begin() as connection:
        connection.execute(sa.text("CREATE DATABASE IF NOT EXISTS another"))
    other = SQLAlchemyTokenStore(
        sa.create_engine(sa.make_url(url).set(database="another"), poolclass=sa.pool.NullPool)
    )
    with store.lock(KEY, Deadline(PATIENCE)), other.lock(KEY, Deadline(0.2)):
        pass


@pytest.mark.contrib
def test_a_lock_of_a_database_that_is_down_tells_no_secret(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    store = store_at(f"postgresql+psycopg://ada:hunter2@/site?host={tmp_path}")
    with pytest.raises(AuthError, match="cannot use its table") as told, store.lock(KEY, Deadline(PATIENCE)):
        pass
    assert str(tmp_path) not in str(told.value)


@pytest.mark.contrib
@pytest.mark.parametrize("database", ["postgres", "mariadb"], indirect=True)
def test_a_database_that_was_restarted_keeps_nobody_out(url: str) -> None:
    store, other = SQLAlchemyTokenStore(sa.create_engine(url)), store_at(url)
    store.create_table()
    assert store.put(KEY, {"n": 1}, None)
    with store.engine.connect(), store.engine.connect():
        pass  # The pool has several connections.
    ask = {
        "postgresql": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
        "AND backend_type = 'client backend'",
        "mysql": "SELECT CONCAT('KILL ', id) FROM information_schema.processlist WHERE id <> CONNECTION_ID()",
    }[store.engine.dialect.name]
    with other.engine.connect() as connection:
        ended = connection.execute(sa.text(ask)).scalars().all()
        for statement in ended if isinstance(ended[0], str) else ():
            connection.execute(sa.text(statement))
    assert len(ended) == 2
    assert store.get(KEY).value == {"n": 1}  # type: ignore[union-attr]
    assert store.put(KEY, None, store.get(KEY).version)  # type: ignore[union-attr]
    store.engine.dispose()


@on_servers
def test_threads_that_hold_locks_need_no_more_connections_than_the_pool_has(url: str) -> None:
    engine = sa.create_engine(url, pool_size=3, max_overflow=0, pool_timeout=2)
    store, all_hold, done = SQLAlchemyTokenStore(engine), threading.Barrier(3), []
    store.create_table()

    def renew(number: int) -> None:
        key = KEY._replace(principal=f"user:{number}")
        with store.lock(key, Deadline(PATIENCE)):
            all_hold.wait(PATIENCE)
            assert store.get(key) is None
            assert store.put(key, {"n": 1}, None)
            assert not store.put(key, {"n": 1}, None)
            first = store.get(key)
            assert first is not None
            assert store.put(key, {"n": 2}, first.version)
            assert not store.put(key, None, first.version)
            all_hold.wait(PATIENCE)
        second = store.get(key)
        assert second is not None
        done.append(second.value)

    threads = [threading.Thread(target=renew, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    engine.dispose()
    assert done == [{"n": 2}] * 3


def _end_its_holder(connection: sa.Connection) -> None:
    """End whatever connection holds an advisory lock."""
    if connection.dialect.name == "postgresql":
        ended = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
        assert connection.execute(sa.text(ended)).all() == [(True,)]
        return
    asked = sa.text("SELECT IS_USED_LOCK(SHA2(CONCAT_WS('/', DATABASE(), :name), 256))")
    holder = connection.execute(asked, {"name": key_digest(KEY)}).scalar()
    connection.execute(sa.text(f"KILL {holder}"))


@on_servers
def test_what_was_granted_is_kept_though_the_connection_of_the_lock_is_lost(url: str) -> None:
    engine, other = sa.create_engine(url), sa.create_engine(url, poolclass=sa.pool.NullPool)
    store = SQLAlchemyTokenStore(engine)
    store.create_table()
    with store.lock(KEY, Deadline(PATIENCE)):
        with other.connect() as connection:
            _end_its_holder(connection)
        assert store.put(KEY, {"n": 1}, None)
        stored = store.get(KEY)
        assert stored is not None
        assert stored.value == {"n": 1}
    with store.lock(KEY, Deadline(PATIENCE)):
        assert store.put(KEY, None, stored.version)
    engine.dispose()


def test_the_session_of_the_request_is_left_as_it_is(tmp_path: Path) -> None:
    sessions = scoped_session(sessionmaker(sa.create_engine(f"sqlite:///{tmp_path}/site.sqlite")))
    store = SQLAlchemyTokenStore(sessions)
    store.create_table()
    sessions.execute(
        store.table.insert().values(key="k", kind="", principal="", version="", value={}, updated=0)
    )
    assert store.get(KEY) is None
    assert sessions().in_transaction()
    sessions.commit()
    with store.engine.connect() as connection:
        assert connection.execute(sa.select(store.table.c.key)).scalars().all() == ["k"]
    sessions.remove()
    store.engine.dispose()


def test_pruning_drops_what_nobody_came_back_to_and_keeps_grants(tmp_path: Path) -> None:
    store = store_at(f"sqlite:///{tmp_path}/site.sqlite")
    app = make_app(MCP_TOKEN_STORE=store, MCP_INPUT_LIFE=60)
    run = app.test_cli_runner().invoke
    assert run(args=["mcp", "create-table"]).output == "done\n"
    for kind in ("grant", "client", "pending", "input"):
        assert store.put(Key(kind), {}, None)
    left, stays = (Key("server", principal=name) for name in ("visitor:gone", ""))
    assert store.put(left, {}, None)
    assert store.put(stays, {}, None)
    assert run(args=["mcp", "prune"]).output == "0 deleted\n"
    with store.engine.begin() as connection:
        connection.execute(store.table.update().values(updated=0))
    assert run(args=["mcp", "prune"]).output == "3 deleted\n"
    assert store.get(Key("grant")) is not None
    assert store.get(stays) is not None
    assert store.get(left) is None
    other = make_app().test_cli_runner().invoke(args=["mcp", "prune"])
    assert (other.exit_code, "is no SQLAlchemyTokenStore" in other.output) == (1, True)


def test_what_was_written_stays_when_the_session_of_the_request_is_rolled_back(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/site.sqlite", poolclass=sa.pool.NullPool)
    sessions, metadata = sessionmaker(engine), sa.MetaData()
    store = SQLAlchemyTokenStore(sessions, metadata=metadata, table="grants")
    assert list(metadata.tables) == ["grants"]
    metadata.create_all(engine)
    with sessions() as session:
        assert session.execute(sa.text("SELECT 1")).scalar() == 1
        assert store.put(KEY, {"n": 1}, None)
        session.rollback()
    stored = store.get(KEY)
    assert stored is not None
    assert stored.value == {"n": 1}


def test_a_grant_is_found_by_one_query_and_where_it_belongs_by_now(tmp_path: Path) -> None:
    store = store_at(f"sqlite:///{tmp_path}/site.sqlite")
    store.create_table()
    url, queries = "https://server.example/mcp", []
    oauth = OAuth(redirect_uri="https://app.example/callback", store=store)
    look_once(oauth)
    vault = oauth.vault

    def look() -> Any:
        queries.clear()
        kept = vault.grant(url)
        return None if kept is None else kept.grant.access_token

    def choose(issuer: str, token: str | None) -> None:
        vault.keep_found(url, ServerRecord(issuer=issuer, resource=url, metadata={}))
        if token is not None:
            grant = Grant(issuer=issuer, client_id="x", access_token=token, resource=url)
            assert vault.keep_grant(url, grant, None)

    sa.event.listen(store.engine, "before_cursor_execute", lambda *_: queries.append(1))
    assert look() is None
    choose("https://one.example", "first")
    assert (look(), len(queries)) == ("first", 2)
    assert (look(), len(queries)) == ("first", 1)
    choose("https://two.example", None)
    assert look() is None
    choose("https://two.example", "second")
    assert (look(), len(queries)) == ("second", 1)

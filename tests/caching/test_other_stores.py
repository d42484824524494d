"""Django's cache and Redis, by what the documentation shows, used as several processes use them."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from engine.background import wait_until

from mcp_sync import CacheOptions, Client, InMemory
from mcp_sync.cache import CacheStore

from .places import PATIENCE, DictStore, keeping, make_server
from .test_keeping import LISTS


class DjangoStore:
    """What the documentation of `mcp_sync.cache` shows."""

    def __init__(self, cache: Any) -> None:
        self.cache = cache

    def get_many(self, keys: Any) -> Any:
        return self.cache.get_many(keys)

    def put(self, key: str, value: bytes, seconds: int) -> None:
        self.cache.set(key, value, seconds)

    def delete(self, key: str) -> None:
        self.cache.delete(key)


class RedisStore:
    """What the documentation of `mcp_sync.cache` shows."""

    def __init__(self, redis: Any) -> None:
        self.redis = redis

    def get_many(self, keys: Any) -> Any:
        return dict(zip(keys, self.redis.mget(keys)))

    def put(self, key: str, value: bytes, seconds: int) -> None:
        self.redis.set(key, value, ex=seconds)

    def delete(self, key: str) -> None:
        self.redis.delete(key)


@pytest.fixture
def django_store() -> DjangoStore:
    pytest.importorskip("django")
    from django.conf import settings
    from django.core.cache.backends.locmem import LocMemCache

    if not settings.configured:
        settings.configure()
    return DjangoStore(LocMemCache("answers", {}))


def answers(client: Any) -> bool:
    # That of Redis is no OSError.
    with contextlib.suppress(Exception):
        return bool(client.ping())
    return False


@pytest.fixture
def redis_store(request: Any) -> Iterator[RedisStore]:
    redis = pytest.importorskip("redis")
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("needs redis-server")
    # The path of a socket must be short, which that of a test's own folder need not be.
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "redis")
        command = [program, "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        once = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
        client = redis.Redis(unix_socket_path=path, decode_responses=request.param, retry=once)
        try:
            wait_until(lambda: answers(client))
            yield RedisStore(client)
        finally:
            client.close()
            server.terminate()
            server.wait(PATIENCE)


def check_store(store: CacheStore) -> None:
    """Use a store as two processes would: two clients that have nothing else in common."""
    server = make_server()
    target = InMemory(server)
    options = CacheOptions(store=store, principal="ann")
    for ask in LISTS.values():
        with Client(target, cache=options) as one:
            first = ask(one)
        with Client(target, cache=options) as other:
            assert ask(other).to_wire() == first.to_wire()
            assert other.cache.stats.hits == 1
    assert {server.count(method) for method in LISTS} == {1}
    with Client(target, cache=CacheOptions(store=store, principal="bob")) as third:
        third.list_tools()
        assert server.count("tools/list") == 2
        third._engine.router.notification({"method": "notifications/tools/list_changed"}, None)
        wait_until(lambda: not third.cache._shelf._changed)
    with Client(target, cache=options) as one:
        one.list_tools()
        one.list_prompts()
        assert (server.count("tools/list"), server.count("prompts/list")) == (3, 1)


def test_the_smallest_store_does_what_it_should():
    check_store(DictStore())


def test_djangos_cache_does_what_it_should(django_store):
    check_store(django_store)


@pytest.mark.parametrize("redis_store", [False, True], indirect=True, ids=["bytes", "strings"])
def test_redis_does_what_it_should(redis_store):
    check_store(redis_store)
    ttl = min(redis_store.redis.ttl(key) for key in redis_store.redis.keys("*"))
    assert 0 < ttl <= 60


@pytest.mark.parametrize("redis_store", [False], indirect=True)
def test_redis_that_has_gone_is_a_miss(redis_store, caplog):
    server = make_server()
    with keeping(server, store=redis_store) as client:
        client.list_tools()
        redis_store.redis.connection_pool.disconnect()
        redis_store.redis.shutdown(nosave=True)
        with caplog.at_level(logging.WARNING, "mcp_sync.cache"):
            client.list_tools()
        assert server.count("tools/list") == 2
        assert "ConnectionError" in caplog.text

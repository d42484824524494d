"""Stores of others: what they raise is told as an error of authorization, without their words."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import pytest
import requests

from mcp_sync import Client
from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.auth import LoopbackBrowser, MemoryStore, OAuth
from mcp_sync.auth._records import Key
from mcp_sync.auth._store_edge import StoreEdge
from mcp_sync.errors import AuthError, CallTimeout

from .oauth_server import OAuthServer, protected, visit

KEY = Key("grant")
FAULTS = [ConnectionError("redis://user:canary@host is down"), KeyError("canary"), OSError(5, "canary")]


class Broken(MemoryStore):
    """A store whose methods fail from when on they are told to.

    Attributes:
        fault: What it raises.
        at: Which method does, or the entering or leaving of its lock.
    """

    fault: Any = None
    at = ""

    def _fail(self, at: str) -> None:
        if self.fault is not None and self.at in (at, ""):
            raise self.fault

    def get(self, key: Key) -> Any:
        self._fail("get")
        return super().get(key)

    def put(self, key: Key, value: Any, expected: Any) -> bool:
        self._fail("put")
        return super().put(key, value, expected)

    def lock(self, key: Key, deadline: Deadline) -> Any:
        self._fail("lock")
        return self._locked(key, deadline)

    @contextmanager
    def _locked(self, key: Key, deadline: Deadline) -> Any:
        self._fail("enter")
        with super().lock(key, deadline):
            yield
        self._fail("leave")


@pytest.fixture
def store() -> Broken:
    return Broken()


def hold(edge: StoreEdge) -> None:
    with edge.lock(KEY, Deadline(1)):
        pass


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("at", ["get", "put", "lock", "enter", "leave"])
def test_an_error_of_the_store_becomes_one_of_ours_that_names_its_type(store, at, fault) -> None:
    store.fault, store.at = fault, at
    edge = StoreEdge(store)
    use = {"get": lambda: edge.get(KEY), "put": lambda: edge.put(KEY, {}, None)}.get(at, lambda: hold(edge))
    with pytest.raises(AuthError) as caught:
        use()
    assert str(caught.value) == f"the store Broken failed: {type(fault).__name__}"
    assert caught.value.__cause__ is fault
    caught.value.__cause__ = None


@pytest.mark.parametrize("at", ["get", "put", "lock", "enter"])
@pytest.mark.parametrize("fault", [AuthError("the disk is full"), CallTimeout("too late")])
def test_an_error_of_ours_stays_what_it_is(store, at, fault) -> None:
    store.fault, store.at = fault, at
    edge = StoreEdge(store)
    use = {"get": lambda: edge.get(KEY), "put": lambda: edge.put(KEY, {}, None)}.get(at, lambda: hold(edge))
    with pytest.raises(type(fault)) as caught:
        use()
    assert caught.value is fault


def test_what_is_raised_under_the_lock_is_not_the_fault_of_the_store(store) -> None:
    edge = StoreEdge(store)
    with pytest.raises(KeyError, match="mine"), edge.lock(KEY, Deadline(1)):
        raise KeyError("mine")
    hold(edge)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_caller_of_a_client_is_told_that_it_is_the_store(store, fault) -> None:
    with OAuthServer() as server, protected(server) as endpoint:
        auth = OAuth(interaction=LoopbackBrowser(open=visit, timeout=20), store=store)
        with Client(endpoint.url, auth=auth) as client:
            client.call_tool("add", {"a": 1, "b": 2})
            server.expire_all()
            store.fault = fault
            with pytest.raises(AuthError, match="the store Broken failed: ") as caught:
                client.call_tool("add", {"a": 1, "b": 2})
            assert "canary" not in str(caught.value)
            store.fault = None
            client.call_tool("add", {"a": 1, "b": 2})
        with pytest.raises(AuthError), requests.Session() as session:
            session.trust_env = False
            store.fault = fault
            server.expire_all()
            session.post(endpoint.url, data=b"{}", auth=auth, timeout=20)

"""Settings: immutable, checked when they are made."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from mcp_sync import UNSET, CacheOptions, Client, ClientSession, InMemory, Limits, Retry, Timeouts
from mcp_sync.errors import UsageError
from mcp_sync.options import check_seconds
from mcp_sync.testing import FakeServer


@pytest.mark.parametrize(
    "value", [Timeouts(), Limits(), Retry(), CacheOptions()], ids=lambda value: type(value).__name__
)
def test_settings_are_immutable_values(value):
    name = dataclasses.fields(value)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, name, 1)
    assert value == type(value)()
    assert hash(value) == hash(type(value)())
    assert pickle.loads(pickle.dumps(value)) == value


def test_the_defaults_are_those_of_the_design():
    assert Timeouts() == Timeouts(connect=10, probe=2, open=30, silence=60, total=1800, close=5)
    assert Limits().message_bytes == 64 * 1024 * 1024


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Timeouts)])
@pytest.mark.parametrize("bad", [-1, -0.001, "1", True, float("nan"), [], object], ids=repr)
def test_a_bound_that_is_no_number_of_seconds_is_refused_by_its_name(name, bad):
    with pytest.raises(UsageError, match=name):
        Timeouts(**{name: bad})


@pytest.mark.parametrize("good", [None, 0, 0.5, 10**9])
def test_none_and_every_number_from_zero_are_bounds(good):
    assert Timeouts(silence=good).silence == good
    check_seconds("x", good)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Limits)])
@pytest.mark.parametrize("bad", [0, -1, 1.5, "1", True, None], ids=repr)
def test_a_limit_that_is_no_whole_number_from_one_is_refused_by_its_name(name, bad):
    with pytest.raises(UsageError, match=name):
        Limits(**{name: bad})


@pytest.mark.parametrize("bad", [-1, 1.5, "1", True, None], ids=repr)
def test_a_number_of_repetitions_that_is_none_is_refused(bad):
    with pytest.raises(UsageError, match="resume"):
        Retry(resume=bad)
    assert Retry(resume=0).resume == 0


def test_unset_is_one_value_that_is_false_and_says_what_it_is():
    assert not UNSET
    assert repr(UNSET) == "UNSET"
    assert copy.deepcopy(UNSET) is UNSET
    assert pickle.loads(pickle.dumps(UNSET)) is UNSET


# --- arguments of clients --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target", [None, "", "server.py", "ftp://h/", 7, [], ["a", 1], (), {}, b"http://h"], ids=repr
)
def test_what_is_no_target_is_refused_with_what_is(target):
    with pytest.raises(UsageError, match="https://"):
        Client(target)


@pytest.mark.parametrize(
    "option", [{"auth": ("user", "password")}, {"headers": {"a": "b"}}, {"session_id": "x"}], ids=repr
)
@pytest.mark.parametrize("target", [["server"], InMemory(FakeServer())], ids=["command", "target"])
def test_options_of_a_url_are_refused_beside_anything_else(target, option):
    with pytest.raises(UsageError, match=next(iter(option))):
        Client(target, **option)


def test_a_session_that_is_taken_up_needs_the_revision_that_it_speaks():
    with pytest.raises(UsageError, match="mode="):
        Client("https://example.com/mcp", session_id="abc")
    with pytest.raises(UsageError, match="mode="):
        Client("https://example.com/mcp", session_id="abc", mode="2026-07-28")


def test_a_session_needs_a_transport():
    with pytest.raises(UsageError, match="transport"):
        ClientSession("https://example.com/mcp")


@pytest.mark.parametrize("mode", ["modern", "2099-01-01", None])
def test_an_unknown_mode_is_refused(mode):
    with pytest.raises(UsageError, match="mode"):
        Client(InMemory(FakeServer()), mode=mode)


def test_a_client_shows_its_name_and_target():
    client = Client(InMemory(FakeServer()), name="weather")
    assert repr(client) == "<Client weather to InMemory(FakeServer)>"


def test_clients_without_a_name_get_different_ones():
    assert Client(InMemory(FakeServer())).name != Client(InMemory(FakeServer())).name

"""What all stores have in common, whatever they keep records in."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mcp_sync.auth._records import Key

from .store_worker import KEY, KINDS, LASTING, increment, open_store, working

# How many changes each thread or process makes: enough that they meet, as each waits for the disk.
EACH = 25
VALUE = {"access_token": "s3cret", "expires_at": 1.5, "more": {"list": [1, None, "ü"]}}
# A keyring of a part for each record, and one of many ("split"): programs are started for the second alone.
ACROSS = [pytest.param(kind, marks=pytest.mark.heavy if kind == "keyring" else ()) for kind in LASTING]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(kind: str, tmp_path: Path) -> Any:
    return open_store(kind, tmp_path)


def version(store: Any, key: Key = KEY) -> Any:
    stored = store.get(key)
    return None if stored is None else stored.version


def test_what_is_put_is_got(store):
    assert store.get(KEY) is None
    assert store.put(KEY, VALUE, None)
    assert store.get(KEY).value == VALUE


def test_a_value_is_replaced_only_by_somebody_who_knows_it(store):
    assert store.put(KEY, {"n": 1}, None)
    first = version(store)
    assert not store.put(KEY, {"n": 2}, None)
    assert not store.put(KEY, {"n": 2}, "another")
    assert store.put(KEY, {"n": 2}, first)
    assert not store.put(KEY, {"n": 3}, first)
    assert store.get(KEY).value == {"n": 2}


def test_nothing_is_replaced_only_where_there_is_nothing(store):
    assert not store.put(KEY, {"n": 1}, "some version")
    assert store.get(KEY) is None
    assert store.put(KEY, None, None)


def test_a_value_is_removed_only_by_somebody_who_knows_it(store):
    store.put(KEY, VALUE, None)
    assert not store.put(KEY, None, None)
    assert not store.put(KEY, None, "another")
    assert store.put(KEY, None, version(store))
    assert store.get(KEY) is None


def test_a_version_never_comes_back(store):
    seen = set()
    for _ in range(5):
        store.put(KEY, {"same": 1}, None)
        seen.add(version(store))
        store.put(KEY, {"same": 1}, version(store))
        seen.add(version(store))
        store.put(KEY, None, version(store))
    assert len(seen) == 10


def test_what_the_caller_does_to_its_value_changes_nothing(store):
    value = {"list": [1]}
    store.put(KEY, value, None)
    value["list"].append(2)
    assert store.get(KEY).value == {"list": [1]}


def test_what_is_not_json_is_refused_and_the_old_value_stays(store):
    store.put(KEY, {"n": 1}, None)
    with pytest.raises(TypeError):
        store.put(KEY, {"n": object()}, version(store))
    assert store.get(KEY).value == {"n": 1}


KEYS = [
    Key("grant", "a", "b", "c"),
    Key("client", "a", "b", "c"),
    Key("grant", "ab", "", "c"),
    Key("grant", "a", "", "bc"),
    Key("grant", "a", "b", "C"),
    Key("grant", "a", "b", "c "),
    Key("grant", 'a", "b', "", ""),
    Key("grant", "a", "\\ud800", ""),
    Key("grant", "a", "\ud800", ""),
    Key("grant", "https://ünï.example/日本", "../../etc/passwd", "ann\x00\n@example"),
    Key("pending", "", "x" * 100_000, "y" * 5000),
    Key("server"),
]


def test_keys_of_all_kinds_are_kept_apart(store):
    for number, key in enumerate(KEYS):
        assert store.put(key, {"number": number}, None)
    assert [store.get(key).value["number"] for key in KEYS] == list(range(len(KEYS)))


def test_a_large_value_is_kept(store):
    value = {"access_token": "é" * 5000}
    store.put(KEY, {"short": 1}, None)
    store.put(KEY, value, version(store))
    assert store.get(KEY).value == value
    store.put(KEY, {"short": 2}, version(store))
    assert store.get(KEY).value == {"short": 2}


@pytest.mark.parametrize("kind", [*LASTING, "plain"])
def test_values_survive_a_restart(kind, tmp_path):
    first = open_store(kind, tmp_path)
    first.put(KEY, VALUE, None)
    second = open_store(kind, tmp_path)
    assert second.get(KEY).value == VALUE
    assert second.get(KEY).version == first.get(KEY).version
    assert second.put(KEY, None, version(second))
    assert first.get(KEY) is None


@pytest.mark.parametrize("kind", ACROSS)
def test_what_another_process_puts_is_seen(kind, tmp_path):
    store = open_store(kind, tmp_path)
    store.put(KEY, {"text": "ours"}, None)
    old = version(store)
    with working(1, kind, tmp_path) as (worker,):
        assert worker.ask("put théirs") == "True"
    assert store.get(KEY).value == {"text": "théirs"}
    assert not store.put(KEY, {"text": "ours"}, old)


def test_no_change_is_lost_between_threads(kind, store):
    start = threading.Barrier(8)
    times = 200 if kind == "memory" else EACH

    def work() -> None:
        start.wait()
        increment(store, KEY, times)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # Threads take turns in the middle of everything.
    try:
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(work) for _ in range(8)]:
                done.result()
    finally:
        sys.setswitchinterval(interval)
    assert store.get(KEY).value == {"number": 8 * times}


def test_in_memory_nobody_comes_between_a_comparison_and_its_change():
    meet = threading.Barrier(2)

    class Slow(dict):
        def get(self, key: Any, default: Any = None) -> Any:
            found = super().get(key, default)
            with suppress(threading.BrokenBarrierError):
                meet.wait(0.3)
            return found

    store = open_store("memory", Path())
    store._values = Slow()
    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(store.put, KEY, {"n": number}, None) for number in range(2)]
        assert sorted(each.result() for each in done) == [False, True]


@pytest.mark.parametrize("kind", ACROSS)
def test_no_change_is_lost_between_processes(kind, tmp_path):
    with working(4, kind, tmp_path) as workers:
        for worker in workers:
            worker.tell(f"increment {EACH}")
        assert [worker.hear() for worker in workers] == ["done"] * 4
    assert open_store(kind, tmp_path).get(KEY).value == {"number": 4 * EACH}


def test_of_many_that_remove_a_value_at_once_one_succeeds(store):
    store.put(KEY, VALUE, None)
    seen, start = version(store), threading.Barrier(8)

    def take() -> bool:
        start.wait()
        return bool(store.put(KEY, None, seen))

    with ThreadPoolExecutor(8) as pool:
        taken = [done.result() for done in [pool.submit(take) for _ in range(8)]]
    assert sorted(taken) == [False] * 7 + [True]
    assert store.get(KEY) is None


def test_readers_see_whole_values_while_others_write(store):
    texts = [letter * size for letter, size in (("a", 3000), ("b", 10), ("c", 1500), ("d", 4000))]
    over = threading.Event()
    store.put(KEY, {"text": texts[0]}, None)

    def read() -> int:
        count = 0
        while not over.is_set():
            assert store.get(KEY).value["text"] in texts
            count += 1
        return count

    with ThreadPoolExecutor(3) as pool:
        reading = [pool.submit(read) for _ in range(3)]
        try:
            for text in texts * 2:
                store.put(KEY, {"text": text}, version(store))
        finally:
            over.set()
        assert all(done.result() for done in reading)


def test_no_representation_shows_a_value(store):
    store.put(KEY, VALUE, None)
    assert "s3cret" not in repr(store) + repr(store.get(KEY)) + str(store.get(KEY))

"""Threads: named, daemon, never dying silently, joined within one deadline; and what a fork renews."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import textwrap
import threading
import time
import weakref

from engine.background import Background

from mcp_sync._concurrency import fork
from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._concurrency.threads import client_name, join_all, spawn


def test_a_thread_is_a_daemon_that_says_whose_it_is_and_what_for():
    seen = threading.Event()
    thread = spawn("weather", "reader", seen.set)
    assert seen.wait(10)
    assert thread.name == "mcp_sync-weather-reader"
    assert thread.daemon
    thread.join(10)


def test_an_exception_that_escapes_is_logged_with_the_name_of_the_thread(caplog, monkeypatch):
    # Not through the logger that the guard of all tests listens to.
    monkeypatch.setattr("mcp_sync._concurrency.threads.logger", logging.getLogger("elsewhere"))

    def fail():
        raise ZeroDivisionError("oops")

    spawn("weather", "reader", fail).join(10)
    assert "mcp_sync-weather-reader" in caplog.text
    assert "ZeroDivisionError: oops" in caplog.text


def test_what_remembers_the_end_of_a_thread_keeps_nothing_alive_that_the_thread_was_given(monkeypatch):
    class Given:
        def use(self):
            pass

    frames = []
    # As a traceback in a circle does, with all frames above it.
    monkeypatch.setattr("mcp_sync._concurrency.threads.at_end", [lambda: frames.append(sys._getframe())])
    given = Given()
    gone = weakref.ref(given)
    thread = spawn("weather", "reader", lambda user, also: user(), given.use, given)
    del given
    thread.join(10)
    assert (len(frames), gone()) == (1, None)


def test_a_thread_does_not_begin_in_the_context_of_whoever_starts_it():
    script = """
        import contextvars
        from mcp_sync._concurrency.threads import spawn

        user = contextvars.ContextVar("user", default="nobody")
        user.set("ada")
        spawn("weather", "worker", lambda: print(user.get())).join(10)
    """
    # Free-threaded Python has this by default.
    command = [sys.executable, "-X", "thread_inherit_context=1", "-c", textwrap.dedent(script)]
    assert subprocess.run(command, capture_output=True, text=True, timeout=30).stdout == "nobody\n"


def test_names_of_clients_differ():
    names = [client_name() for _ in range(100)]
    assert len(set(names)) == 100


def test_joining_waits_for_all_within_one_deadline(caplog):
    leave = threading.Event()
    threads = [spawn("weather", f"stuck-{number}", leave.wait, 10) for number in range(5)]
    started = time.monotonic()
    assert not join_all(threads, Deadline(1))
    assert time.monotonic() - started < 4  # Each of the five has no time of its own.
    assert "mcp_sync-weather-stuck-0" in caplog.text
    leave.set()
    assert join_all(threads, Deadline(10))


def test_a_thread_does_not_wait_for_itself():
    joined = Background(lambda: join_all([threading.current_thread()], Deadline(None)))
    assert joined.result() is True


def test_a_finaliser_neither_waits_nor_complains(caplog):
    leave = threading.Event()
    threads = [spawn("weather", "stuck", leave.wait, 10)]
    assert not join_all(threads, Deadline(0.0))
    assert not caplog.records
    leave.set()
    threads[0].join(10)


class Watched:
    def __init__(self, problem=None):
        self.renewed = 0
        self.problem = problem

    def after_fork_in_child(self):
        self.renewed += 1
        if self.problem is not None:
            raise self.problem


def test_everything_that_lives_is_renewed_also_when_one_of_them_fails(monkeypatch, caplog):
    monkeypatch.setattr(fork, "logger", logging.getLogger("elsewhere"))
    items = [Watched(ZeroDivisionError("broken")) if number == 3 else Watched() for number in range(7)]
    for item in items:
        fork.watch(item)
    monkeypatch.setattr(fork, "_objects", type(fork._objects)(items))
    fork._after_fork_in_child()
    assert [item.renewed for item in items] == [1] * 7
    assert "ZeroDivisionError: broken" in caplog.text


def test_watching_keeps_nothing_alive():
    item = Watched()
    fork.watch(item)
    assert item in fork._objects
    size = len(fork._objects)
    del item
    gc.collect()
    assert len(fork._objects) < size


def test_a_fork_waits_until_other_threads_have_imported_and_built(monkeypatch):
    waits, order = threading.Event(), []
    monkeypatch.setattr(fork.time, "sleep", lambda seconds: waits.set())

    def import_something():
        with fork.no_fork():
            begun.set()
            assert waits.wait(10), "the fork did not wait"
            order.append("imported")

    begun = threading.Event()
    importing = spawn("weather", "importer", import_something)
    assert begun.wait(10)
    with fork.no_fork():  # Its own work does not keep a thread from forking.
        fork._before_fork()
        order.append("forked")
    fork._after_fork_in_parent()
    importing.join(10)
    assert order == ["imported", "forked"]
    assert not fork._busy
    assert not fork._forking


def test_what_begins_while_a_fork_waits_lets_it_go_first():
    order = []

    def work():
        with fork.no_fork():
            first.set()
            assert second_waits.wait(10)
            assert not order

    def work_too():
        assert forking.wait(10)
        second_waits.set()
        with fork.no_fork():
            order.append("second")

    first, forking, second_waits = threading.Event(), threading.Event(), threading.Event()
    threads = [spawn("weather", "worker", each) for each in (work, work_too)]
    assert first.wait(10)
    fork._forking.append(-1)
    forking.set()
    threads[0].join(10)
    threads[1].join(0.1)
    assert not order
    fork._forking.remove(-1)
    threads[1].join(10)
    assert order == ["second"]
    assert not fork._busy


def test_work_within_work_does_not_wait_for_a_fork_that_waits_for_it(monkeypatch):
    sleeps = []
    monkeypatch.setattr(fork.time, "sleep", sleeps.append)
    with fork.no_fork():
        monkeypatch.setattr(fork, "_forking", [-1])
        with fork.no_fork():
            pass
    assert not sleeps
    assert not fork._busy


def test_a_fork_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(fork, "_PATIENCE", 0.01)
    monkeypatch.setattr(fork, "_busy", [-1])
    fork._before_fork()
    fork._after_fork_in_child()
    assert fork._busy == []

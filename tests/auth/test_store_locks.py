"""The locks of stores: between threads and processes, whatever becomes of the holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.auth import _locks
from mcp_sync.auth._locks import FolderLocks, ThreadLocks
from mcp_sync.auth._records import Key
from mcp_sync.errors import AuthError, CallTimeout

from .store_worker import KEY, KINDS, LASTING, open_store, overlap, working

FORKS = hasattr(os, "fork")
posix = pytest.mark.skipif(os.name != "posix", reason="files are locked in another way here")
forking = pytest.mark.skipif(not FORKS, reason="no fork here")
# All that last take the same locks: without `--heavy` programs are started for two of them.
ACROSS = [
    pytest.param(kind, marks=() if kind in ("file", "sqlite") else pytest.mark.heavy) for kind in LASTING
]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(kind: str, tmp_path: Path) -> Any:
    return open_store(kind, tmp_path)


def is_free(store: Any, key: Key = KEY) -> bool:
    try:
        with store.lock(key, Deadline(0)):
            return True
    except CallTimeout:
        return False


def files_with(end: str, folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.endswith(end)]


def test_one_thread_at_a_time_holds_a_lock(store, tmp_path):
    mark = tmp_path / "mark"
    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(overlap, store, mark, 25) for _ in range(8)]
        assert [each.result() for each in done] == ["done"] * 8


@pytest.mark.parametrize("kind", ACROSS)
def test_one_process_at_a_time_holds_a_lock(kind, tmp_path):
    mark = tmp_path / "mark"
    with working(3, kind, tmp_path) as workers:
        for worker in workers:
            worker.tell(f"overlap {mark}")
        with ThreadPoolExecutor(2) as pool:
            stores = [open_store(kind, tmp_path) for _ in range(2)]
            done = [pool.submit(overlap, store, mark, 25) for store in stores]
            assert [each.result() for each in done] == ["done"] * 2
        assert [worker.hear() for worker in workers] == ["done"] * 3
    assert not files_with(".lock", tmp_path)


@pytest.mark.parametrize("kind", LASTING)
def test_two_stores_of_the_same_place_have_the_same_locks(kind, tmp_path):
    first, second = open_store(kind, tmp_path), open_store(kind, tmp_path)
    with first.lock(KEY, Deadline(5)):
        assert not is_free(second)
    assert is_free(second)


def test_other_keys_are_free_and_records_can_be_read_and_written(store):
    with store.lock(KEY, Deadline(5)):
        assert is_free(store, KEY._replace(principal="bob"))
        with store.lock(KEY._replace(kind="client"), Deadline(5)):
            assert store.put(KEY, {"n": 1}, None)
            assert store.get(KEY).value == {"n": 1}


def test_a_lock_is_not_re_entrant(store):
    with store.lock(KEY, Deadline(5)):
        assert not is_free(store)
    assert is_free(store)


def test_a_wait_for_a_lock_ends_at_its_deadline(store):
    with store.lock(KEY, Deadline(5)):
        began = time.monotonic()
        with pytest.raises(CallTimeout, match="somebody else held the lock") as caught:
            store.lock(KEY, Deadline(0.2)).__enter__()
        assert 0.2 <= time.monotonic() - began < 4.5
        assert caught.value.timeout == 0.2


@pytest.mark.parametrize("kind", ACROSS)
def test_a_wait_for_another_process_ends_at_its_deadline(kind, tmp_path):
    with working(1, kind, tmp_path) as (worker,):
        assert worker.ask("lock 5") == "done"
        began = time.monotonic()
        with pytest.raises(CallTimeout):
            open_store(kind, tmp_path).lock(KEY, Deadline(0.2)).__enter__()
        assert 0.2 <= time.monotonic() - began < 4.5
        assert worker.ask("unlock") == "done"
        assert is_free(open_store(kind, tmp_path))


def test_a_lock_ends_with_its_block_however_that_ends(store):
    with pytest.raises(ZeroDivisionError), store.lock(KEY, Deadline(5)):
        raise ZeroDivisionError
    assert is_free(store)


def test_whoever_waits_gets_the_lock_when_it_is_free(store):
    waiting = threading.Event()

    def wait() -> bool:
        waiting.set()
        with store.lock(KEY, Deadline(None)):
            return True

    with ThreadPoolExecutor(1) as pool:
        with store.lock(KEY, Deadline(5)):
            done = pool.submit(wait)
            waiting.wait()
        assert done.result(10)


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_whoever_writes_again_and_again_lets_those_go_first_who_wait(kind, tmp_path):
    locks = open_store(kind, tmp_path)._locks
    with working(1, kind, tmp_path) as (worker,):
        with locks.writing("write.lock", 5):
            worker.tell("put something")
            in_line, patience = False, Deadline(20)
            while not in_line and not patience.expired:
                try:
                    with locks.hold("next-write.lock", Deadline(0)):
                        pass
                except CallTimeout:
                    in_line = True
                else:
                    # Not while it is held: the other one must find it free.
                    time.sleep(0.001)
            assert in_line, "the other process does not come before this one's next change"
        assert worker.hear() == "True"


@pytest.mark.parametrize("kind", ACROSS)
def test_the_lock_of_a_process_that_is_killed_is_free(kind, tmp_path):
    store = open_store(kind, tmp_path)
    with working(1, kind, tmp_path) as (worker,):
        assert worker.ask("lock 5") == "done"
        assert not is_free(store)
        worker.process.kill()
        worker.process.wait()
        with store.lock(KEY, Deadline(5)):
            pass


def test_locks_leave_nothing_behind(store, tmp_path):
    for number in range(20):
        with store.lock(KEY._replace(principal=str(number)), Deadline(5)):
            pass
    assert not files_with(".lock", tmp_path)
    threads = getattr(store._locks, "_locks", None)
    assert not threads


@pytest.mark.skipif(sys.platform == "win32", reason="signals are raised in another way there")
def test_a_wait_that_a_signal_ends_spoils_nothing(store):
    class Struck(Exception):
        pass

    def strike(*_: Any) -> None:
        raise Struck

    old = signal.signal(signal.SIGALRM, strike)
    try:
        with store.lock(KEY, Deadline(5)):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(Struck):
                store.lock(KEY, Deadline(5)).__enter__()
            assert not is_free(store)
        assert is_free(store)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Struck), store.lock(KEY, Deadline(5)):
            threading.Event().wait(10)
        assert is_free(store)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@pytest.mark.parametrize("kind", LASTING)
def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(kind, tmp_path):
    (tmp_path / "there").write_text("a file")
    locks = FolderLocks(tmp_path / "there")
    with pytest.raises(AuthError, match="there"):
        locks.hold("a.lock", Deadline(1)).__enter__()


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "a.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AuthError, match="cannot be locked"):
        FolderLocks(tmp_path).hold("a.lock", Deadline(1)).__enter__()
    assert not (tmp_path / "elsewhere").exists()


def test_the_lock_of_a_file_that_has_been_removed_meanwhile_does_not_count(tmp_path, monkeypatch):
    first, second, third = (_locks._FileLock(str(tmp_path / "a.lock")) for _ in range(3))
    assert first.taken()
    really = _locks._locked

    def late(descriptor: int) -> bool:
        # Between the opening of the file and its locking.
        first.release()
        return really(descriptor)

    monkeypatch.setattr(_locks, "_locked", late)
    assert not second.taken()
    monkeypatch.undo()
    assert third.taken()
    assert not second.taken()
    third.release()


@posix
def test_a_copy_of_the_descriptor_in_another_process_does_not_keep_a_lock(tmp_path, monkeypatch):
    lock, other = (_locks._FileLock(str(tmp_path / "a.lock")) for _ in range(2))
    assert lock.taken()
    copy = os.dup(lock._descriptor)  # As a program has it that is about to start another.
    try:
        # Removing the file would do, but may fail.
        monkeypatch.setattr(os, "unlink", os.rmdir)
        lock.release()
        assert other.taken()
    finally:
        monkeypatch.undo()
        os.close(copy)
        other.release()


def test_a_lock_whose_holder_was_struck_down_goes_with_it():
    locks = ThreadLocks()
    with locks.hold("a", Deadline(1)):
        # As if a signal handler had raised just before this thread knew that it has the lock.
        locks._locks["b"] = lock = type(locks._locks["a"])()
        lock.inner.acquire()
        del lock
    with locks.hold("b", Deadline(1)):
        pass


def run(script: str, *args: Any, timeout: float = 50) -> str:
    """Run a program that forks, away from the threads of the test run."""
    command = [sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning", "-c"]
    head = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    done = subprocess.run(
        [*command, head + textwrap.dedent(script), *map(str, args)],
        capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.strip()


FORK_HEAD = """
import os, signal, threading, time
from pathlib import Path
from store_worker import KEY, increment, open_store
from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.errors import CallTimeout

kind, folder = sys.argv[1], Path(sys.argv[2])
store = open_store(kind, folder)

def is_free(store):
    try:
        with store.lock(KEY, Deadline(0)):
            return True
    except CallTimeout:
        return False

def child(work):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            os.write(writer, repr(work()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as answer:
        text = answer.read()
    assert os.waitpid(pid, 0)[1] == 0, "the child hung or died"
    return text
"""


@forking
@pytest.mark.parametrize("kind", ["memory", *ACROSS])
def test_a_child_that_is_forked_under_the_lock_neither_holds_nor_releases_it(kind, tmp_path):
    # The parent leaves its block only when the child has left its own.
    script = """
    reader, writer = os.pipe()
    pid = None
    with store.lock(KEY, Deadline(5)):
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            print(is_free(store), os.read(reader, 100).decode())
        else:
            inside = is_free(store)
    if not pid:
        os.write(writer, f"{inside} {is_free(store)}".encode())
        os._exit(0)
    print(is_free(store))
    """
    said = run(FORK_HEAD + textwrap.dedent(script), kind, tmp_path).splitlines()
    # What is in memory is the child's own from the fork on.
    inside = "True True" if kind == "memory" else "False False"
    assert said == [f"False {inside}", "True"]


@forking
@pytest.mark.parametrize("kind", ["memory", *ACROSS])
def test_a_child_that_is_forked_while_another_thread_holds_the_lock_does_not_have_it(kind, tmp_path):
    script = """
    held, over = threading.Event(), threading.Event()
    def hold():
        with store.lock(KEY, Deadline(5)):
            held.set()
            over.wait()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    print(child(lambda: is_free(store)))
    print(is_free(store))
    over.set()
    thread.join()
    print(child(lambda: is_free(store)), is_free(store))
    """
    said = run(FORK_HEAD + textwrap.dedent(script), kind, tmp_path).splitlines()
    assert said == ["True" if kind == "memory" else "False", "False", "True True"]


@forking
@pytest.mark.parametrize("kind", ACROSS)
def test_a_child_does_not_keep_alive_the_lock_of_a_parent_that_was_killed(kind, tmp_path):
    script = """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        held = threading.Event()
        def hold():
            with store.lock(KEY, Deadline(5)):
                held.set()
                threading.Event().wait()
        threading.Thread(target=hold, daemon=True).start()
        held.wait()
        grandchild = os.fork()
        if grandchild == 0:
            threading.Event().wait(40)
            os._exit(0)
        os.write(writer, str(grandchild).encode())
        threading.Event().wait(40)
        os._exit(0)
    grandchild = int(os.read(reader, 100))
    try:
        print(is_free(store))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.kill(grandchild, 0)
        with store.lock(KEY, Deadline(10)):
            print("held")
    finally:
        os.kill(grandchild, signal.SIGKILL)
    """
    assert run(FORK_HEAD + textwrap.dedent(script), kind, tmp_path).splitlines() == ["False", "held"]


@pytest.mark.heavy
@forking
def test_children_that_are_forked_in_the_middle_of_work_can_work(kind, tmp_path):
    script = """
    over = threading.Event()
    def work():
        while not over.is_set():
            increment(store, KEY, 1)
            with store.lock(KEY._replace(principal="other"), Deadline(20)):
                pass
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    def use():
        increment(store, KEY._replace(principal="child"), 2)
        with store.lock(KEY, Deadline(20)):
            return store.get(KEY._replace(principal="child")).value["number"]
    try:
        print(*[child(use) for _ in range(8)])
    finally:
        over.set()
        for thread in threads:
            thread.join()
    """
    said = run(FORK_HEAD + textwrap.dedent(script), kind, tmp_path).split()
    assert said == (["2"] * 8 if kind == "memory" else [str(number) for number in range(2, 17, 2)])


WINDOWS = """
import errno, fcntl, os, threading, time, types
from pathlib import Path
import mcp_sync.errors, mcp_sync._concurrency.fork, mcp_sync._concurrency.deadline, mcp_sync.auth._records

def locking(descriptor, mode, size):
    # As there: what is locked is refused, and a lock ends with its file.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_UN if mode == 0 else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None

sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_UNLCK=0, LK_NBLCK=2)
sys.platform = "win32"
from mcp_sync.auth import _locks
from mcp_sync._concurrency.deadline import Deadline
assert not hasattr(_locks, "fcntl")

def is_free(locks):
    try:
        with locks.hold("a.lock", Deadline(0)):
            return True
    except TimeoutError:
        return False

folder = Path(sys.argv[1])
locks = _locks.FolderLocks(folder)
with locks.hold("a.lock", Deadline(1)):
    # Another process has another table of threads.
    _locks._threads.after_fork_in_child()
    print(is_free(locks), (folder / "a.lock").exists())
print(is_free(locks), (folder / "a.lock").exists())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="what is there need not be imitated")
def test_on_windows_the_locks_are_those_of_msvcrt(tmp_path):
    assert run(WINDOWS, tmp_path).split() == ["False", "True", "True", "False"]

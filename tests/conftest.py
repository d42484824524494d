"""The guard around every test: nothing that a test started may outlive it."""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Optional

import pytest
from hypothesis import HealthCheck, settings

# Where it is set, each of the many programs that the tests start would compile the whole package anew, and
# each run of the tests all of them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

HERE = Path(__file__).parent
# How much hypothesis tries: `--hypothesis-profile=long` tries a hundred times as much as the normal run. That
# tries the same examples each time, and writes nothing to the disk. A busy machine is no fault.
_ALWAYS = {"database": None, "deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("usual", max_examples=60, derandomize=True, **_ALWAYS)
settings.register_profile("long", max_examples=6000, print_blob=True, **_ALWAYS)
settings.load_profile("usual")

# Their servers live as long as the test run.
UNGUARDED = tuple(HERE / name for name in ("interop", "benchmarks", "conformance"))
PATIENCE = 2.0  # seconds in which threads, children and descriptors have to be gone


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Have the garbage collector leave the thousands of collected tests alone: some tests call it often."""
    gc.collect()
    gc.freeze()


class Belongings(NamedTuple):
    """What the process has at one moment."""

    threads: frozenset[threading.Thread]
    children: frozenset[int]
    descriptors: frozenset[tuple[int, str]]


@pytest.fixture(autouse=True)
def leak_guard(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a thread, a child process or a descriptor behind, or whose thread died."""
    if any(folder in request.path.parents for folder in UNGUARDED):
        yield
        return
    before = belongings()
    with FailedThreads() as failures:
        yield
        left = leftovers(before)
    if failures:
        pytest.fail("a thread of the client died: " + "; ".join(failures))
    if left:
        pytest.fail(f"still there {PATIENCE:g} s after the test: {left}")


def belongings() -> Belongings:
    """Take stock."""
    return Belongings(
        frozenset(threading.enumerate()), frozenset(child_processes()), frozenset(descriptors())
    )


def leftovers(before: Belongings) -> str:
    """Name what has come since ``before`` and does not go away in time; empty if there is nothing."""
    deadline = time.monotonic() + PATIENCE
    while True:
        now = belongings()
        threads = [thread for thread in now.threads - before.threads if thread.is_alive()]
        new = [
            *(f"thread {thread.name}" for thread in threads),
            *(f"child process {pid}" for pid in now.children - before.children),
            *(f"descriptor {number} ({what})" for number, what in now.descriptors - before.descriptors),
        ]
        if not new or time.monotonic() > deadline:
            return ", ".join(sorted(new))
        if threads:
            threads[0].join(0.02)
        else:
            time.sleep(0.005)


def child_processes() -> set[int]:
    """Return the ids of all children, zombies included."""
    if not hasattr(os, "waitid"):
        return set()
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()
    # There are some, perhaps of a fixture that outlives the test. Only now is it worth looking closer.
    processes = [int(name) for name in _entries("/proc") if name.isdigit()]
    return {pid for pid in processes if _parent(pid) == os.getpid()}


def _parent(pid: int) -> Optional[int]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The second field, the name in parentheses, may hold anything.
    return int(text.rpartition(")")[2].split()[1])


def descriptors() -> set[tuple[int, str]]:
    """Return the open descriptors with what they refer to, as far as the system tells."""
    found = set()
    for name in _entries("/proc/self/fd"):
        try:
            found.add((int(name), os.readlink(f"/proc/self/fd/{name}")))
        except OSError:
            pass  # That of the listing itself.
    if sys.version_info < (3, 10):
        # A framework that configures logging closes the log file of pytest, which is none; before Python 3.10
        # the next record opens it again, in whichever test that comes.
        found = {each for each in found if each[1] != os.devnull}
    return found


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


class FailedThreads(logging.Handler):
    """Collects what escaped from threads of the client and was only logged; pytest sees the rest."""

    def __enter__(self) -> list[str]:
        self.failures: list[str] = []
        logging.getLogger("mcp_sync.threads").addHandler(self)
        return self.failures

    def __exit__(self, *exc_info: object) -> None:
        logging.getLogger("mcp_sync.threads").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record of the module that makes the threads."""
        if record.exc_info:
            self.failures.append(f"{record.getMessage()}: {record.exc_info[1]!r}")

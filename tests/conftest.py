"""The guard around every test: nothing that a test started may outlive it."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Optional, Union

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_sync._engine import known_servers

# Where it is set, each of the many programs that the tests start would compile the whole package anew, and
# each run of the tests all of them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# None is installed, and looking for them costs each of those programs a tenth of its start.
os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"

HERE = Path(__file__).parent
# How much hypothesis tries: more with `--heavy`, and a hundred times as much as that, and other examples each
# time, with `--hypothesis-profile=long`. Nothing is written to the disk, and a busy machine is no fault.
_ALWAYS = {"database": None, "deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("quick", max_examples=25, derandomize=True, **_ALWAYS)
settings.register_profile("usual", max_examples=60, derandomize=True, **_ALWAYS)
settings.register_profile("long", max_examples=6000, print_blob=True, **_ALWAYS)
settings.load_profile("quick")

# Their servers live as long as the test run.
UNGUARDED = tuple(f"{HERE / name}{os.sep}" for name in ("interop", "benchmarks", "conformance"))
PATIENCE = 2.0  # seconds of waiting in which threads, children and descriptors have to be gone


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--heavy`."""
    parser.addoption("--heavy", action="store_true", help="run the tests with much work, too")


def pytest_configure(config: pytest.Config) -> None:
    """Choose how much hypothesis tries, and let Ctrl-C through."""
    # A shell has what it starts in the background ignore it, and so would every program that the tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--heavy") and not config.getoption("--hypothesis-profile"):
        settings.load_profile("usual")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Have each worker of a run of everything begin elsewhere.

    Of the time that a worker takes until its first test, most goes into modules that pytest has not rewritten
    yet. What one worker has rewritten, the others find.
    """
    config = session.config
    worker = re.sub(r"\D", "", os.environ.get("PYTEST_XDIST_WORKER", ""))
    if worker and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        sizes = {entry: _size(entry) for entry in _entries_to_collect(config)}
        shares: list[list[Path]] = [[] for _ in range(int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))]
        for entry in sorted(sizes, key=lambda entry: (-sizes[entry], entry.name)):
            min(shares, key=lambda share: sum(map(sizes.__getitem__, share))).append(entry)
        first = int(worker) % len(shares)
        config.args = [str(entry) for share in shares[first:] + shares[:first] for entry in share]


def _entries_to_collect(config: pytest.Config) -> list[Path]:
    """Return what this folder has that pytest would visit."""
    asked = config.hook.pytest_ignore_collect
    found = (HERE / name for name in sorted(_entries(HERE)))
    tests = (entry for entry in found if entry.is_dir() or entry.match("test_*.py"))
    return [entry for entry in tests if not asked(collection_path=entry, config=config)]


def _size(entry: Path) -> int:
    return sum(path.stat().st_size for path in ([entry] if entry.is_file() else entry.rglob("test_*.py")))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is heavy, and give the rest the order that they have wherever a worker began."""
    if not config.getoption("--heavy"):
        heavy = [item for item in items if item.get_closest_marker("heavy")]
        config.hook.pytest_deselected(items=heavy)
        items[:] = [item for item in items if not item.get_closest_marker("heavy")]
    # All workers need the same.
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        items.sort(key=lambda item: str(item.path)[len(f"{HERE}{os.sep}") :].split(os.sep)[0])


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Have the garbage collector leave the thousands of collected tests alone: some tests call it often."""
    # With its first example hypothesis makes a generator of random numbers, and warns if the collector cannot
    # tell who has it: since Python 3.14 that has been there before.
    given(st.none())(lambda _: None)()
    _freeze()


def pytest_runtest_logfinish() -> None:
    """Have it leave alone, too, what has come since and stays, such as models that were built."""
    if next(_finished) in (100, 400, 1600):
        _freeze()


def _freeze() -> None:
    gc.collect()
    gc.freeze()


_finished = itertools.count(1)


@pytest.fixture(autouse=True)
def nothing_is_known() -> Iterator[None]:
    """Start without what other tests have found out about servers: ports come again."""
    # Its own, as what a test patches is to be undone before the other fixtures of that test end.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_servers, "legacy", known_servers.KnownServers())
        patch.setattr(known_servers, "older_transport", known_servers.KnownServers())
        yield


class Belongings(NamedTuple):
    """What the process has at one moment."""

    threads: frozenset[threading.Thread]
    children: frozenset[int]
    descriptors: frozenset[tuple[int, ...]]


@pytest.fixture(autouse=True)
def leak_guard(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a thread, a child process or a descriptor behind, or whose thread died."""
    if str(request.path).startswith(UNGUARDED):
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
    # What counts is how long this has waited: while a busy machine keeps the process from running, nothing in
    # it can end.
    waited = 0.0
    while True:
        now = belongings()
        threads = [thread for thread in now.threads - before.threads if thread.is_alive()]
        new = [
            *(f"thread {thread.name}" for thread in threads),
            *(f"child process {pid}" for pid in now.children - before.children),
            *(
                f"descriptor {number} ({_name(number)})"
                for number, *_ in now.descriptors - before.descriptors
            ),
        ]
        if not new or waited > PATIENCE:
            return ", ".join(sorted(new))
        pause = 0.02 if threads else 0.005
        if threads:
            threads[0].join(pause)
        else:
            time.sleep(pause)
        waited += pause


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


def descriptors() -> set[tuple[int, ...]]:
    """Return the open descriptors, each with what tells its file, socket or pipe from all others."""
    found = set()
    for name in _entries("/proc/self/fd"):
        try:
            what = os.fstat(int(name))
        except OSError:
            continue  # That of the listing itself.
        if sys.version_info < (3, 10) and what.st_rdev == _NULL:
            # A framework that configures logging closes the log file of pytest, which is none; before Python
            # 3.10 the next record opens it again, in whichever test that comes.
            continue
        found.add((int(name), what.st_dev, what.st_ino))
    return found


_NULL = os.stat(os.devnull).st_rdev


def _name(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return "closed by now"


def _entries(folder: Union[str, Path]) -> list[str]:
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

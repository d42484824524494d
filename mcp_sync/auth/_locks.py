"""Locks by name: between the threads of a process, and between processes that share a folder."""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Callable, Optional
from weakref import WeakValueDictionary

from .._concurrency import fork
from .._concurrency.deadline import Deadline
from .._concurrency.locks import take
from ..errors import AuthError, CallTimeout
from ._errand import errand_here
from ._private_files import give_away, make_folder
from ._records import Key

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# How long the first look at a lock file of another process has to wait, and the later ones, in seconds.
_FIRST_LOOK = 0.002
_LAST_LOOK = 0.05
_WAITING = "the wait for the lock of the token store"


class ThreadLocks:
    """Locks by name between the threads of this process. In a forked child all of them are free."""

    def __init__(self) -> None:
        self._renew()
        fork.watch(self)

    def _renew(self) -> None:
        # Guards the table. Nothing happens under it.
        self._guard = threading.RLock()
        # A lock is there as long as somebody holds it or waits for it, so the table does not grow; and one
        # whose holder was struck down by a signal handler before it knew that it was one goes with it.
        self._locks: WeakValueDictionary[Hashable, _Lock] = WeakValueDictionary()

    def after_fork_in_child(self) -> None:
        """Forget who holds what: those threads are not here."""
        self._renew()

    @contextmanager
    def hold(self, name: Hashable, deadline: Deadline) -> Iterator[None]:
        """Hold the lock of a name. Not re-entrant.

        Raises:
            CallTimeout: Another thread held it until the deadline, or that of the errand of this thread.
            ConnectionLost: The errand was given up.
        """
        with self._guard:
            lock = self._locks.get(name)
            if lock is None:
                lock = self._locks[name] = _Lock()
        got: list[bool] = []
        pause = 0.0
        try:
            while not take(lock.inner, pause, got):
                got.clear()
                left = _still_waiting(deadline)
                pause = _LAST_LOOK if left is None else min(left, _LAST_LOOK)
            yield
        finally:
            if got and got[0]:
                lock.inner.release()


class _Lock:
    """A lock that can be referred to weakly, whatever gevent makes of the inner one."""

    def __init__(self) -> None:
        self.inner = threading.Lock()


def wait_until_taken(taken: Callable[[], bool], deadline: Deadline, first: float, last: float) -> None:
    """Look again and again at a lock of which nobody tells that it is free.

    Args:
        taken: Takes it if it is free, and says whether it was.
        deadline: When it has to be taken.
        first: The longest wait before the second look, in seconds; from look to look it doubles.
        last: The longest wait of all.

    Raises:
        CallTimeout: Somebody else held it until the deadline, or that of the errand of this thread.
        ConnectionLost: The errand was given up.
    """
    pause = first
    while not taken():
        left = _still_waiting(deadline)
        time.sleep(min(pause * random.uniform(0.5, 1.0), last if left is None else left))
        pause = min(pause * 2, last)


def _still_waiting(deadline: Deadline) -> Optional[float]:
    """Return how many seconds a lock may still be waited for, ``None`` for any number.

    Raises:
        CallTimeout: None are left.
        ConnectionLost: Nobody waits any more.
    """
    errand = errand_here()
    errand.check(errand.deadline, _WAITING)
    left = deadline.remaining()
    if left == 0.0:
        what = "somebody else held the lock of the token store for too long"
        raise CallTimeout(what, timeout=deadline.reached, request_sent=False)
    return left


class FolderLocks:
    """Locks by name between all threads and processes that use a folder.

    Each is a lock of the system on a file of the folder, so that it ends with its holder, however that ends.
    The file goes away with it. To a forked child the locks of its parent are held by somebody else.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def writing(self, name: str, patience: float) -> Iterator[None]:
        """Hold the lock of those who write: to them a comparison and the change after it are one step.

        Args:
            name: The name of the lock.
            patience: How many seconds to wait for the others; the errand of this thread may have fewer.

        Raises:
            AuthError: The file cannot be made, or others have held the lock all the time.
            CallTimeout: The errand has no time left.
            ConnectionLost: The errand was given up.
        """
        errand = errand_here()
        deadline = Deadline(patience)
        try:
            with ExitStack() as turn:
                # Whoever has written and at once writes again has to join those who wait for their turn: the
                # place at their head is free for as long as somebody else is writing.
                with self.hold(f"next-{name}", deadline):
                    turn.enter_context(self.hold(name, deadline))
                yield
        except CallTimeout as error:
            if errand.deadline.expired:
                raise
            what = "somebody else keeps the token store from being written"
            raise AuthError(f"{what}: {self.folder}") from error

    @contextmanager
    def hold(self, name: str, deadline: Deadline) -> Iterator[None]:
        """Hold the lock of a name, which is the name of its file. Not re-entrant.

        Raises:
            AuthError: The folder or the file cannot be made.
            CallTimeout: Somebody else held it until the deadline, or that of the errand of this thread.
            ConnectionLost: The errand was given up.
        """
        make_folder(self.folder)
        path = os.path.join(os.path.realpath(self.folder), name)
        # Threads wait here, at no cost; and where the system knows processes only, this keeps them apart.
        with _threads.hold(path, deadline):
            held = _FileLock(path)
            try:
                wait_until_taken(held.taken, deadline, _FIRST_LOOK, _LAST_LOOK)
                yield
            finally:
                held.release()


class _FileLock:
    """A lock on a file, which is there while the lock is held."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: Optional[int] = None
        self._held = False
        fork.watch(self)

    def after_fork_in_child(self) -> None:
        """Leave the lock to the parent, and end this process's part in it."""
        descriptor, self._descriptor, self._held = self._descriptor, None, False
        if descriptor is not None:
            os.close(descriptor)

    def taken(self) -> bool:
        """Take the lock if it is free.

        Raises:
            AuthError: The file cannot be made or locked.
        """
        try:
            # A child that is forked in between would know nothing of the descriptor, and keep the lock alive.
            with fork.no_fork():
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | _NO_LINKS, 0o600)
                give_away(self._descriptor, os.path.dirname(self._path))
                self._held = _locked(self._descriptor) and self._is_current(self._descriptor)
        except OSError as error:
            # On Windows nobody may open what somebody else is removing.
            if not (sys.platform == "win32" and isinstance(error, PermissionError)):
                raise AuthError(f"the token store cannot be locked: {error}") from error
        if not self._held:
            self.release()
        return self._held

    def _is_current(self, descriptor: int) -> bool:
        """Tell whether this is still the file that others look at: whoever held it before has removed it."""
        if sys.platform == "win32":
            return True  # What is open cannot be removed.
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(self._path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Let others have the lock, if it is held."""
        if self._descriptor is None:
            return
        held, self._held = self._held, False
        # A child that is forked in between would close what is closed, or by then something else.
        with fork.no_fork():
            try:
                if held and sys.platform != "win32":
                    with suppress(OSError):
                        os.unlink(self._path)
                _unlock(self._descriptor)
            finally:
                os.close(self._descriptor)
                self._descriptor = None
        if held and sys.platform == "win32":
            with suppress(OSError):  # Somebody else has it open by now.
                os.unlink(self._path)

    # Where a signal handler struck before `release` was reached.
    __del__ = release


def _locked(descriptor: int) -> bool:
    """Lock an open file, unless it is locked already."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _unlock(descriptor: int) -> None:
    # In so many words: copies of the descriptor in other processes would keep the lock alive.
    with suppress(OSError):
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def file_name(key: Key) -> str:
    """Return a name for what belongs to a key, of letters, digits and a hyphen, whatever is in the key."""
    text = json.dumps(key).encode()
    return f"{key.kind}-{hashlib.sha256(text).hexdigest()}"


_threads = ThreadLocks()
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)

"""Threads that run jobs: started when there is work, gone when there is none."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any, Callable, Optional

from ..errors import ClientClosed
from .deadline import Deadline
from .loans import Loans
from .locks import Latch
from .pending import PendingCall
from .threads import join_all, spawn

logger = logging.getLogger("mcp_sync.callbacks")

_IDLE = 1.0
# How often a caller that waits for room looks whether there is some, in seconds.
_LOOK = 0.005

# What to run, with what, whether it may be dropped, and who may wait for it.
Job = tuple[Callable[..., Any], tuple[Any, ...], bool, Optional[object]]


class Workers:
    """Up to ``threads`` daemon threads that run jobs in the order of their arrival.

    With one thread, jobs run strictly one after the other. Holds no reference to a client, so a
    forgotten client can be collected. Safe from any thread.

    Args:
        owner: The client's name, for the names of the threads.
        role: What the threads do, likewise.
        threads: How many there may be.
        limit: How many jobs may wait.
        idle: How long a thread waits for the next job before it ends, in seconds.
    """

    def __init__(self, owner: str, role: str, threads: int, limit: int, idle: float = _IDLE) -> None:
        self._owner = owner
        self._role = role
        self._max_threads = threads
        self._limit = limit
        self._idle_seconds = idle
        self._closed = False
        self.dropped = 0
        self.finished = 0
        self._reset()

    def _reset(self) -> None:
        self._jobs: deque[Job] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        # The job that each thread runs: what stands for it.
        self._turns: dict[threading.Thread, object] = {}
        self._loans = Loans()
        # Guards all of these; no job runs under it. `_work` shares it.
        # Re-entrant, because a signal handler, or the garbage collector with a forgotten client, may close
        # these workers on a thread that is just in here.
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)
        self._draining: set[Latch] = set()

    def after_fork_in_child(self) -> None:
        """Forget threads and jobs of the parent."""
        self._reset()

    def submit(
        self,
        job: Callable[..., Any],
        *args: Any,
        wait: Optional[PendingCall] = None,
        droppable: bool = False,
        urgent: bool = False,
        ahead: bool = False,
    ) -> bool:
        """Queue ``job(*args)``.

        Args:
            job: What to run. Its exception is logged.
            args: What to pass.
            wait: When the queue is full, wait until there is room, or this call is over or out of time. One
                of the threads itself does not wait: it would wait for itself.
            droppable: When the queue is full, the droppable job that waits longest makes room, with one
                warning; also marks this job as one of them.
            urgent: Exceed the limit, up to ten times.
            ahead: Run it before all others: the calling thread may wait for it, and one of these threads for
                the calling one, if it is not one itself. While any of the jobs that it has queued so is not
                done, there may be one thread more.

        Returns:
            Whether the job was queued. ``False`` when full or closed, or when no thread can be started.
        """
        if wait is not None and not self.is_worker():
            self._await_room(wait)
        with self._lock:
            if not self._has_room() and not self._make_room(droppable, urgent):
                return False
            if self._closed:
                return False
            if ahead:
                this = threading.current_thread()
                lender = self._turns.get(this, this)
                self._loans.take(lender)
                self._jobs.appendleft((job, args, droppable, lender))
            else:
                self._jobs.append((job, args, droppable, None))
            if self._idle:
                self._work.notify()
            # A thread that was woken counts as idle until it runs, so one idle thread serves one job.
            if self._idle < len(self._jobs) and len(self._threads) < self._bound:
                return self._start_thread(ahead)
        return True

    @property
    def _bound(self) -> int:
        """How many threads there may be now."""
        return self._max_threads + len(self._loans)

    def _await_room(self, call: PendingCall) -> None:
        # The call itself is what is waited for: whoever ends it knows of no other wait.
        while not (self._has_room() or call.deadline.expired or call.wait(call.deadline.within(_LOOK))):
            pass

    def _start_thread(self, ahead: bool) -> bool:
        try:
            self._threads.add(spawn(self._owner, self._role, self._run))
        except RuntimeError as error:
            if ahead:
                # All other threads may wait for it.
                lender = self._jobs.popleft()[3]
                self._loans.repay(lender)
                return False
            if not self._threads:
                self._jobs.pop()
                logger.warning("The callbacks of %s cannot run: %s", self._owner, error)
                return False
        return True

    def _has_room(self) -> bool:
        return self._closed or len(self._jobs) < self._limit

    def _make_room(self, droppable: bool, urgent: bool) -> bool:
        if urgent:
            return len(self._jobs) < 10 * self._limit
        if not droppable:
            return False
        oldest = next((index for index, job in enumerate(self._jobs) if job[2]), None)
        if oldest is not None:
            del self._jobs[oldest]
        self.dropped += 1
        if self.dropped == 1:
            logger.warning("The callbacks of %s are too slow: messages are dropped", self._owner)
        return oldest is not None

    def _run(self) -> None:
        this = threading.current_thread()
        while True:
            with self._lock:
                if not self._jobs and not self._closed:
                    self._idle += 1
                    self._work.wait_for(self._has_work, self._idle_seconds)
                    self._idle -= 1
                if not self._jobs or len(self._threads) > self._bound:
                    self._threads.discard(this)
                    self._work.notify()  # It may have been woken in place of another.
                    return
                job, args, _, lender = self._jobs.popleft()
                turn = self._turns[this] = object()
            try:
                job(*args)
            except ClientClosed:
                logger.debug("A callback of %s came too late to use the client", self._owner)
            except BaseException:  # SystemExit too: it would end this thread, and with it all later jobs.
                logger.exception("A callback of %s failed", self._owner)
            # Only read to see whether anything moves, so a lost count does no harm.
            self.finished += 1
            with self._lock:
                self._turns.pop(this, None)  # A job may have forked.
                self._loans.forget(turn)
                if lender is not None:
                    self._loans.repay(lender)
            del job, args, lender

    def _has_work(self) -> bool:
        return self._closed or bool(self._jobs)

    @property
    def alive(self) -> list[threading.Thread]:
        """The threads that there are now."""
        with self._lock:
            return list(self._threads)

    @property
    def is_full(self) -> bool:
        """Whether jobs wait until others have ended."""
        with self._lock:
            return len(self._jobs) > self._idle and len(self._threads) >= self._bound

    def is_worker(self) -> bool:
        """Whether the calling thread is one of these."""
        return threading.current_thread() in self._threads

    def drain(self, deadline: Deadline, patience: Optional[float]) -> bool:
        """Wait until all jobs queued so far have run. Only sensible with one thread.

        Gives up when the deadline has passed, or when no job has ended for ``patience`` seconds.

        Returns:
            Whether they have run, or never will since the workers were closed.
        """
        done = Latch()
        self._draining.add(done)
        try:
            if not self.submit(done.open, urgent=True):
                return self._closed
            while True:
                before = self.finished
                if done.wait(deadline.within(patience)):
                    return True
                if deadline.expired or self.finished == before:
                    return done.is_open
        finally:
            self._draining.discard(done)

    def close(self, deadline: Deadline, finish: bool = False) -> None:
        """Take no more jobs, and wait for those that run.

        Args:
            deadline: How long to wait.
            finish: Run the jobs that wait instead of dropping them, as far as the deadline allows. Called
                by one of the threads itself, it drops them all the same.
        """
        with self._lock:
            self._closed = True
            if not finish or deadline.timeout == 0.0 or self.is_worker():
                self._jobs.clear()
            threads = list(self._threads)
            self._work.notify_all()
            for done in list(self._draining):
                done.open()
        join_all(threads, deadline)
        self._jobs.clear()

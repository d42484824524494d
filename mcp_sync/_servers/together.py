"""The same with many servers at once."""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple, Optional

from .._concurrency.cancel import CancelToken
from .._concurrency.deadline import Deadline
from .._concurrency.locks import Latch
from .._concurrency.threads import spawn
from ..client import Client
from ..errors import CallTimeout

Job = Callable[[CancelToken], Any]

# How much longer than each of its jobs the whole may take, in seconds.
_GRACE = 0.1


class Outcome(NamedTuple):
    """What came of a job: its result, or what it raised."""

    value: Any = None
    error: Optional[BaseException] = None


def together(owner: str, jobs: Mapping[str, Job], deadline: Deadline, threads: int) -> dict[str, Outcome]:
    """Run jobs at the same time, each on a thread of its own, and wait for them.

    Args:
        owner: Whose threads they are.
        jobs: By name. Each ends by itself, and soon after the token that it gets is cancelled.
        deadline: How long to wait. Jobs that have not ended then are cancelled.
        threads: How many jobs run at a time, at most.

    Returns:
        What came of each, in the order of the jobs.
    """
    token = CancelToken()
    if len(jobs) == 1:
        return {name: _attempt(job, token) for name, job in jobs.items()}
    work = _Work(jobs, token)
    try:
        work.start(owner, threads)
        work.done.wait(deadline)
        # Before the rest is cancelled: that they were is not what became of them.
        found = dict(work.outcomes)
    finally:
        # Ctrl-C, or no time is left: nobody waits for the rest.
        if not work.done.is_open:
            work.waiting.clear()
            token.cancel("nobody waits for it any more")
    late = CallTimeout(f"not done within {deadline.timeout} s", timeout=deadline.timeout)
    return {name: found.get(name, Outcome(error=late)) for name in jobs}


class _Work:
    """Jobs, and what came of them. Single operations only, so it needs no lock."""

    def __init__(self, jobs: Mapping[str, Job], token: CancelToken) -> None:
        self.waiting = deque(jobs.items())
        self.outcomes: dict[str, Outcome] = {}
        self.done = Latch()
        self._count = len(jobs)
        self._token = token
        if not jobs:
            self.done.open()

    def start(self, owner: str, threads: int) -> None:
        """Begin, on as many threads as there can be; on this one if there can be none."""
        try:
            for _ in range(min(threads, self._count)):
                spawn(owner, "together", contextvars.copy_context().run, self._run)
        except RuntimeError:
            # The system gives no more threads, as at the end of the interpreter: those that there are go on.
            self._run()

    def _run(self) -> None:
        while True:
            try:
                name, job = self.waiting.popleft()
            except IndexError:
                return
            try:
                outcome = _attempt(job, self._token)
            except (
                BaseException
            ) as error:  # SystemExit, say: whoever waits has to hear of it, or waits for ever.
                outcome = Outcome(error=error)
            self.outcomes[name] = outcome
            if len(self.outcomes) == self._count:
                self.done.open()


def _attempt(job: Job, token: CancelToken) -> Outcome:
    try:
        return Outcome(job(token))
    except Exception as error:
        return Outcome(error=error)


def close_all(owner: str, clients: Mapping[str, Client], seconds: Optional[float]) -> None:
    """Close clients at the same time, all within one bound. Never raises.

    Args:
        owner: Whose they are.
        clients: By name.
        seconds: How long that may take, ``None`` for as long as each client takes itself.
    """
    deadline = Deadline(seconds)

    def closing(client: Client) -> Job:
        return lambda token: client.close(deadline.remaining())

    jobs = {name: closing(client) for name, client in clients.items()}
    together(owner, jobs, Deadline(None if seconds is None else seconds + _GRACE), max(1, len(jobs)))

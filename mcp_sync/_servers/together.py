"""The same with many servers at once."""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Container, Mapping
from contextlib import suppress
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
# What fails in this time, in seconds, has kept nobody waiting.
_AT_ONCE = 1.0


class Outcome(NamedTuple):
    """What came of a job: its result, or what it raised.

    Attributes:
        value: Its result.
        error: What it raised, or that nobody waits for it any more.
        is_late: Whether it has kept the others waiting, and raised something or goes on.
    """

    value: Any = None
    error: Optional[BaseException] = None
    is_late: bool = False


def together(
    owner: str,
    jobs: Mapping[str, Job],
    deadline: Deadline,
    threads: int,
    patience: Optional[float] = None,
    aside: Container[str] = (),
) -> dict[str, Outcome]:
    """Run jobs at the same time, each on a thread of its own, and wait for them.

    Args:
        owner: Whose threads they are.
        jobs: By name. Each ends by itself, and soon after the token that it gets is cancelled.
        deadline: How long to wait. Jobs that have not ended then are cancelled.
        threads: How many jobs run at a time, at most, besides those that nobody waits for.
        patience: How many seconds may pass, while a job runs, in which no other ends well. Nobody waits for
            it any longer then, and it goes on. ``None`` for any number; so it is with a single job, too.
        aside: Those that nobody waits for from the beginning.

    Returns:
        What came of each, in the order of the jobs; nothing of those aside that have not ended.
    """
    token = CancelToken()
    if len(jobs) == 1:
        return {name: _attempt(job, token) for name, job in jobs.items()}
    work = _Work(owner, jobs, token, patience, aside)
    in_time = False
    try:
        work.start(threads)
        in_time = work.wait(deadline)
        # Before the rest is cancelled: that they were is not what became of them.
        found = dict(work.outcomes)
    finally:
        # Ctrl-C, or no time is left: nobody waits for the rest.
        if not in_time:
            work.waiting.clear()
            token.cancel("nobody waits for it any more")
    if in_time and patience is not None:
        late = CallTimeout(f"no answer for {patience:g} s (server_timeout)", timeout=patience)
    else:
        late = CallTimeout(f"not done within {deadline.timeout} s", timeout=deadline.timeout)
    not_ended = Outcome(error=late, is_late=in_time)
    return {name: found.get(name, not_ended) for name in jobs if name in found or name not in aside}


class _Work:
    """Jobs, and what came of them. Single operations only, so it needs no lock."""

    def __init__(
        self,
        owner: str,
        jobs: Mapping[str, Job],
        token: CancelToken,
        patience: Optional[float],
        aside: Container[str],
    ) -> None:
        self._owner = owner
        # Those that somebody waits for come first.
        self.waiting = deque(sorted(jobs.items(), key=lambda job: job[0] in aside))
        self.outcomes: dict[str, Outcome] = {}
        self._awaited = {name for name in jobs if name not in aside}
        self._done = Latch()
        self._token = token
        self._patience = patience
        # How long those that run may still keep the others waiting.
        self._running: dict[str, Deadline] = {}
        self._look()

    def start(self, threads: int) -> None:
        """Begin, on as many threads as there can be; on this one if there can be none."""
        try:
            for _ in range(min(threads, len(self.waiting))):
                self._spawn()
        except RuntimeError:
            # The system gives no more threads, as at the end of the interpreter: those that there are go on.
            self._run()

    def _spawn(self) -> None:
        spawn(self._owner, "together", contextvars.copy_context().run, self._run)

    def wait(self, deadline: Deadline) -> bool:
        """Wait for all that are waited for; return whether they are done by the deadline."""
        while not self._done.wait(deadline.within(self._patience_left())):
            if deadline.expired:
                return False
            for name in [name for name, left in list(self._running.items()) if left.expired]:
                self._give_up(name)
        return True

    def _patience_left(self) -> Optional[float]:
        running = [self._running.get(name) for name in list(self._awaited)]
        left = [each.remaining() for each in running if each is not None]
        return min((each for each in left if each is not None), default=self._patience)

    def _give_up(self, name: str) -> None:
        if name in self._awaited and self.waiting:
            with suppress(RuntimeError):
                # In place of the one that is held up.
                self._spawn()
        self._awaited.discard(name)
        self._look()

    def _look(self) -> None:
        if not self._awaited:
            self._done.open()

    def _run(self) -> None:
        while True:
            try:
                name, job = self.waiting.popleft()
            except IndexError:
                return
            kept_waiting = self._running[name] = Deadline(None, self._patience)
            try:
                outcome = _attempt(job, self._token)
            except (
                BaseException
            ) as error:  # SystemExit, say: whoever waits has to hear of it, or waits for ever.
                outcome = Outcome(error=error)
            del self._running[name]
            if outcome.error is None:
                for each in list(self._running.values()):
                    each.touch()
            elif self._patience is not None:
                left = kept_waiting.remaining() or 0.0
                outcome = outcome._replace(is_late=self._patience - left > _AT_ONCE)
            self.outcomes[name] = outcome
            self._awaited.discard(name)
            self._look()


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

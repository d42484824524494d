"""Tasks of the fake server: work that outlives the request that began it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Callable, Optional, Union

from .._concurrency.deadline import Deadline
from .._concurrency.threads import join_all, spawn
from ._context import Abandoned, ClientError
from ._rpc import INTERNAL_ERROR, Message, RpcError

ENDED = ("completed", "failed", "cancelled")
_GRACE = 5.0

Answer = Union[Message, ClientError]


class FakeTask:
    """A task of the fake server. Any thread may look at it, wait for it, or end it.

    Attributes:
        id: The id, as clients know it.
        tool: The name of the tool.
        status: ``"working"``, ``"input_required"``, ``"completed"``, ``"failed"`` or ``"cancelled"``.
        status_message: What the tool says about it, ``None`` for nothing.
        ttl_ms: How long it is kept, ``None`` for ever. It is only told: use ``server.tasks.forget``.
        poll_interval_ms: How often clients should ask, ``None`` to leave that to them. May be set any time.
        principal: Whose it is; nobody else finds it.
        inputs: The requests to the client that are open, by their keys.
        result: The result of the tool, ``None`` before the end.
        error: The error instead of a result.
        cancelled: Set when nobody wants the result any more.
    """

    def __init__(
        self,
        tool: str,
        modern: bool,
        on_change: Callable[[FakeTask], object],
        ttl_ms: Optional[int],
        poll_interval_ms: Optional[int],
        principal: Optional[str] = None,
    ) -> None:
        self.id = os.urandom(16).hex()
        self.tool = tool
        self.modern = modern
        self.status = "working"
        self.status_message: Optional[str] = None
        self.ttl_ms = ttl_ms
        self.poll_interval_ms = poll_interval_ms
        self.principal = principal
        self.created_at = self.updated_at = _now()
        self.inputs: dict[str, Message] = {}
        self.result: Optional[Message] = None
        self.error: Optional[RpcError] = None
        self.cancelled = threading.Event()
        self.thread: Optional[threading.Thread] = None
        self._on_change = on_change
        # Guards what changes; who waits for a change waits on it.
        self.changed = threading.Condition()
        # Keeps notifications in the order of the changes, so it is held while one is sent. A client in memory
        # may answer one by a change.
        self._order = threading.RLock()
        self._answers: dict[str, Answer] = {}
        self._asked: set[str] = set()

    @property
    def has_ended(self) -> bool:
        """Whether nothing will change any more."""
        return self.status in ENDED

    def wait_for(self, *statuses: str, timeout: float = 10.0) -> FakeTask:
        """Wait until the task has one of these statuses, default: one of those that end it.

        Raises:
            TimeoutError: It has none of them after ``timeout`` seconds.
        """
        wanted = statuses or ENDED
        with self.changed:
            if not self.changed.wait_for(lambda: self.status in wanted, timeout):
                raise TimeoutError(f"the task is {self.status}, not {' or '.join(wanted)}")
        return self

    def say(self, message: str) -> None:
        """Say something about the task to its clients."""
        with self._order:
            with self.changed:
                if self.has_ended:
                    return
                self.status_message = message
                self._touch()
            self._on_change(self)

    # --- the end -----------------------------------------------------------------------------------------

    def complete(self, result: Message) -> bool:
        """End the task with a result; return whether it had not ended before.

        On revisions with a handshake a result with ``isError`` is a failure of the task.
        """
        if result.get("isError") and not self.modern:
            return self._change("failed", "The tool failed", result=result)
        return self._change("completed", result=result)

    def fail(self, error: RpcError) -> bool:
        """End the task with an error; return whether it had not ended before."""
        return self._change("failed", str(error.message), error=error)

    def cancel(self) -> bool:
        """Cancel the task; return whether it had not ended before."""
        self.cancelled.set()
        return self._change("cancelled", "The task was cancelled by request.")

    def _change(
        self,
        status: str,
        message: Optional[str] = None,
        *,
        inputs: Optional[Mapping[str, Message]] = None,
        result: Optional[Message] = None,
        error: Optional[RpcError] = None,
    ) -> bool:
        with self._order:
            with self.changed:
                if self.has_ended:
                    return False
                if status not in ENDED and message is None:
                    message = self.status_message
                self.status, self.status_message = status, message
                self.inputs = dict(inputs or {})
                self.result, self.error = result, error
                self._touch()
            self._on_change(self)
        return True

    def _touch(self) -> None:
        self.updated_at = _now()
        self.changed.notify_all()

    # --- input -------------------------------------------------------------------------------------------

    def ask_all(self, requests: Mapping[str, Message], timeout: float) -> dict[str, Message]:
        """Open requests to the client and wait for its answers.

        Raises:
            ClientError: The client answered with an error, or not in time.
            Abandoned: The task was cancelled.
        """
        deadline = Deadline(timeout)
        self._answers, self._asked = {}, set()
        if not self._change("input_required", inputs=requests):
            raise Abandoned
        with self.changed:
            self.changed.wait_for(lambda: self.status != "input_required", deadline.remaining())
            status, answers = self.status, dict(self._answers)
        if status in ENDED or (status == "input_required" and not self._change("working")):
            raise Abandoned
        if status == "input_required":
            raise ClientError(INTERNAL_ERROR, "The client did not answer in time")
        return {key: _opened(answers[key]) for key in requests}

    def answer(self, answers: Mapping[str, Answer]) -> None:
        """Take answers of the client; those to nothing that is open are left out.

        With the last of them the task is working again.
        """
        with self._order:
            with self.changed:
                taken = {key: answers[key] for key in self.inputs if key in answers}
                self._answers.update(taken)
                self.inputs = {key: value for key, value in self.inputs.items() if key not in taken}
                complete = bool(taken) and not self.inputs
                if complete:
                    self.status = "working"
                self._touch()
            if complete:
                self._on_change(self)

    def claim(self, given_up: threading.Event) -> Optional[tuple[str, Message]]:
        """Wait for an open request that nobody puts to the client yet, and claim it.

        Returns:
            The key and the request; ``None`` when the task has ended, or the waiting was given up.
        """
        with self.changed:
            self.changed.wait_for(lambda: self.has_ended or given_up.is_set() or self._unclaimed())
            key = self._unclaimed()
            if key is None or given_up.is_set():
                return None
            self._asked.add(key)
            return key, self.inputs[key]

    def _unclaimed(self) -> Optional[str]:
        return next((key for key in self.inputs if key not in self._asked), None)

    def give_back(self, key: str) -> None:
        """Let somebody else put a request to the client."""
        with self.changed:
            self._asked.discard(key)
            self.changed.notify_all()

    def wake(self) -> None:
        """Have those look that wait for a change."""
        with self.changed:
            self.changed.notify_all()


class Tasks(Mapping[str, FakeTask]):
    """The tasks of a server by their ids, oldest first."""

    def __init__(self) -> None:
        # Guards the table; who waits for tasks waits on it.
        self._changed = threading.Condition()
        self._tasks: dict[str, FakeTask] = {}

    def __getitem__(self, task_id: str) -> FakeTask:
        with self._changed:
            return self._tasks[task_id]

    def __iter__(self) -> Iterator[str]:
        with self._changed:
            return iter(list(self._tasks))

    def __len__(self) -> int:
        with self._changed:
            return len(self._tasks)

    def all(self) -> list[FakeTask]:
        """Return those that there are now."""
        with self._changed:
            return list(self._tasks.values())

    def start(self, task: FakeTask, work: Callable[[], None]) -> None:
        """Keep a task, and run its work in a thread of its own."""
        with self._changed:
            self._tasks[task.id] = task
            self._changed.notify_all()
        task.thread = spawn("fake-server", "task", work)

    def wait_for(self, count: int = 1, timeout: float = 10.0) -> list[FakeTask]:
        """Wait until there are ``count`` tasks, and return all.

        Raises:
            TimeoutError: There are fewer after ``timeout`` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._tasks) >= count, timeout):
                raise TimeoutError(f"there are {len(self._tasks)} tasks, not {count}")
            return list(self._tasks.values())

    def forget(self, task_id: str) -> None:
        """Know a task no longer, as after its time; its work goes on."""
        with self._changed:
            del self._tasks[task_id]

    def end(self) -> None:
        """Cancel what has not ended, and wait a moment for it."""
        tasks = self.all()
        for task in tasks:
            task.cancel()
        join_all([task.thread for task in tasks if task.thread is not None], Deadline(_GRACE))


def _opened(answer: Answer) -> Message:
    if isinstance(answer, ClientError):
        raise answer
    return answer


def _now() -> str:
    now = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03}Z"

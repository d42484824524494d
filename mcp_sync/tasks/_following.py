"""Follows a task: looks at it, answers what it asks, and fetches what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

from .._engine.interim import InterimCall
from .._protocol import methods
from .._protocol.input_rounds import input_requests
from ..errors import (
    CallCancelled,
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    HTTPStatusError,
    InputRequired,
    InputRoundsExceeded,
    InvalidParams,
    InvalidResult,
    MCPError,
    RemoteError,
    ResourceNotFound,
    TaskGone,
    TransportError,
    another,
    remote_error,
)
from ._asked import Asked
from ._extension import GET, RESULT, UPDATE
from ._pace import LEAST, Pace
from ._progress import TaskProgress
from ._state import INPUT_REQUIRED, TaskState, raw_requests, read_state

# How often in a row a look at a task may fail by the connection before that is the end.
_FAILURES = 3
# Seconds of silence after which a server of 2025-11-25 is no longer given the chance to ask.
_SILENCE = 15.0
_NOTIFICATIONS = ("notifications/tasks", "notifications/tasks/status")


class Following:
    """One task, as one caller follows it. Not for several threads; several may follow the same task.

    Args:
        way: The call on whose behalf this happens: its time, its token, its callbacks.
        task_id: The task.
        tool: The name of its tool, empty if that is not known.
        asked: What it has asked so far.
        modern: Whether it is one of the extension, or one of 2025-11-25.
        rounds: How often it may ask.

    Attributes:
        last: The state that was seen last, ``None`` before the first look.
        gone: The error, once the server does not know the task.
        progress: What takes the progress that the server reports in another way, ``None`` for nothing.
        needs_end: Whether the task has no use any more when the call fails now.
    """

    def __init__(
        self, way: InterimCall, task_id: str, tool: str, asked: Asked, *, modern: bool, rounds: int
    ) -> None:
        self.way = way
        self.task_id = task_id
        self.tool = tool
        self.modern = modern
        self.last: Optional[TaskState] = None
        self.gone: Optional[TaskGone] = None
        self.progress: Optional[TaskProgress] = None
        self.needs_end = False
        self._asked = asked
        self._rounds_left = rounds
        self._pace = Pace()
        self._failures = 0
        self._told: Optional[str] = None
        self._reports = 0
        # The result, where a server of 2025-11-25 gave it while it could ask.
        self._fetched: Optional[dict[str, Any]] = None

    @property
    def title(self) -> str:
        """How the task is called in errors."""
        return f"task {self.task_id} of tool {self.tool}" if self.tool else f"task {self.task_id}"

    def look(self) -> TaskState:
        """Ask how the task is getting on.

        Raises:
            TaskGone: The server does not know it.
            InvalidResult: What the server says of it makes no sense.
            MCPError: As any call.
        """
        try:
            raw = self.way.call(GET, {"taskId": self.task_id})
        except (InvalidParams, ResourceNotFound) as error:
            # The id is the only parameter that may be wrong.
            self.gone = TaskGone(error.code, error.message, error.data, task_id=self.task_id)
            raise another(self.gone) from error
        self.last = read_state(raw, self.task_id)
        return self.last

    def to_end(self, state: Optional[TaskState] = None) -> TaskState:
        """Go from one state, by default that in which the task is, to a final one, which it returns.

        Raises:
            MCPError: As `look`, as `answer`, and what ends the call.
        """
        with self._listening():
            # After the listening has begun: what is told before this look is seen by it.
            state = state or self.look()
            while not state.has_ended:
                try:
                    self.report(state)
                    self.answer(state)
                    self.pause(self.interval(state))
                    state = self.look_again(state)
                except CallTimeout as error:
                    error.args = (f"{error}; {self.title} was {state.status} then",)
                    raise
        return state

    def look_again(self, state: TaskState) -> TaskState:
        """Do the same as `look`, but let a failure of the connection pass, up to twice in a row."""
        try:
            state = self.look()
            self._failures = 0
        except TransportError as error:
            self._failures += 1
            if self._failures >= _FAILURES or not _may_pass(error):
                raise
        return state

    def interval(self, state: TaskState) -> float:
        """Return the seconds until the next look."""
        return LEAST if self._fetched is not None else self._pace.next(state.poll_interval)

    def pause(self, seconds: float) -> None:
        """Let time pass, until the server tells of a change; but never less than the least interval."""
        end = time.monotonic() + LEAST
        self.way.pause(seconds)
        left = end - time.monotonic()
        while left > 0:
            self.way.pause(left)
            left = end - time.monotonic()

    @contextmanager
    def _listening(self) -> Iterator[None]:
        router = self.way.session._engine.router
        router.watch(self._notice)
        try:
            yield
        finally:
            router.unwatch(self._notice)

    def _notice(self, message: dict[str, Any]) -> None:
        if task_of(message) == self.task_id:
            self.way.wake()

    def report(self, state: TaskState) -> None:
        """Pass the words of a server on as progress: the amount counts them."""
        if self.progress is not None and self.progress.heard:
            return
        if state.status_message and state.status_message != self._told:
            self._told = state.status_message
            self._reports += 1
            self.way.report(self._reports, None, self._told)

    # --- input ---------------------------------------------------------------------------------------

    def open_requests(self, state: TaskState) -> dict[str, Any]:
        """Return what the task asks that nobody has begun to answer.

        Raises:
            InvalidResult: What it asks is malformed, or a key stands for something else than before.
        """
        requests = raw_requests(state) if self.modern else {}
        if requests:
            input_requests(methods.CALL_TOOL, state.raw)
        return self._asked.fresh(self.task_id, requests)

    def answer(self, state: TaskState) -> None:
        """Have the callbacks answer what the task asks, each request once.

        Raises:
            InvalidResult: As `open_requests`, or there is no callback for one of the requests.
            InputRoundsExceeded: It asks too often.
            InputRequired: The call was made with ``on_input="raise"``.
            Exception: What a callback raised.
        """
        if state.status != INPUT_REQUIRED:
            return
        if not self.modern:
            self._let_it_ask()
            return
        fresh = self.open_requests(state)
        if fresh:
            self._count_round()
        # Somebody else may have been quicker.
        mine = self.claim(state, fresh)
        if mine:
            self._answer(mine)

    def claim(self, state: TaskState, keys: Iterable[str]) -> dict[str, Any]:
        """Return those requests of a state with these keys that nobody has begun to answer: now we have."""
        requests = raw_requests(state)
        return self._asked.claim(self.task_id, {key: requests[key] for key in keys if key in requests})

    def _answer(self, requests: Mapping[str, Any]) -> None:
        self.needs_end = True  # Without an answer it waits in vain.
        try:
            answers = self.way.answer(requests)
        except InputRequired as waiting:
            self._asked.give_back(requests)
            self.needs_end = False
            # With this, who resumes the call knows that it has become a task.
            waiting._envelope["task"] = {"id": self.task_id, "asked": self._asked.as_dict()}
            raise
        except BaseException:
            self._asked.give_back(requests)
            raise
        self.send_answers(answers)
        self.needs_end = False

    def send_answers(self, answers: Mapping[str, Any]) -> None:
        """Send answers, as they go on the wire. Those that certainly did not arrive may be given again."""
        try:
            self.way.call(UPDATE, {"taskId": self.task_id, "inputResponses": dict(answers)})
        except (TransportError, CallTimeout, CallCancelled) as error:
            if error.request_sent is False:
                self._asked.give_back(answers)
            raise
        except RemoteError:
            self._asked.give_back(answers)
            raise

    def _count_round(self) -> None:
        if not self._rounds_left:
            raise InputRoundsExceeded(f"{self.title} asks for input again and again (Limits.input_rounds)")
        self._rounds_left -= 1

    def _let_it_ask(self) -> None:
        """Give a server of 2025-11-25 the request on whose stream it may send its own."""
        try:
            self._fetched = self.way.call(RESULT, {"taskId": self.task_id}, silence=_SILENCE)
        except CallTimeout:
            pass  # That of the silence: look at the task. The end of the call itself shows there.
        except RemoteError:
            pass  # The failure of the tool. It is fetched once more when the task has ended.
        except TransportError as error:
            if not _may_pass(error):
                raise

    # --- the end -------------------------------------------------------------------------------------

    def outcome(self, state: TaskState) -> dict[str, Any]:
        """Return the result of a task that has ended.

        Raises:
            CallCancelled: It was cancelled.
            RemoteError: It failed, with this.
            InvalidResult: It has completed, but has no result.
        """
        if state.status == "cancelled":
            words = f": {state.status_message}" if state.status_message else ""
            raise CallCancelled(
                f"{self.title} was cancelled{words}", reason=state.status_message, request_sent=True
            )
        if not self.modern:
            return self._fetched or self.way.call(RESULT, {"taskId": self.task_id})
        if state.status == "failed":
            raise _failure(state)
        result = state.raw.get("result")
        if not isinstance(result, dict) or result.get("resultType", "complete") != "complete":
            raise InvalidResult(f"{self.title} has completed without a result", result=state.raw)
        return result


def seed_is_final(state: TaskState) -> bool:
    """Whether the answer that began a task already says how it ended."""
    return state.status == "cancelled" or "result" in state.raw or "error" in state.raw


def task_of(message: Mapping[str, Any]) -> Any:
    """Return the id of the task that a notification tells of, ``None`` if it tells of none."""
    params = message.get("params")
    if message.get("method") not in _NOTIFICATIONS or not isinstance(params, dict):
        return None
    return params.get("taskId")


def _failure(state: TaskState) -> MCPError:
    error = state.raw.get("error")
    error = error if isinstance(error, dict) else {}
    code, message = error.get("code"), error.get("message")
    if type(code) is not int:
        code = -32603
    if not isinstance(message, str):
        message = state.status_message or f"task {state.id} failed, and the server does not say why"
    return remote_error(code, message, error.get("data"))


def _may_pass(error: TransportError) -> bool:
    """Whether a task may be found again after a failure: the server restarts, or a proxy lost it."""
    if isinstance(error, HTTPStatusError):
        return error.status == 429 or error.status >= 500
    return isinstance(error, (ConnectFailed, ConnectionLost))

"""Follows a task: looks at it, answers what it asks, and fetches what came of it."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

from .._engine.interim import InterimCall
from .._protocol import methods
from .._protocol.input_rounds import input_requests
from .._protocol.recovery import Outage, outage_delay
from ..errors import (
    AuthError,
    CallCancelled,
    CallTimeout,
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
from ..errors._printable import printable
from ._extension import GET, RESULT, UPDATE
from ._known import Known
from ._pace import LEAST, Pace
from ._progress import TaskProgress
from ._state import INPUT_REQUIRED, TaskState, raw_requests, read_state

logger = logging.getLogger("mcp_sync.session")

# Seconds of silence after which a server of 2025-11-25 is no longer given the chance to ask, for now; and
# where other tasks wait for the thread.
_SILENCE, _SHARED_SILENCE = 15.0, 0.5
# Seconds of silence after which a look counts as failed where other tasks wait for the thread.
_SHARED_LOOK = 2.0
# How many characters of a server's words an error shows.
_LONGEST_WORDS = 500
_NOTIFICATIONS = ("notifications/tasks", "notifications/tasks/status")


class Following:
    """One task, as one caller follows it. Not for several threads; several may follow the same task.

    Args:
        interim: The call on whose behalf this happens: its time, its token, its callbacks.
        task_id: The task.
        tool: The name of its tool, empty if that is not known.
        known: What is known of it. Others who follow the same task may share that.
        modern: Whether it is one of the extension, or one of 2025-11-25; ``None``: as the connection has it.
        rounds: How often it may ask.

    Attributes:
        progress: What takes the progress that the server reports in a way of its own, ``None`` for nothing.
        needs_end: Whether the task has no use any more when the call fails now.
        shares_thread: Whether other tasks wait for the thread, so that no request may hold it for long.
        fault: Why the last look failed, ``None`` if it did not.
    """

    def __init__(
        self,
        interim: InterimCall,
        task_id: str,
        tool: str,
        known: Known,
        *,
        modern: Optional[bool],
        rounds: int,
    ) -> None:
        self.interim = interim
        self.task_id = task_id
        self.tool = tool
        self.known = known
        self._modern = modern
        self.progress: Optional[TaskProgress] = None
        self.needs_end = False
        self.shares_thread = False
        self.fault: Optional[MCPError] = None
        self._rounds_left = rounds
        self._pace = Pace()
        self._outage = Outage()
        # The seconds until the next look, where it is not the pace that says so.
        self._next_look: Optional[float] = None
        self._told: Optional[str] = None
        self._reports = 0
        # The result, where a server of 2025-11-25 gave it while it could ask.
        self._early_result: Optional[dict[str, Any]] = None

    @property
    def modern(self) -> bool:
        """Whether it is a task of the extension. Asks for the connection, so rather after a look."""
        if self._modern is None:
            self._modern = not self.interim.handshake
        return self._modern

    @property
    def title(self) -> str:
        """How the task is called in errors."""
        title = f"task {printable(self.task_id)}"
        return f"{title} of tool {printable(self.tool)}" if self.tool else title

    def look(self) -> TaskState:
        """Ask how the task is getting on.

        Raises:
            TaskGone: The server does not know it.
            InvalidResult: What the server says of it makes no sense.
            MCPError: As any call.
        """
        silence = _SHARED_LOOK if self.shares_thread else None
        try:
            raw = self.interim.call(GET, {"taskId": self.task_id}, silence=silence)
        except (InvalidParams, ResourceNotFound) as error:
            # The id is the only parameter that may be wrong.
            self.known.gone = TaskGone(error.code, error.message, error.data, task_id=self.task_id)
            raise another(self.known.gone) from error
        state = read_state(raw, self.task_id)
        self.known.learn(state)
        return state

    def try_look(self) -> Optional[TaskState]:
        """Do the same; ``None``, if the server is away: perhaps it is there again at the next look.

        Raises:
            MCPError: As `look`, and if it was away too long (see `recovery.outage_delay`).
        """
        try:
            state = self.look()
        except (TransportError, AuthError, CallTimeout) as error:
            self._bear(error)
            return None
        self._outage, self.fault = Outage(), None
        return state

    def _bear(self, error: MCPError) -> None:
        """Have a failure followed by another attempt, or raise it."""
        now, left = time.monotonic(), self.interim.left
        self._outage = self._outage.after(now)
        is_late = isinstance(error, CallTimeout) and (left == 0.0 or not self.shares_thread)
        if is_late or not self.interim.can_reopen:
            raise error
        retry, chance = self.interim.session._engine.plan.settings.retry, random.random()
        self._next_look = outage_delay(self._outage, now, error, retry, left, chance=chance)
        if self._next_look is None:
            raise error
        self.fault = another(error)  # Without its frames, which know this.
        logger.info("%s is looked at again in %.1f s: %s", self.title, self._next_look, error)

    def to_end(self, state: Optional[TaskState] = None) -> TaskState:
        """Go from one state, by default that in which the task is, to a final one, which it returns.

        Raises:
            MCPError: As `try_look`, as `answer`, and what ends the call.
        """
        with self._listening(), self.naming():
            # After the listening has begun: what is told before this look is seen by it.
            state = state or self.try_look()
            while state is None or not state.has_ended:
                if state is not None:
                    self.report(state)
                    self.answer(state)
                self.pause(self.interval())
                state = self.try_look()
        return state

    @contextmanager
    def naming(self) -> Iterator[None]:
        """In here, have errors say which task it is that goes on without the caller."""
        try:
            yield
        except MCPError as error:
            if error.task_id is None and isinstance(error, (TransportError, AuthError, CallTimeout)):
                status = self.known.last.status if self.known.last is not None else "not looked at"
                words = ""
                if isinstance(error, CallTimeout):
                    # Why nothing is known, rather than that there was no time left.
                    words, error.__cause__ = self.words, error.__cause__ or self.fault
                error.args = (f"{error}; {self.title} was {status} then{words}", *error.args[1:])
            if isinstance(error, (TransportError, CallTimeout, CallCancelled)):
                error.request_sent = True  # That which began the task was answered.
            error.task_id = self.task_id
            raise

    @property
    def words(self) -> str:
        """What an error says of the fault."""
        return f"; the last look failed: {self.fault}" if self.fault is not None else ""

    def interval(self) -> float:
        """Return the seconds until the next look."""
        seconds, self._next_look = self._next_look, None
        if seconds is not None:
            return seconds
        last = self.known.last
        return self._pace.next(last.poll_interval if last is not None else None)

    def pause(self, seconds: float) -> None:
        """Let time pass, until the server tells of a change; but never less than the least interval."""
        end = time.monotonic() + LEAST
        self.interim.pause(seconds)
        left = end - time.monotonic()
        while left > 0:
            self.interim.pause(left)
            left = end - time.monotonic()

    @contextmanager
    def _listening(self) -> Iterator[None]:
        router = self.interim.session._engine.router
        router.watch(self._notice)
        try:
            yield
        finally:
            router.unwatch(self._notice)

    def _notice(self, message: dict[str, Any]) -> None:
        if task_of(message) == self.task_id:
            self.interim.wake()

    def report(self, state: TaskState) -> None:
        """Pass the words of a server on as progress: the amount counts them."""
        if self.progress is not None and self.progress.heard:
            return
        if state.status_message and state.status_message != self._told:
            self._told = state.status_message
            self._reports += 1
            self.interim.report(self._reports, None, self._told)

    # --- input ---------------------------------------------------------------------------------------

    def open_requests(self, state: TaskState) -> dict[str, Any]:
        """Return what the task asks that nobody has begun to answer.

        Raises:
            InvalidResult: What it asks is malformed, or a key stands for something else than before.
        """
        requests = raw_requests(state) if self.modern else {}
        if requests:
            input_requests(methods.CALL_TOOL, state.raw)
        return self.known.asked.fresh(self.task_id, requests)

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
        return self.known.asked.claim(self.task_id, {key: requests[key] for key in keys if key in requests})

    def _answer(self, requests: Mapping[str, Any]) -> None:
        self.needs_end = True  # Without an answer it waits in vain.
        try:
            answers = self.interim.answer(requests)
        except InputRequired as waiting:
            self.known.asked.give_back(requests)
            self.needs_end = False
            # With this, who resumes the call knows that it has become a task.
            waiting._envelope["task"] = {"id": self.task_id, "asked": self.known.asked.as_dict()}
            raise
        except BaseException:
            self.known.asked.give_back(requests)
            raise
        self.send_answers(answers)
        self.needs_end = False

    def send_answers(self, answers: Mapping[str, Any]) -> None:
        """Send answers, as they go on the wire. Those that certainly did not arrive may be given again."""
        try:
            self.interim.call(UPDATE, {"taskId": self.task_id, "inputResponses": dict(answers)})
        except (TransportError, CallTimeout, CallCancelled) as error:
            if error.request_sent is False:
                self.known.asked.give_back(answers)
            raise
        except RemoteError:
            self.known.asked.give_back(answers)
            raise

    def _count_round(self) -> None:
        if not self._rounds_left:
            raise InputRoundsExceeded(f"{self.title} asks for input again and again (Limits.input_rounds)")
        self._rounds_left -= 1

    def _let_it_ask(self) -> None:
        """Give a server of 2025-11-25 the request on whose stream it may send its own."""
        silence = _SHARED_SILENCE if self.shares_thread else _SILENCE
        try:
            self._early_result = self.interim.call(RESULT, {"taskId": self.task_id}, silence=silence)
            self._next_look = LEAST  # It has ended: only how is not known yet.
        except CallTimeout:
            pass  # That of the silence: look at the task. The end of the call itself shows there.
        except RemoteError:
            pass  # The failure of the tool. It is fetched once more when the task has ended.
        except (TransportError, AuthError) as error:
            self._bear(error)

    # --- the end -------------------------------------------------------------------------------------

    def outcome(self, state: TaskState) -> dict[str, Any]:
        """Return the result of a task that has ended.

        Raises:
            CallCancelled: It was cancelled.
            RemoteError: It failed, with this.
            InvalidResult: It has completed, but has no result.
        """
        if state.status == "cancelled":
            words = f": {printable(state.status_message, _LONGEST_WORDS)}" if state.status_message else ""
            raise CallCancelled(
                f"{self.title} was cancelled{words}", reason=state.status_message, request_sent=True
            )
        if not self.modern:
            return self._early_result or self._fetch()
        if state.status == "failed":
            raise _failure(state)
        result = state.raw.get("result")
        if not isinstance(result, dict) or result.get("resultType", "complete") != "complete":
            raise InvalidResult(f"{self.title} has completed without a result", result=state.raw)
        return result

    def _fetch(self) -> dict[str, Any]:
        """Fetch the result of a task of 2025-11-25 that has ended, as soon as the server is there."""
        with self.naming():
            while True:
                try:
                    return self.interim.call(RESULT, {"taskId": self.task_id})
                except (TransportError, AuthError) as error:
                    self._bear(error)
                self.pause(self.interval())


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
        message = (
            state.status_message or f"task {printable(state.id)} failed, and the server does not say why"
        )
    return remote_error(code, message, error.get("data"))

"""The handle of a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from .. import types
from .._arguments import as_dict
from .._calls import call_options, pausing
from .._concurrency.cancel import CancelToken
from .._concurrency.deadline import Deadline
from .._engine.interim import InterimCall
from .._input_answers import answer_to_wire
from .._protocol import methods
from .._protocol.brief import excerpt
from ..errors import InputRequired, InvalidParams, NotSupported, ResourceNotFound, UsageError
from ..errors._printable import printable
from ..handlers import ProgressCallback
from ..options import UNSET, TimeoutArgument, check_validation
from ._asked import Asked
from ._calling import as_tool_result, follow
from ._extension import CANCEL, UPDATE
from ._following import Following
from ._known import Known
from ._record import Record, to_json
from ._state import TaskState

if TYPE_CHECKING:
    from ..session import ClientSession


class TaskHandle:
    """A task of a server: the call of a tool that goes on by itself. Made by ``start_task`` and ``task``.

    All methods may be called from any thread. They make their requests with the client that the handle came
    from, and on the thread that calls them: a handle has no thread of its own.

    Methods that talk to the server take ``timeout`` (seconds; default: as for any call of the client) and
    ``cancel`` (a `CancelToken`), which both end the call and not the task, and raise `TaskGone` if the server
    does not know the task (any more), beside what any call may raise.

    Attributes:
        id: The id of the task, ``""`` where the server answered the call at once: the handle has the result
            then, and makes no request.
        tool: The tool that was called, ``""`` where only an id was given to ``task``.
        on_input: Who answers what the task asks: ``"answer"``, the callbacks of the client while `result`
            waits; ``"raise"``, the application with `update`.
    """

    def __init__(
        self,
        session: ClientSession,
        record: Record,
        headers: Optional[Mapping[str, str]] = None,
        seed: Optional[TaskState] = None,
    ) -> None:
        self.id = record.id
        self.tool = record.tool
        self.on_input = record.on_input
        self._session = session
        self._headers = headers
        last = seed if record.id else TaskState("", "completed", raw={"result": record.result})
        self._known = Known(Asked(record.asked), last)
        # These are set in single steps, by whichever thread learns of them.
        self._raw_result = record.result
        self._failure: Optional[Exception] = None

    def __repr__(self) -> str:
        status = self._known.last.status if self._known.last is not None else "not asked yet"
        task_id, tool = printable(self.id), printable(self.tool)
        return f"<TaskHandle {task_id or 'answered at once'} of tool {tool or '?'}: {status}>"

    # --- the state -----------------------------------------------------------------------------------

    def status(self, *, timeout: TimeoutArgument = UNSET, cancel: Optional[CancelToken] = None) -> TaskState:
        """Ask the server how the task is getting on. Once it has ended, that is known without asking."""
        return self._known.final or self._look(self._follow(timeout, cancel))

    @property
    def requests(self) -> dict[str, Any]:
        """What the task asked when it was last looked at and has had no answer to, by the server's keys.

        The values are `ElicitRequest`, `CreateMessageRequest` and `ListRootsRequest`, as in
        ``InputRequired.requests``. Makes no request: `status` looks, and so does `result`.

        Raises:
            InvalidResult: One of them is malformed, or a key stands for something else than before.
        """
        return self._open(self._known.last)

    def _open(self, state: Optional[TaskState]) -> dict[str, Any]:
        if state is None or not state.input_requests:
            return {}
        fresh = self._known.asked.fresh(self.id, state.raw["inputRequests"])
        return {key: request for key, request in state.input_requests.items() if key in fresh}

    def _look(self, following: Following) -> TaskState:
        self._known.check_gone()
        with following.naming():
            return following.look()

    def _follow(
        self,
        timeout: TimeoutArgument = UNSET,
        cancel: Optional[CancelToken] = None,
        progress: Optional[ProgressCallback] = None,
        deadline: Optional[Deadline] = None,
    ) -> Following:
        session = self._session
        options = pausing(call_options(None, cancel, self._headers, progress), self.on_input)
        deadline = deadline or session._deadline(timeout)
        # Only pausing needs the arguments, and what is resumed then is the task.
        params = {"name": self.tool, "arguments": {}}
        interim = InterimCall(session._engine, methods.CALL_TOOL, params, options, deadline, {})
        return follow(interim, self.id, self._known, None)

    # --- the result ----------------------------------------------------------------------------------

    def result(
        self,
        *,
        timeout: TimeoutArgument = UNSET,
        progress_callback: Optional[ProgressCallback] = None,
        raise_on_error: bool = False,
        validation: Optional[str] = None,
        cancel: Optional[CancelToken] = None,
    ) -> types.CallToolResult:
        """Wait for the end of the task and return the tool's result. It can be had any number of times.

        Callbacks of the client answer what the task asks meanwhile, on the calling thread, each request once
        (up to 2025-11-25: as any request of the server); see ``on_input`` of ``start_task``. Where handles of
        several clients, or processes, wait for the same task, each of them may ask its user.

        A server that is away for a while is asked again, for up to 30 seconds in a row.

        Args:
            timeout: Seconds to wait, ``None`` for no bound; default: as for any call, which is at most
                ``Timeouts.total``. The task goes on when they are over, and so it does after ``cancel``.
            progress_callback: ``f(count, None, message)`` with each new ``statusMessage`` of the server;
                ``count`` counts them.
            raise_on_error: As for ``call_tool``.
            validation: Likewise.
            cancel: A `CancelToken` that ends the waiting.

        Raises:
            CallTimeout: It had not ended by then.
            CallCancelled: The task was cancelled, or the waiting.
            RemoteError: The task failed, with this.
            InputRequired: The task asks something, and ``on_input`` is ``"raise"``: answer `requests` with
                `update`, and wait again.
            TransportError: The server was away for too long. As with all errors, ``task_id`` names the task.
            InvalidResult: What the server says of the task makes no sense.
        """
        if validation is not None:
            check_validation(validation)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        raw, deadline = self._raw_result, self._session._deadline(timeout)
        if raw is None:
            raw = self._fetch(self._follow(cancel=cancel, progress=progress_callback, deadline=deadline))
        result = as_tool_result(raw)
        self._session._judge(self.tool, result, raise_on_error, validation, deadline)
        return result

    def _fetch(self, following: Following) -> dict[str, Any]:
        self._known.check_gone()
        try:
            with following.naming():
                raw = following.outcome(self._known.final or following.to_end())
        except InputRequired as waiting:
            waiting.args = (
                f"{following.title} waits for input: answer `requests` of its handle with update()",
            )
            raise
        finally:
            following.interim.drain()
        self._raw_result = raw
        return raw

    # --- what changes it -----------------------------------------------------------------------------

    def update(
        self,
        answers: Mapping[str, Any],
        *,
        timeout: TimeoutArgument = UNSET,
        cancel: Optional[CancelToken] = None,
    ) -> None:
        """Answer what the task asks (2026-07-28).

        Args:
            answers: By the keys of `requests`, all or some: `ElicitResult`, `CreateMessageResult` and
                `ListRootsResult`, or dicts of their form. Defaults of a form are filled in.
            timeout: See the class.
            cancel: See the class.

        Raises:
            AnswerInvalid: An answer does not match its form. Nothing was sent.
            UsageError: The task does not ask for one of them, or it was answered already. Nothing was sent.
            NotSupported: On revisions with a handshake the callbacks answer, while `result` waits.
        """
        given = as_dict("answers", answers)
        following = self._follow(timeout, cancel)
        if not following.modern:
            text = "an experimental task is answered by the callbacks of the client, while result() waits"
            raise NotSupported(text, method=UPDATE)
        if self._known.final is None and not given.keys() <= self.requests.keys():
            self._look(following)
        state = self._known.last
        asked = self._open(state)
        wrong = sorted(given.keys() - asked.keys())
        if state is None or not given or wrong:
            wanted = ", ".join(sorted(excerpt(repr(key)) for key in asked)) or "nothing (any more)"
            raise UsageError(
                f"{following.title} asks for {wanted}, and the answers are for {wrong or 'nothing'}"
            )
        answered = {key: answer_to_wire(key, asked[key], value) for key, value in given.items()}
        if following.claim(state, answered).keys() != answered.keys():
            raise UsageError(f"{following.title} was just answered by another thread")
        try:
            following.send_answers(answered)
        except (InvalidParams, ResourceNotFound):
            self._look(following)  # Perhaps it is gone.
            raise

    def cancel(self, *, timeout: TimeoutArgument = UNSET, cancel: Optional[CancelToken] = None) -> None:
        """Ask the server to give the task up. It may take its time, and need not: `status` tells.

        A task that has ended stays as it is.
        """
        if self._known.final is not None:
            return
        following = self._follow(timeout, cancel)
        try:
            following.interim.call(CANCEL, {"taskId": self.id})
        except (InvalidParams, ResourceNotFound):
            # Unknown, or over: servers of 2025-11-25 refuse that.
            if not self._look(following).has_ended:
                raise

    def to_json(self) -> dict[str, Any]:
        """Return what another process needs to take the task up: a dict of plain JSON values for ``task``.

        It names the server and the tool, and holds the result of a call that was answered at once; no
        arguments, no headers, no credentials. But who has the id of a task may be able to read its result:
        keep it where you would keep that.
        """
        result = self._raw_result if not self.id else None
        record = Record(self.id, self.tool, self.on_input, self._known.asked.as_dict(), result)
        return to_json(record, self._session._engine.plan)

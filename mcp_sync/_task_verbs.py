"""The verbs for tasks. What does their work loads when they are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

from ._arguments import as_dict, check_instance
from ._calls import Headers, Meta, call_options, pausing
from ._concurrency.cancel import CancelToken
from ._concurrency.deadline import Deadline
from ._concurrency.fork import no_fork
from ._engine.call_options import CallOptions
from ._tool_verbs import ToolVerbs
from .errors import UsageError
from .handlers import ProgressCallback
from .options import UNSET, TimeoutArgument, check_seconds, check_validation

if TYPE_CHECKING:
    from . import types
    from .tasks import TaskHandle


class TaskVerbs(ToolVerbs):
    """What `ClientSession` documents, as far as it concerns tasks."""

    def start_task(
        self,
        name: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        ttl: Optional[float] = None,
        on_input: str = "answer",
        timeout: TimeoutArgument = UNSET,
        progress_callback: Optional[ProgressCallback] = None,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> TaskHandle:
        """Call a tool without waiting for its end, and return a handle of the task that the call becomes.

        The server decides whether it becomes one (2026-07-28). On 2025-11-25 it is asked for one where it
        offers tasks and the tool admits them; the tools are listed first if they were not. Everywhere else,
        and where the server answers at once, the call is an ordinary one, and the handle has its result.

        Args:
            name: The tool.
            arguments: What JSON can hold; models are dumped.
            ttl: For how many seconds the server should keep the task (2025-11-25; on 2026-07-28 it decides).
            on_input: Who answers what the task asks (2026-07-28): ``"answer"``, the callbacks of the client
                while ``result`` waits; ``"raise"``, the application, with ``requests`` and ``update`` of the
                handle. It declares elicitation for the task by itself. Until there is a task, questions are
                treated as by ``call_tool``.
            timeout: Of this call, not of the task.
            progress_callback: Takes what the server reports until it answers: all of it, if no task comes of
                the call. How a task is getting on says ``status`` of the handle.
            meta: See the class.
            cancel: Cancels this call, not the task.
            headers: HTTP headers of this request, and of those that the handle makes.

        Raises:
            MissingClientCapability: The tool needs tasks, and ``extensions=`` of the client leaves them out.
            InputRequired: Only with ``on_input="raise"``, before there is a task.
            UsageError: Arguments that JSON cannot hold.
        """
        with no_fork():
            from .tasks._starting import start
        check_instance("the name of a tool", name, str)
        check_seconds("ttl", ttl)
        params = {"name": name, "arguments": as_dict("arguments", arguments)}
        options = pausing(call_options(meta, cancel, headers, progress_callback), on_input)
        deadline = self._deadline(timeout)
        if self._pins is not None:
            self._pins.check(self, name, options, deadline)  # type: ignore[arg-type]
        return start(self, params, ttl, options, deadline, on_input)

    def task(self, task: Union[str, Mapping[str, Any]], *, headers: Headers = None) -> TaskHandle:
        """Take up a task that this client, or another process, has begun. Makes no request.

        Args:
            task: What `TaskHandle.to_json` returned, that as JSON text, or the id of a task alone.
            headers: HTTP headers of the requests that the handle makes.

        Raises:
            InvalidHandle: It is none of these, or of another server or principal.
        """
        with no_fork():
            from .tasks._starting import take_up
        if isinstance(task, (bytes, bytearray)):
            raise UsageError("a task is named by its id, a str, or by what TaskHandle.to_json() returned")
        return take_up(self, task, headers)

    def _resume_task(
        self,
        task: Mapping[str, Any],
        params: dict[str, Any],
        options: CallOptions,
        deadline: Deadline,
        raise_on_error: bool,
        validation: Optional[str],
    ) -> types.CallToolResult:
        """Go on with a call that had become a task when it raised `InputRequired`, as `call_tool` would."""
        with no_fork():
            from .tasks._calling import resume_call
        if validation is not None:
            check_validation(validation)
        result = resume_call(self, task, params, options, deadline)
        self._judge(params["name"], result, raise_on_error, validation, deadline)
        return result

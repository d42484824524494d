"""`MCPTask`: the base of tasks that call MCP servers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable, NoReturn, Optional

from celery import Task
from celery._state import _task_stack

from ...errors import AuthorizationRequired, InputRequired, InsufficientScope, MCPError, UsageError
from .._bounded import BoundedClient, Budget, is_modern
from ._beginning import begin
from ._progress import Reporter
from ._questions import ask
from ._retrying import LoginNeeded, cannot_have_acted, retry_kwargs_for
from ._servers import servers_of
from .errors import keep

_PAUSING = ("call_tool", "get_prompt", "read_resource", "start_task")
_REPORTING = ("call_tool", "resume", "start_task")
_ACTING = (*_REPORTING, "stream_tool", "request")
_MARGIN = 5.0  # seconds before the soft time limit at which calls end; a quarter of it at most


class MCPTask(Task):  # type: ignore[misc,unused-ignore]
    """A task that calls MCP servers: ``@app.task(base=MCPTask, bind=True, mcp_server="reports")``.

    - ``self.mcp`` is the client of ``mcp_server``, ``self.mcp_for(user)`` that of a user.
    - All calls of a task end before its soft time limit, so that they are cancelled in good order.
    - What has not reached the server is retried (``max_retries``), see `retry_kwargs_for`; what needs a login
      fails with `LoginNeeded`, which has a link.
    - Progress of tools becomes the state ``PROGRESS``.
    - When a server asks something, the task ends with the state ``INPUT_REQUIRED``: see `question`, `answer`.
    - `run_tool` starts a tool that takes long, and has its result become that of this task, without a worker
      that waits for it.

    Attributes:
        mcp_server: The alias of the server.
        mcp_timeout: Seconds that all calls have together, beside the limits of the task.
        mcp_idempotent: Whether it does no harm to run the task twice: then more is retried.
        mcp_progress_interval: The fewest seconds between two states ``PROGRESS``; ``None`` for none.
        mcp_task_limit: Seconds for which `run_tool` follows a task of a server (a day), ``None`` for no
            bound; they begin anew with each answer.
        mcp_cancels_late: Whether the task of the server is cancelled when they are over.
    """

    abstract = True
    mcp_server: Optional[str] = None
    mcp_timeout: Optional[float] = None
    mcp_idempotent = False
    mcp_progress_interval: Optional[float] = 1.0
    mcp_task_limit: Optional[float] = 24 * 3600.0
    mcp_cancels_late = True

    @classmethod
    def on_bound(cls, app: Any) -> None:
        """Have errors of calls become what they mean for a task."""
        run = inspect.getattr_static(cls, "run")  # Its own, or that of a class below.
        if not hasattr(run, "_mcp_guarded"):
            cls.run = _guarded(run)

    # --- clients -----------------------------------------------------------------------------------------

    @property
    def mcp(self) -> BoundedClient:
        """The client of ``mcp_server`` that all tasks of this process share."""
        return self.mcp_for(None)

    def mcp_for(self, user: Optional[str], server: Optional[str] = None) -> BoundedClient:
        """Return the client of a user.

        Args:
            user: Who, ``None`` for nobody in particular.
            server: The alias, by default ``mcp_server``.

        Raises:
            UsageError: Neither says which server.
        """
        alias = server or self.mcp_server
        if alias is None:
            raise UsageError(f"the task {self.name} has no mcp_server")
        client = servers_of(self.app).client(alias, user)
        plain = client.client if isinstance(client, BoundedClient) else client
        budget = self._budget()

        def around(name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
            return functools.partial(self._call, alias, user, plain, budget, name, verb)

        return BoundedClient(client, budget, around)

    def _budget(self) -> Budget:
        found = getattr(self.request, "mcp_budget", None)
        return found if isinstance(found, Budget) else Budget(self._seconds())

    def _seconds(self) -> Optional[float]:
        """Return how long all calls may take together."""
        limits = self.request.timelimit or (None, None)
        soft = limits[1] or self.soft_time_limit or self.app.conf.task_soft_time_limit
        hard = limits[0] or self.time_limit or self.app.conf.task_time_limit
        bounds = [each - min(_MARGIN, each / 4) for each in (soft, hard) if each]
        if self.mcp_timeout is not None:
            bounds.append(self.mcp_timeout)
        return min(bounds) if bounds else None

    def _call(
        self,
        alias: str,
        user: Optional[str],
        client: Any,
        budget: Budget,
        name: str,
        verb: Callable[..., Any],
        *args: Any,
        **options: Any,
    ) -> Any:
        may_pause = name in _PAUSING and "on_input" not in options and self._is_worked_on
        if may_pause and is_modern(client, budget):
            options["on_input"] = "raise"
        if name in _REPORTING and "progress_callback" not in options:
            options["progress_callback"] = self._reporter(server=alias)
        has_acted = name in _ACTING
        try:
            return verb(*args, **options)
        except MCPError as error:
            error._mcp_origin = (alias, user)  # type: ignore[attr-defined]
            has_acted = has_acted and not cannot_have_acted(error)
            raise
        finally:
            if has_acted:
                # Also the run of a task that called this one within itself would repeat it.
                for task in (self, *_task_stack.stack):
                    task.request.mcp_has_acted = True

    @property
    def _is_worked_on(self) -> bool:
        """Whether a worker runs the task, and somebody else may look at its state."""
        request = self.request
        return not request.called_directly and not request.is_eager and request.id is not None

    @property
    def _may_be_repeated(self) -> bool:
        """Whether a retry would do nothing twice."""
        has_acted = getattr(self.request, "mcp_has_acted", False)
        return self._is_worked_on and (self.mcp_idempotent or not has_acted)

    def _reporter(self, **more: Any) -> Optional[Reporter]:
        """Return what makes progress the state of the task, ``None`` where nobody can look at it."""
        ignores = self.request.ignore_result or self.ignore_result
        if not self._is_worked_on or self.mcp_progress_interval is None or ignores:
            return None
        return Reporter(self, self.mcp_progress_interval, **more)

    # --- what comes of a call ----------------------------------------------------------------------------

    @contextmanager
    def _mcp_errors(self) -> Iterator[None]:
        """Have errors of calls become what they mean for a task."""
        with servers_of(self.app).context():
            self.request.mcp_budget = Budget(self._seconds())
            try:
                yield
            except (AuthorizationRequired, InsufficientScope) as error:
                server = getattr(error, "_mcp_origin", (self.mcp_server,))[0]
                raise LoginNeeded(server or "", error.url, str(error)) from error
            except InputRequired as waiting:
                if not self._is_worked_on:
                    raise
                self._pause(waiting)
            except MCPError as error:
                again = retry_kwargs_for(
                    error, attempt=self.request.retries or 0, idempotent=self.mcp_idempotent
                )
                if not self.request.called_directly:
                    keep(error)
                if again is None or not self._may_be_repeated:
                    raise
                raise self.retry(**again) from error

    def _pause(self, waiting: InputRequired) -> NoReturn:
        alias, user = getattr(waiting, "_mcp_origin", (self.mcp_server, None))
        envelope = waiting.to_json(key=servers_of(self.app).envelope_key)
        ask(self, {"server": alias, "user": user, "envelope": envelope})

    def run_tool(
        self,
        name: str,
        arguments: Optional[dict[str, Any]] = None,
        *,
        user: Optional[str] = None,
        server: Optional[str] = None,
    ) -> Any:
        """Call a tool that takes long, whose result becomes that of this task: ``return self.run_tool(...)``.

        If the server makes a task of the call, this run ends, and the task ``mcp_sync.poll`` looks after it
        under the same id, as often as the server wishes. If not, its result is returned at once, as a dict.
        A run that is repeated because its worker died (``acks_late``, ``reject_on_worker_lost``) takes up the
        call that was made before, and never makes a second one.

        Args:
            name: The tool.
            arguments: Its arguments.
            user: As in `mcp_for`.
            server: Likewise.

        Raises:
            CallTimeout: It has not ended within ``mcp_task_limit``.
            ConnectionLost: The worker died while it made the call, and nobody knows what became of that: it
                is made again only if ``mcp_idempotent`` says so.
        """
        from ._polling import follow

        client = self.mcp_for(user, server)
        if not self._is_worked_on:
            return client.call_tool(name, arguments).to_wire()
        return follow(self, begin(self, client, name, arguments), server or self.mcp_server, user)


def _guarded(run: Any) -> Any:
    """Return a ``run`` whose errors of calls become what they mean for a task."""

    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._mcp_errors():
            return run.__get__(self, type(self))(*args, **kwargs)

    function = getattr(run, "__func__", run)
    functools.update_wrapper(guarded, function)
    if function is not run:
        del guarded.__wrapped__  # type: ignore[attr-defined]  # It has no self.
    guarded._mcp_guarded = True  # type: ignore[attr-defined]
    return guarded

"""What needs no worker: which errors are retried, what errors and results become, deadlines, settings."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery._state import _task_stack
from celery.backends import cache
from celery.exceptions import BackendGetMetaError, Ignore, Reject, Retry, SoftTimeLimitExceeded
from kombu.exceptions import OperationalError

from mcp_sync import (
    AuthorizationRequired,
    CallCancelled,
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    HTTPStatusError,
    InsufficientScope,
    MCPError,
    RemoteError,
    TaskGone,
    TokenRequestFailed,
    ToolFailed,
    UsageError,
)
from mcp_sync import Retry as MCPRetry
from mcp_sync.config import ConfigError
from mcp_sync.contrib._bounded import Budget
from mcp_sync.contrib.celery import (
    AlreadyAnswered,
    LoginNeeded,
    MCPTask,
    _polling,
    _questions,
    answer,
    cancel_followed,
    look_again,
    question,
    retry_kwargs_for,
    use_servers,
)
from mcp_sync.contrib.celery import errors as kept
from mcp_sync.contrib.celery._claiming import claim, give_up
from mcp_sync.contrib.celery._progress import Reporter
from mcp_sync.contrib.celery._questions import RESUME, UPDATE
from mcp_sync.contrib.celery.errors import keep
from mcp_sync.registry import Registry
from mcp_sync.testing import FakeServer, FakeTool, Fault, FaultPlan, ToolContext
from mcp_sync.types import CallToolResult

BUSY = HTTPStatusError("busy", status=503, retry_after=7, request_sent=False)


@pytest.mark.parametrize(
    ("error", "idempotent", "is_retried"),
    [
        (BUSY, False, True),
        (HTTPStatusError("busy", status=503, retry_after=99999, request_sent=False), False, False),
        (HTTPStatusError("broken", status=500, request_sent=True), True, False),
        (HTTPStatusError("gateway", status=502, request_sent=True), False, False),
        (HTTPStatusError("gateway", status=502, request_sent=True), True, True),
        (ConnectionLost("lost", request_sent=False), False, True),
        (ConnectionLost("lost", request_sent=True), False, False),
        (ConnectionLost("lost", request_sent=None), False, False),
        (ConnectionLost("lost", request_sent=None), True, True),
        (CallTimeout("late", request_sent=True), False, False),
        (CallTimeout("late", request_sent=False), False, True),
        (AuthorizationRequired("log in", url="https://x"), True, False),
        (TokenRequestFailed("later", transient=True), False, True),
        (TokenRequestFailed("never"), True, False),
        (RemoteError(-32602, "no such tool"), True, False),
        (ValueError("x"), True, False),
    ],
)
def test_only_what_cannot_have_acted_is_retried(error: Any, idempotent: bool, is_retried: bool) -> None:
    found = retry_kwargs_for(error, idempotent=idempotent)
    assert (found is not None) == is_retried
    if found is not None:
        assert found["exc"] is error


def test_what_the_server_asks_for_becomes_the_countdown_and_else_it_grows() -> None:
    assert (retry_kwargs_for(BUSY) or {})["countdown"] == 7
    lost = ConnectionLost("lost", request_sent=False)
    waits = [(retry_kwargs_for(lost, attempt=attempt) or {})["countdown"] for attempt in (0, 4, 50)]
    assert 0.5 <= waits[0] <= 1
    assert 8 <= waits[1] <= 16
    assert 150 <= waits[2] <= 300


def test_a_needed_login_survives_pickle_and_json() -> None:
    error = LoginNeeded("github", "https://x/y", "somebody has to log in")
    for read in (pickle.loads(pickle.dumps(error)), LoginNeeded(*json.loads(json.dumps(error.args)))):
        assert (read.server, read.url, str(read)) == (error.server, error.url, str(error))


RESULT = CallToolResult.model_validate({"content": [{"type": "text", "text": "no"}], "isError": True})


@pytest.mark.parametrize(
    "error",
    [
        BUSY,
        RemoteError(-32000, "odd", {"$": "tuple", "is": [1, {"b": None}]}, status=400, method="m", peer="p"),
        TaskGone(-32602, "gone", task_id="t-1"),
        CallTimeout("late", timeout=3.0, request_sent=True),
        InsufficientScope("more", url="https://x", scopes=("a", "b")),
        ToolFailed("no", result=RESULT),
        ConfigError("bad", server="x", key="url"),
        MCPError("plain"),
    ],
)
def test_results_in_json_and_pickle_keep_errors_whole(app: Celery, error: Any) -> None:
    error = copy.copy(error)
    error.task_id = "task-7"
    kind, text, attributes = type(error), str(error), dict(vars(error))
    assert keep(error) is error
    assert keep(error) is error
    backend = app.backend
    stored = backend.decode(backend.encode({"is": backend.prepare_exception(error)}))
    for read in (backend.exception_to_python(stored["is"]), pickle.loads(pickle.dumps(error))):
        assert isinstance(read, kind)
        assert (str(read), vars(read)) == (text, attributes)
    assert type(read) is kind


def test_only_errors_of_calls_are_kept_so(app: Celery) -> None:
    other = ValueError("x")
    assert type(keep(other)) is ValueError
    with pytest.raises(AttributeError):
        _ = kept.InputRequired
    with pytest.raises(AttributeError):
        _ = kept.Exception


@pytest.fixture
def app() -> Iterator[Celery]:
    made = Celery("unit", broker="memory://", backend="cache+memory://", set_as_current=False)
    yield made
    made.close()
    cache._DUMMY_CLIENT_CACHE.clear()


def greet(context: ToolContext) -> str:
    context.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return "hello"


def served(app: Celery, *tools: Any, **options: Any) -> Registry:
    registry = Registry({"demo": {"url": "http://127.0.0.1:9/mcp"}})
    use_servers(app, registry, **options)
    return registry


class Worked:
    """Has a task run as a worker would run it."""

    def __init__(self, task: Any, **request: Any) -> None:
        self.task = task
        known = {"id": "job-1", "called_directly": False, "is_eager": False, "retries": 0}
        task.push_request(**{**known, "args": (), "kwargs": {}, **request})

    def __enter__(self) -> Any:
        _task_stack.push(self.task)
        return self.task

    def __exit__(self, *exc_info: object) -> None:
        _task_stack.pop()
        self.task.pop_request()


def test_a_task_pauses_when_the_server_asks_and_only_one_may_answer(app: Celery) -> None:
    @app.task(shared=False, base=MCPTask, bind=True, mcp_server="demo")
    def work(self: Any) -> str:
        return str(self.mcp.call_tool("greet").text)

    registry = served(app, envelope_key="k")
    with registry.override({"demo": FakeServer(tools=[greet])}), Worked(work) as task:
        with pytest.raises(Ignore):
            task.run()
        result = app.AsyncResult("job-1")
        ((key, request),) = (question(result) or {}).items()
        assert request.params.message == "Who?"
        json.dumps(result.info)
        answer(result, {key: {"action": "accept", "content": {"name": "Ada"}}})
        with pytest.raises(AlreadyAnswered, match="job-1 goes on with an answer"):
            answer(app.AsyncResult("job-1"), {key: {"action": "decline"}})
        assert question(app.AsyncResult("job-1")) is None
    registry.close()


def test_a_worker_does_not_sleep_for_as_long_as_a_busy_server_asks_for(app: Celery) -> None:
    @app.task(shared=False, base=MCPTask, bind=True, mcp_server="demo")
    def work(self: Any) -> Any:
        return self.mcp.call_tool("greet")

    plan = FaultPlan({"tools/call": [Fault.http(503, headers={"Retry-After": "20"})]})
    with FakeServer(tools=[greet]).serve_http(faults=plan) as endpoint:
        servers = use_servers(app, {"demo": {"url": endpoint.url}})
        with Worked(work) as task, pytest.raises(Retry) as found:
            task.run()
        assert found.value.when == 20
        servers.close()


def test_errors_of_calls_become_retries_logins_or_stay_what_they_are(app: Celery) -> None:
    raised: list[Any] = []

    @app.task(shared=False, base=MCPTask, bind=True, mcp_server="demo", max_retries=2)
    def work(self: Any) -> None:
        raise raised[0]

    served(app).close()
    for error, kind in (
        (BUSY, Retry),
        (AuthorizationRequired("log in", url="https://x"), LoginNeeded),
        (ConnectionLost("lost", request_sent=True), ConnectionLost),
    ):
        raised[:] = [error]
        with Worked(work) as task, pytest.raises(kind) as found:
            task.run()
        if kind is Retry:
            assert found.value.when == 7
        if kind is LoginNeeded:
            assert found.value.url == "https://x"
    raised[:] = [BUSY]
    with Worked(work, retries=2) as task, pytest.raises(HTTPStatusError):
        task.run()
    with pytest.raises(HTTPStatusError):
        work()


@pytest.mark.parametrize(
    ("limits", "options", "seconds"),
    [
        ((None, None), {}, None),
        ((None, 120), {}, 115),
        ((None, 4), {}, 3),
        ((100, None), {}, 95),
        ((None, 120), {"mcp_timeout": 10}, 10),
        ((None, None), {"soft_time_limit": 40}, 35),
    ],
)
def test_calls_end_before_the_limits_of_the_task(
    app: Celery, limits: Any, options: Any, seconds: Any
) -> None:
    @app.task(shared=False, base=MCPTask, bind=True, mcp_server="demo", **options)
    def work(self: Any) -> Any:
        return self._seconds()

    served(app).close()
    with Worked(work, timelimit=limits) as task:
        assert task.run() == seconds


def test_progress_is_written_now_and_then_and_at_the_end(app: Celery, monkeypatch: Any) -> None:
    @app.task(shared=False, base=MCPTask, bind=True, mcp_server="demo")
    def work(self: Any) -> None: ...

    clock = [0.0]
    monkeypatch.setattr("mcp_sync.contrib.celery._progress._now", lambda: clock[0])
    written = []
    with Worked(work) as task:
        monkeypatch.setattr(task.backend, "store_result", lambda id, meta, *_, **__: written.append(meta))
        report = Reporter(task, 1.0, server="demo")
        for at, done in ((0.0, 1), (0.5, 2), (1.2, 3), (1.3, 4)):
            clock[0] = at
            report(done, 4, "x")
        for done in range(4, 9):
            report(done, 4, "it is always the last one")
        clock[0] = 9.0
        report(9, 4, "x" * 100_000)
    assert [meta["progress"] for meta in written] == [1, 3, 4, 9]
    assert len(written[-1]["message"]) == 1000


def test_no_time_left_is_a_timeout_that_reached_nobody() -> None:
    budget = Budget(0.0)
    with pytest.raises(CallTimeout) as found:
        budget.within(5)
    assert found.value.request_sent is False


def test_wrong_use_says_what_is_missing(app: Celery) -> None:
    @app.task(shared=False, base=MCPTask, bind=True)
    def work(self: Any) -> Any:
        return self.mcp

    with pytest.raises(UsageError, match="call use_servers"):
        work()
    served(app).close()
    with pytest.raises(UsageError, match="has no mcp_server"):
        work()
    with pytest.raises(UsageError, match="options are for clients"):
        use_servers(app, lambda alias, user: None, timeout=3)


class Kitchen:
    """A server of one tool that runs as a task until it is let go."""

    def __init__(self) -> None:
        self.opened, self.cancelled = threading.Event(), threading.Event()

        def build(context: ToolContext) -> str:
            while not self.opened.wait(0.02):
                if context.cancelled.is_set():
                    self.cancelled.set()
                    return "cancelled"
            return "built"

        self.fake = FakeServer(tools=[FakeTool(build, task=True)])


@pytest.fixture
def kitchen() -> Iterator[Kitchen]:
    made = Kitchen()
    yield made
    made.opened.set()


def begun(
    app: Celery, registry: Registry, kitchen: Kitchen, tool: str = "build", **options: Any
) -> dict[str, Any]:
    """Have a run of a task begin a task of the server, and return what the next run is told."""

    @app.task(shared=False, base=MCPTask, bind=True, mcp_server="demo", **options)
    def work(self: Any) -> Any:
        return self.run_tool(tool)

    with Worked(work) as task, pytest.raises(Ignore):
        task.run()
    noted = app.AsyncResult("job-1").info
    return {name: noted[name] for name in _polling._JOB}


@pytest.mark.parametrize("cancels", [True, False])
def test_a_task_of_a_server_is_followed_for_a_limited_time(
    cancels: bool, app: Celery, kitchen: Kitchen, monkeypatch: Any
) -> None:
    registry, now = served(app), _polling._now
    with registry.override({"demo": kitchen.fake}):
        job = begun(app, registry, kitchen, mcp_task_limit=60, mcp_cancels_late=cancels)
        poll = app.tasks[_polling.POLL]
        with Worked(poll) as task, pytest.raises(Ignore):
            task.run(job)
        monkeypatch.setattr(_polling, "_now", lambda: now() + 61)
        said = "was cancelled" if cancels else "goes on"
        with (
            Worked(poll) as task,
            pytest.raises(CallTimeout, match=rf"within 60 s .*; it {said} there") as found,
        ):
            task.run(job)
        assert (found.value.timeout, found.value.request_sent) == (60, True)
        assert kitchen.fake.count("tasks/cancel") == cancels
        assert not cancels or kitchen.cancelled.wait(20)
    registry.close()


def test_without_a_limit_it_is_followed_for_ever(app: Celery, kitchen: Kitchen, monkeypatch: Any) -> None:
    registry = served(app)
    with registry.override({"demo": kitchen.fake}):
        job = begun(app, registry, kitchen, mcp_task_limit=None)
        monkeypatch.setattr(_polling, "_now", lambda: 1e12)
        with Worked(app.tasks[_polling.POLL]) as task, pytest.raises(Ignore):
            task.run(job)
    registry.close()


@pytest.mark.parametrize(("failures", "kind"), [(0, Ignore), (20, ConnectFailed)])
def test_a_server_that_does_not_answer_any_more_ends_the_task(
    failures: int, kind: Any, app: Celery, kitchen: Kitchen
) -> None:
    with kitchen.fake.serve_http() as endpoint:
        registry = Registry({"demo": {"url": endpoint.url}})
        use_servers(app, registry)
        job = begun(app, registry, kitchen)
    with Worked(app.tasks[_polling.POLL]) as task, pytest.raises(kind):
        task.run(job, failures)
    registry.close()


def test_of_two_that_follow_a_task_the_older_one_stops(app: Celery, kitchen: Kitchen) -> None:
    registry = served(app)
    with registry.override({"demo": kitchen.fake}):
        job = begun(app, registry, kitchen)
        look_again(app.AsyncResult("job-1"))
        looks = kitchen.fake.count("tasks/get")
        poll, noted = app.tasks[_polling.POLL], app.AsyncResult("job-1").info
        with Worked(poll) as task, pytest.raises(Ignore):
            task.run(job)
        assert kitchen.fake.count("tasks/get") == looks
        with Worked(poll) as task, pytest.raises(Ignore):
            task.run({**job, "follower": noted["follower"]})
        assert kitchen.fake.count("tasks/get") == looks + 1
        kitchen.opened.set()
        app.backend.store_result("job-1", None, "REVOKED")
        with Worked(poll) as task, pytest.raises(Ignore):
            task.run({**job, "follower": noted["follower"]})
        assert kitchen.fake.count("tasks/get") == looks + 1
    registry.close()


def test_a_run_that_is_repeated_after_a_question_asks_nothing_again(app: Celery) -> None:
    @app.task(shared=False, base=MCPTask, bind=True, mcp_server="demo", acks_late=True)
    def work(self: Any) -> Any:
        return self.run_tool("greet")

    registry, fake = served(app), FakeServer(tools=[greet])
    with registry.override({"demo": fake}):
        for _ in range(2):
            with Worked(work) as task, pytest.raises(Ignore):
                task.run()
        assert app.AsyncResult("job-1").state == "INPUT_REQUIRED"
        assert fake.count("tools/call") == 1
    registry.close()


@pytest.mark.parametrize("waits", [False, True])
def test_the_task_of_a_server_that_is_followed_can_be_cancelled(
    app: Celery, kitchen: Kitchen, monkeypatch: Any, waits: bool
) -> None:
    registry, sent = served(app), []
    kitchen.fake.add_tool(FakeTool(greet, name="ask", task=True))
    with registry.override({"demo": kitchen.fake}):
        poll = app.tasks[_polling.POLL]
        monkeypatch.setattr(poll, "apply_async", lambda args, **_: sent.append(args), raising=False)
        begun(app, registry, kitchen, "ask" if waits else "build")
        while waits and question(app.AsyncResult("job-1")) is None:
            with Worked(poll) as task, pytest.raises(Ignore):
                task.run(*sent.pop())
        cancel_followed(app.AsyncResult("job-1"))
        assert question(app.AsyncResult("job-1")) is None
        with Worked(poll) as task, pytest.raises(CallCancelled):
            while True:
                with suppress(Ignore):
                    task.run(*sent.pop())
        assert kitchen.fake.count("tasks/cancel") == 1
        app.backend.store_result("job-1", None, "SUCCESS")
        with pytest.raises(UsageError, match="job-1 follows no task"):
            cancel_followed(app.AsyncResult("job-1"))
    registry.close()


@pytest.mark.parametrize(
    ("state", "outcome"), [("STARTED", "followed"), ("RETRY", "followed"), ("SUCCESS", "left alone")]
)
def test_a_run_that_is_repeated_makes_no_second_call_whatever_the_state_is(
    state: str, outcome: str, app: Celery, kitchen: Kitchen, monkeypatch: Any
) -> None:
    @app.task(shared=False, base=MCPTask, bind=True, mcp_server="demo", acks_late=True)
    def work(self: Any) -> Any:
        return self.run_tool("build")

    registry, sent = served(app), []
    monkeypatch.setattr(
        app.tasks[_polling.POLL], "apply_async", lambda args, **_: sent.append(args[0]["task"])
    )
    with registry.override({"demo": kitchen.fake}):
        with Worked(work) as task, pytest.raises(Ignore):
            task.run()
        # Celery tells that the run begins anew (task_track_started), say.
        app.backend.store_result("job-1", ValueError("x") if state == "RETRY" else {"pid": 1}, state)
        with Worked(work) as task, pytest.raises(Ignore):
            task.run()
        assert sent == [sent[0]] * (2 if outcome == "followed" else 1)
        assert kitchen.fake.count("tools/call") == 1
        with Worked(work, id="job-2") as task, pytest.raises(Ignore):
            task.run()
        assert kitchen.fake.count("tools/call") == 2
    registry.close()


def test_a_run_that_is_repeated_makes_none_of_its_calls_twice(app: Celery) -> None:
    called: list[str] = []

    def cook(what: str) -> str:
        called.append(what)
        return what

    @app.task(shared=False, base=MCPTask, bind=True, mcp_server="demo", acks_late=True)
    def work(self: Any) -> Any:
        made = [self.run_tool("cook", {"what": what}) for what in ("soup", "pie")]
        return [each["content"][0]["text"] for each in made]

    registry = served(app)
    with registry.override({"demo": FakeServer(tools=[cook])}):
        for _ in range(2):
            with Worked(work) as task:
                assert task.run() == ["soup", "pie"]
    assert called == ["soup", "pie"]
    registry.close()


@pytest.mark.parametrize("backend", ["rpc://", None])
def test_where_nothing_can_be_kept_a_run_that_is_delivered_again_calls_nothing(
    backend: Any,
) -> None:
    app = Celery("unit", broker="memory://", backend=backend, set_as_current=False)
    registry = served(app)

    @app.task(shared=False, base=MCPTask, bind=True, mcp_server="demo", acks_late=True)
    def work(self: Any) -> Any:
        return self.run_tool("build")

    with (
        Worked(work, delivery_info={"redelivered": True}) as task,
        pytest.raises(ConnectionLost, match="may have begun its work") as found,
    ):
        task.run()
    assert found.value.request_sent is None
    registry.close()
    app.close()


def test_a_server_that_fails_at_the_first_look_is_looked_at_again(
    app: Celery, kitchen: Kitchen, monkeypatch: Any
) -> None:
    @app.task(shared=False, base=MCPTask, bind=True, mcp_server="demo")
    def work(self: Any) -> Any:
        return self.run_tool("build")

    sent: list[Any] = []
    with kitchen.fake.serve_http(faults=FaultPlan({"tasks/get": [Fault.http(500)]})) as endpoint:
        registry = Registry({"demo": {"url": endpoint.url}})
        use_servers(app, registry)
        poll = app.tasks[_polling.POLL]
        monkeypatch.setattr(poll, "apply_async", lambda args, **_: sent.append(args))
        with Worked(work) as task, pytest.raises(Ignore):
            task.run()
        ((_, failures),) = sent
        assert failures == 1
        kitchen.opened.set()
        while sent:
            with Worked(poll) as task, suppress(Ignore):
                assert task.run(*sent.pop())["content"][0]["text"] == "built"
        assert kitchen.fake.count("tools/call") == 1
        registry.close()


def test_a_first_look_that_cannot_be_sent_leaves_no_work_at_the_server(
    app: Celery, kitchen: Kitchen, monkeypatch: Any
) -> None:
    @app.task(shared=False, base=MCPTask, bind=True, mcp_server="demo")
    def work(self: Any) -> Any:
        return self.run_tool("build")

    def away(*args: Any, **options: Any) -> None:
        raise OperationalError("the broker is away")

    registry = served(app)
    monkeypatch.setattr(app.tasks[_polling.POLL], "apply_async", away)
    with registry.override({"demo": kitchen.fake}), Worked(work) as task:
        with pytest.raises(OperationalError):
            task.run()
        assert kitchen.cancelled.wait(20)
    registry.close()


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("is_applied", [False, True])
def test_a_run_is_not_repeated_for_one_call_where_another_may_have_acted(
    is_applied: bool, idempotent: bool, app: Celery
) -> None:
    options = {"shared": False, "base": MCPTask, "bind": True, "mcp_server": "demo"}

    @app.task(**options)
    def within(self: Any) -> Any:
        return self.mcp.call_tool("echo", {"text": "x"}).text

    @app.task(**options, mcp_idempotent=idempotent)
    def work(self: Any, acts: bool) -> Any:
        self.mcp.list_tools()
        with suppress(ConnectFailed):
            self.mcp_for(None, "down").call_tool("echo")
        if acts:
            within.apply() if is_applied else within()
        return self.mcp_for(None, "down").call_tool("echo")

    def echo(text: str) -> str:
        return text

    registry = Registry({name: {"url": "http://127.0.0.1:9/mcp"} for name in ("demo", "down")})
    use_servers(app, registry)
    with registry.override({"demo": FakeServer(tools=[echo])}):
        for acts in (False, True):
            with (
                Worked(work, args=(acts,)) as task,
                pytest.raises(ConnectFailed if acts and not idempotent else Retry),
            ):
                task.run(acts)
    registry.close()


def test_a_task_that_inherits_what_it_does_is_paused_and_retried_like_others(app: Celery) -> None:
    class Greeting(MCPTask):
        abstract = True
        mcp_server = "demo"

        def run(self) -> str:
            return str(self.mcp.call_tool("greet").text)

    class Welcome(Greeting):
        name = "welcome"

    registry, work = served(app), app.register_task(Welcome())
    with registry.override({"demo": FakeServer(tools=[greet])}), Worked(work), pytest.raises(Ignore):
        work.run()
    assert app.AsyncResult("job-1").state == "INPUT_REQUIRED"
    with Worked(work, id="job-2"), pytest.raises(Retry):
        work.run()
    registry.close()


@pytest.mark.parametrize(
    ("method", "faults"),
    [
        ("tasks/get", [Fault.http(502)]),
        ("tasks/update", [Fault.http(502)]),
        ("tasks/update", [Fault.drop("body")]),
        ("tasks/get", [None, Fault.http(502)]),
    ],
)
def test_an_answer_waits_for_a_server_that_fails(
    method: str, faults: list[Any], app: Celery, monkeypatch: Any
) -> None:
    @app.task(shared=False, base=MCPTask, bind=True, mcp_server="demo")
    def work(self: Any) -> Any:
        return self.run_tool("greet")

    def run(task: Any, args: Any = (), retries: int = 0) -> Any:
        with Worked(task, args=args, retries=retries), suppress(Ignore, Retry):
            return task.run(*args)

    to_come: list[Any] = []
    sent: list[Any] = []
    plan = FaultPlan({method: (to_come.pop(0) if to_come else None for _ in itertools.count())})
    fake = FakeServer(tools=[FakeTool(greet, task=True)])
    with fake.serve_http(faults=plan) as endpoint:
        registry = Registry({"demo": {"url": endpoint.url}}, retry=MCPRetry(attempts=1))
        use_servers(app, registry)
        for task in (app.tasks[_polling.POLL], app.tasks[UPDATE]):
            monkeypatch.setattr(
                task,
                "apply_async",
                lambda args, *_, task=task, **told: sent.append((task, args, told.get("retries", 0))),
            )
        run(work)
        while (asked := question(app.AsyncResult("job-1"))) is None:
            run(*sent.pop())
        (key,) = asked
        answer(app.AsyncResult("job-1"), {key: {"action": "accept", "content": {"name": "Ada"}}})
        to_come[:], result = faults, None
        while result is None:
            result = run(*sent.pop())
        assert result["content"][0]["text"] == "hello"
        assert len(plan.met) == 1
        registry.close()


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Celery]:
    """Give an application whose results are where all processes see them."""
    made = Celery("unit", broker="memory://", backend=f"file://{tmp_path}", set_as_current=False)
    yield made
    made.close()


def asked(app: Celery, fake: FakeServer | None = None) -> dict[str, Any]:
    """Have a task ask, and return an answer."""

    @app.task(shared=False, base=MCPTask, bind=True, mcp_server="demo")
    def work(self: Any) -> str:
        return str(self.mcp.call_tool("greet").text)

    registry = served(app)
    fake = fake or FakeServer(tools=[greet])
    with registry.override({"demo": fake}), Worked(work) as task, pytest.raises(Ignore):
        task.run()
    registry.close()
    (key,) = question(app.AsyncResult("job-1")) or {}
    return {key: {"action": "accept", "content": {"name": "Ada"}}}


KINDS = ["memory", "database", "folder", "unknown"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where all results of this module are: Celery 5.3 makes its tables once in a process."""
    return tmp_path_factory.mktemp("results")


def backend_of(kind: str, folder: Path) -> str:
    """Return the address of a result backend."""
    return {
        "memory": "cache+memory://",
        "database": f"db+sqlite:///{folder}/results.sqlite",
        "folder": f"file://{folder}",
        "unknown": "cache+memory://",
    }[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_claimed_stays_with_its_owner(kind: str, folder: Path) -> None:
    app = Celery("unit", broker="memory://", backend=backend_of(kind, folder), set_as_current=False)
    told = [claim(app.backend, "name", owner) for owner in ("ada", "bob", None, "ada")]
    assert told == [True, False, False, True]
    give_up(app.backend, "name")
    assert [claim(app.backend, "name", owner) for owner in (None, "ada", None)] == [True, False, False]
    give_up(app.backend, "name")
    app.close()


@pytest.mark.parametrize("kind", KINDS)
def test_of_several_answers_at_once_one_counts(kind: str, folder: Path, monkeypatch: Any) -> None:
    backend = backend_of(kind, folder)

    def made() -> Celery:
        app = Celery("unit", broker="memory://", backend=backend, set_as_current=False)
        # SQLite has one writer at a time.
        app.conf.database_engine_options = {"connect_args": {"timeout": 30}}
        return app

    # Each has an application of its own, as another process would.
    apps, start, outcomes = [made() for _ in range(6)], threading.Barrier(6), []
    answers = asked(apps[0])
    for app in apps:
        served(app).close()
        app.finalize()
    meta_of = apps[0].backend.get_task_meta("job-1", cache=False)
    assert meta_of["status"] == "INPUT_REQUIRED"

    def give(app: Celery) -> None:
        backend = app.backend
        monkeypatch.setattr(backend, "get_task_meta", lambda *_, **__: meta_of)  # All have seen the question.
        start.wait(20)
        try:
            outcomes.append(answer(app.AsyncResult("job-1"), answers))
        except AlreadyAnswered as error:
            outcomes.append(error)

    threads = [threading.Thread(target=give, args=(app,)) for app in apps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    for app in apps:
        app.close()
    assert len(outcomes) == 6
    assert [str(each) for each in outcomes if each is not None] == [
        "the task job-1 has got another answer just now"
    ] * 5


def test_answers_that_are_refused_at_once_are_told_so_and_nothing_else(tmp_path: Path) -> None:
    made = [
        Celery("unit", broker="memory://", backend=f"file://{tmp_path}", set_as_current=False)
        for _ in range(6)
    ]
    start, told = threading.Barrier(len(made)), []

    def refuse(app: Celery) -> None:
        for number in range(300):
            start.wait(20)
            try:
                told.append(_questions._is_given_up(app.backend, f"question {number}"))
            except Exception as error:
                told.append(error)

    threads = [threading.Thread(target=refuse, args=(app,)) for app in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    for app in made:
        app.close()
    assert told == [False] * 1800


def test_an_answer_that_cannot_be_sent_leaves_the_question(app: Celery, monkeypatch: Any) -> None:
    answers = asked(app)
    result, sent = app.AsyncResult("job-1"), []

    def fail(*args: Any, **options: Any) -> None:
        raise OperationalError("the broker is down")

    with monkeypatch.context() as broken:
        broken.setattr(app.tasks[RESUME], "apply_async", fail)
        with pytest.raises(OperationalError):
            answer(result, answers)
    assert question(result) is not None
    monkeypatch.setattr(app.tasks[RESUME], "apply_async", lambda *args, **options: sent.append(options))
    answer(result, answers)
    assert [each["task_id"] for each in sent] == ["job-1"]
    with pytest.raises(AlreadyAnswered):
        answer(result, answers)


@pytest.mark.parametrize("state", ["INPUT_REQUIRED", "RESUMING"])
def test_who_was_killed_while_answering_makes_room_for_another_answer(
    shared: Celery, state: str, monkeypatch: Any
) -> None:
    app, fake = shared, FakeServer(tools=[greet])
    answers, now, sent = asked(app, fake), [0.0], []
    result = app.AsyncResult("job-1")
    meta = app.backend.get_task_meta("job-1", cache=False)["result"]
    name = f"mcp-sync-{meta['question']}"
    assert claim(app.backend, name)
    app.backend.store_result("job-1", meta, state)
    monkeypatch.setattr("mcp_sync.contrib.celery._questions._now", lambda: now[0])
    monkeypatch.setattr(app.tasks[RESUME], "apply_async", lambda args, **_: sent.append(args))
    for now[0] in (1.0, 60.0):
        with pytest.raises(AlreadyAnswered):
            answer(result, answers)
    assert sent == []
    now[0] = 62.0
    answer(result, answers)
    with pytest.raises(AlreadyAnswered):
        answer(result, answers)
    registry = served(app)
    with registry.override({"demo": fake}), Worked(app.tasks[RESUME]) as task:
        assert task.run(*sent[0])["content"][0]["text"] == "hello"
    registry.close()


# A broker hands out again also what no worker has begun: a worker may have been stopped with it.
@pytest.mark.parametrize("is_again", [False, True])
def test_an_answer_that_comes_to_a_worker_when_another_counts_goes_to_no_server(
    shared: Celery, is_again: bool, monkeypatch: Any
) -> None:
    app, fake, now, sent = shared, FakeServer(tools=[greet]), [0.0], []
    answers, result = asked(app, fake), app.AsyncResult("job-1")
    monkeypatch.setattr("mcp_sync.contrib.celery._questions._now", lambda: now[0])
    monkeypatch.setattr(app.tasks[RESUME], "apply_async", lambda args, **_: sent.append(args))
    answer(result, answers)
    with pytest.raises(AlreadyAnswered):
        answer(result, answers)
    now[0] = 61.0
    answer(result, answers)
    late, counts = sent
    registry = served(app)
    with registry.override({"demo": fake}):
        with Worked(app.tasks[RESUME], delivery_info={"redelivered": is_again}) as task:
            with pytest.raises(Ignore):
                task.run(*late)
            assert fake.count("tools/call") == 1
        with Worked(app.tasks[RESUME]) as task:
            assert task.run(*counts)["content"][0]["text"] == "hello"
    registry.close()


def test_an_answer_that_fails_late_leaves_the_one_that_counts_instead(
    shared: Celery, monkeypatch: Any
) -> None:
    app, now, sent = shared, [0.0], []
    answers, result = asked(app), app.AsyncResult("job-1")
    monkeypatch.setattr("mcp_sync.contrib.celery._questions._now", lambda: now[0])

    def fail_late(args: Any, **options: Any) -> None:
        monkeypatch.setattr(app.tasks[RESUME], "apply_async", lambda args, **_: sent.append(args))
        with pytest.raises(AlreadyAnswered):
            answer(result, answers)
        now[0] = 61.0
        answer(result, answers)
        raise OperationalError("the broker is down")

    monkeypatch.setattr(app.tasks[RESUME], "apply_async", fail_late)
    with pytest.raises(OperationalError):
        answer(result, answers)
    assert (len(sent), result.state) == (1, "RESUMING")
    with pytest.raises(AlreadyAnswered):
        answer(result, answers)


def test_an_answer_that_is_sent_after_all_and_the_next_one_are_not_both_gone_on_with(
    shared: Celery, monkeypatch: Any
) -> None:
    app, fake, sent = shared, FakeServer(tools=[greet]), []
    answers, result = asked(app, fake), app.AsyncResult("job-1")

    def send(args: Any, **options: Any) -> None:
        sent.append(args)
        if len(sent) == 1:
            raise OperationalError("the broker said nothing")

    monkeypatch.setattr(app.tasks[RESUME], "apply_async", send)
    with pytest.raises(OperationalError):
        answer(result, answers)
    answer(result, answers)
    registry = served(app)
    with registry.override({"demo": fake}):
        with Worked(app.tasks[RESUME]) as task:
            assert task.run(*sent[1])["content"][0]["text"] == "hello"
        with Worked(app.tasks[RESUME]) as task, pytest.raises(Ignore):
            task.run(*sent[0])
    registry.close()


def test_an_answer_that_a_worker_has_taken_up_is_not_replaced(shared: Celery, monkeypatch: Any) -> None:
    app, fake = shared, FakeServer(tools=[greet])
    answers, now, sent = asked(app, fake), [0.0], []
    result = app.AsyncResult("job-1")
    monkeypatch.setattr("mcp_sync.contrib.celery._questions._now", lambda: now[0])
    monkeypatch.setattr(app.tasks[RESUME], "apply_async", lambda args, **_: sent.append(args))
    answer(result, answers)
    registry = served(app)
    with registry.override({"demo": fake}):
        with Worked(app.tasks[RESUME]) as task:
            assert task.run(*sent[0])["content"][0]["text"] == "hello"
        for now[0] in (0.0, 1000.0):
            with pytest.raises(AlreadyAnswered):
                answer(result, answers)
        # The server was away, and the worker tries it once more.
        with Worked(app.tasks[RESUME], retries=1) as task:
            assert task.run(*sent[0])["content"][0]["text"] == "hello"
    registry.close()
    assert len(sent) == 1


def test_an_answer_to_what_was_not_asked_is_refused(app: Celery) -> None:
    served(app).close()
    asked = {"server": "demo", "user": None, "task": {}, "requests": {"k": {}}, "question": "q", "then": {}}
    app.backend.store_result("job-2", asked, "INPUT_REQUIRED")
    with pytest.raises(UsageError, match="the task job-2 has not asked: 'other'"):
        answer(app.AsyncResult("job-2"), {"k": {"action": "cancel"}, "other": {"action": "cancel"}})
    assert app.AsyncResult("job-2").state == "INPUT_REQUIRED"


def test_an_answer_that_will_not_do_is_refused_and_the_question_waits_on(
    app: Celery, monkeypatch: Any
) -> None:
    answers = asked(app)
    result = app.AsyncResult("job-1")
    (key,) = answers
    for wrong, told in (
        ({key: {"action": "accept", "content": {"name": 1}}}, "name: must be a text"),
        ({key: "Ada"}, "must be a ElicitResult or a dict"),
        ({}, "the task job-1 asks for more"),
        ({**answers, "other": {"action": "cancel"}}, "the task job-1 has not asked: 'other'"),
    ):
        with pytest.raises(UsageError, match=told):
            answer(result, wrong)
        assert question(result) is not None
    monkeypatch.setattr(app.tasks[RESUME], "apply_async", lambda *args, **options: None)
    answer(result, answers)
    assert question(result) is None


def test_a_server_that_names_no_interval_is_looked_at_ever_more_seldom(
    app: Celery, kitchen: Kitchen, monkeypatch: Any
) -> None:
    registry, seen = served(app), []
    kitchen.fake.poll_interval_ms = None
    with registry.override({"demo": kitchen.fake}):
        job, poll = begun(app, registry, kitchen), app.tasks[_polling.POLL]
        monkeypatch.setattr(
            poll, "apply_async", lambda args, countdown, **_: seen.append((countdown, args[0])), raising=False
        )
        for _ in range(30):
            with Worked(poll) as task, pytest.raises(Ignore):
                task.run(job)
            job = seen[-1][1]
    waits = [seconds for seconds, _ in seen]
    assert waits[0] < 0.4
    assert all(5 <= each <= 5.5 for each in waits[-10:])
    registry.close()


def test_a_question_whose_answer_was_lost_comes_back(app: Celery, monkeypatch: Any) -> None:
    @app.task(shared=False, base=MCPTask, bind=True, mcp_server="demo")
    def work(self: Any) -> Any:
        return self.run_tool("greet")

    registry, sent, lost = served(app), [], []
    with registry.override({"demo": FakeServer(tools=[FakeTool(greet, task=True)])}), Worked(work) as task:
        poll, update = app.tasks[_polling.POLL], app.tasks[UPDATE]
        monkeypatch.setattr(poll, "apply_async", lambda args, **_: sent.append(args), raising=False)
        monkeypatch.setattr(update, "apply_async", lambda args, **_: lost.append(args), raising=False)
        with pytest.raises(Ignore):
            task.run()
        while (asked := question(app.AsyncResult("job-1"))) is None:
            with Worked(poll), pytest.raises(Ignore):
                poll.run(*sent.pop())
        (key,) = asked
        answer(app.AsyncResult("job-1"), {key: {"action": "accept", "content": {"name": "Ada"}}})
        assert app.AsyncResult("job-1").state == "RESUMING"
        look_again(app.AsyncResult("job-1"))
        with Worked(poll), pytest.raises(Ignore):
            poll.run(*sent.pop())
        assert question(app.AsyncResult("job-1")) is not None
        with Worked(update), suppress(Ignore):
            update.run(*lost.pop())
    registry.close()


# The soft limit of the task may be over before its patience with the broker is.
@pytest.mark.parametrize("error", [OperationalError("the broker is away"), SoftTimeLimitExceeded()])
def test_a_look_that_cannot_be_sent_or_kept_is_made_by_the_next_one(
    error: Exception, app: Celery, kitchen: Kitchen, monkeypatch: Any
) -> None:
    registry, sent = served(app), []
    with registry.override({"demo": kitchen.fake}):
        job, poll = begun(app, registry, kitchen), app.tasks[_polling.POLL]

        def away(*args: Any, **options: Any) -> None:
            raise error

        monkeypatch.setattr(poll, "apply_async", away, raising=False)
        with Worked(poll) as task, pytest.raises(Reject) as rejected:
            task.run(job)
        assert rejected.value.requeue

        def unreadable(*args: Any, **options: Any) -> None:
            raise BackendGetMetaError("the backend is away", task_id="job-1")

        monkeypatch.setattr(poll, "apply_async", lambda args, **_: sent.append(args), raising=False)
        monkeypatch.setattr(app.backend, "get_task_meta", unreadable)
        with Worked(poll) as task, pytest.raises(Ignore):
            task.run(job)
        assert sent == [(job, 1)]
        with Worked(poll) as task, pytest.raises(BackendGetMetaError):
            task.run(job, 20)
    registry.close()

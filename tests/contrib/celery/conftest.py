"""Redis, a server of many tools, and workers."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable

import pytest

from mcp_sync.testing import FakeServer, FakeTool, FaultPlan, ToolContext

from ..listening import wait_for

PATIENCE = 60
ROOT = Path(__file__).parents[3]
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
HANGING: queue.Queue[threading.Event] = queue.Queue()  # which calls hang: set when one is cancelled


def echo(text: str) -> str:
    return text


def hang(context: ToolContext) -> str:
    HANGING.put(context.cancelled)
    context.cancelled.wait(30)
    return "cancelled" if context.cancelled.is_set() else "late"


def greet(context: ToolContext) -> str:
    return f"Hello, {context.elicit('Who are you?', FORM)['content']['name']}!"


def publish(context: ToolContext) -> str:
    """Ask while it runs as a task."""
    return f"By {context.elicit('Who are you?', FORM)['content']['name']}"


class Gate:
    """A tool that runs as a task until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.opened = threading.Event()
        self.calls = 0

    def __call__(self, context: ToolContext) -> str:
        self.calls += 1
        self.begun.set()
        context.status("at work")
        self.opened.wait(50)
        return "built"


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


@pytest.fixture
def fake(gate: Gate) -> FakeServer:
    def build(context: ToolContext) -> str:
        return gate(context)

    def report(context: ToolContext) -> str:
        context.progress(1, 2, "step 1")
        gate.opened.wait(50)
        return "reported"

    tasks = [FakeTool(build, task=True), FakeTool(publish, task=True)]
    return FakeServer(tools=[echo, hang, report, greet, *tasks], poll_interval_ms=200)


class RedisServer:
    """A Redis that keeps what it has when it is killed. It listens at a socket, and at no port."""

    def __init__(self, folder: str) -> None:
        self.socket = f"{folder}/socket"
        self._folder = folder

    def start(self) -> None:
        options = ["--port", "0", "--unixsocket", self.socket, "--dir", self._folder]
        kept = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        self._process = subprocess.Popen(["redis-server", *options, *kept], stdout=subprocess.DEVNULL)
        wait_for(self.socket, self._process)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(20)


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    if shutil.which("redis-server") is None:
        pytest.fail("these tests need redis-server: apt-get install redis-server")
    # The path of a socket has to be short.
    with tempfile.TemporaryDirectory(prefix="mcp-sync-redis-") as folder:
        made = RedisServer(folder)
        made.start()
        yield made
        made.kill()


class Worker:
    """A running worker, and what it has said."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, words: str, seconds: float = 50) -> None:
        until = time.monotonic() + seconds
        while words not in self.output:
            assert self.process.poll() is None, self.output
            assert time.monotonic() < until, self.output
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it and its children at once, as a machine that loses its power would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(20)


def environment(url: str, redis: str) -> dict[str, str]:
    told = {"MCP_URL": url, "REDIS_SOCKET": redis, "PYTHONWARNINGS": "ignore"}
    return {**os.environ, **told, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}


class Sent:
    """A task that was sent."""

    def __init__(self, sender: Sender, id: str) -> None:
        self.id = id
        self._sender = sender

    def look(self) -> dict[str, Any]:
        return dict(self._sender.ask("look", self.id))

    def until(self, *states: str) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while True:
            found = self.look()
            if found["state"] in states:
                return found
            assert found["state"] not in ("FAILURE", "SUCCESS"), found
            assert time.monotonic() < end, found
            time.sleep(0.05)

    @property
    def result(self) -> Any:
        return self.until("SUCCESS")["info"]

    def answer(self, answers: dict[str, Any]) -> None:
        self._sender.ask("answer", self.id, answers)


class Sender:
    """The process that sends tasks."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, *command: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(command), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        assert "is" in answer, answer
        return answer["is"]

    def chain(self, *tools: str, queue: str = "celery") -> list[Sent]:
        """Send tasks that take long, at the same time, and what comes after them; return that first."""
        return [Sent(self, id) for id in self.ask("chain", tools, queue)]

    def send(self, task: str, *arguments: Any) -> Sent:
        return Sent(self, self.ask("send", task, arguments))


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Iterator[FaultPlan]:
    """Have messages to the server meet faults: by method, as the parameter says."""
    made = FaultPlan(getattr(request, "param", {}))
    yield made
    made.release()


@pytest.fixture
def results(request: pytest.FixtureRequest) -> str:
    """What results are serialised with."""
    return str(getattr(request, "param", "json"))


@pytest.fixture
def told(
    fake: FakeServer, faults: FaultPlan, redis_server: RedisServer, results: str
) -> Iterator[dict[str, str]]:
    with fake.serve_http(faults=faults) as endpoint:
        yield {**environment(endpoint.url, redis_server.socket), "RESULTS": results}


@pytest.fixture
def sender(told: dict[str, str]) -> Iterator[Sender]:
    command = [sys.executable, "-m", "contrib.celery.sender"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=told, encoding="utf-8", **pipes) as process:
        yield Sender(process)
        process.kill()


@pytest.fixture
def worker(told: dict[str, str], tmp_path: Path) -> Callable[..., Any]:
    """Start workers with certain options."""
    started: list[Worker] = []

    @contextmanager
    def start(*options: str) -> Iterator[Worker]:
        log = tmp_path / f"worker-{len(started)}.log"
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "INFO"]
        name = ["-n", f"w{len(started)}@%h"]
        command = [sys.executable, "-m", "celery", "-A", "contrib.celery.jobs", "worker"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, *quiet, *name, *options],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=told,
                start_new_session=True,
            )
        running = Worker(process, log)
        started.append(running)
        try:
            running.wait_for("ready.")
            yield running
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    running.kill()

    return start

"""Servers to be started, and an engine that only keeps account, for the tests of the stdio channel."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable, Optional

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._concurrency.pending import PendingCall
from mcp_sync.errors import MCPError
from mcp_sync.options import Limits, Retry, Timeouts
from mcp_sync.transports._base import Frame, Settings
from mcp_sync.transports._stdio.channel import StdioChannel
from mcp_sync.transports._stdio.target import Stdio

PATIENCE = 10.0
# What a busy machine may add to any time: less than what any wait here would take that keeps to no bound.
SLACK = 4.0

# What every server below has at hand. No site packages: it has to start quickly.
PRELUDE = """
import json, os, signal, subprocess, sys, time
stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
def raw(data):
    stdout.write(data)
    stdout.flush()
def receive():
    line = stdin.readline()
    return json.loads(line) if line else None
def answer(message, result=None):
    raw(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result or {}}).encode() + b"\\n")
def note(method, /, **params):
    raw(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\\n")
def serve():
    while True:
        message = receive()
        if message is None:
            break
        if "id" in message and "method" in message:
            answer(message, message.get("params"))
"""


def script(code: str) -> list[str]:
    """Return a command that runs ``code`` as a server."""
    return [sys.executable, "-S", "-c", PRELUDE + textwrap.dedent(code)]


class Recorder:
    """An `Inbound` that keeps what it gets, and settles the calls that it knows."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.reports: list[Exception] = []
        self.losses: list[MCPError] = []
        self.threads: list[str] = []
        self.calls: dict[int, PendingCall] = {}
        self.fault: Optional[BaseException] = None

    def receive(self, message: Any, call: Optional[PendingCall] = None) -> None:
        fault = self.fault
        # What a signal handler raises, it raises on the main thread.
        if isinstance(fault, Exception) or (fault and threading.current_thread() is threading.main_thread()):
            self.fault = None
            raise fault
        self.threads.append(threading.current_thread().name)
        self.messages.append(message)
        if isinstance(message, dict) and "method" not in message:
            waiting = self.calls.pop(message.get("id"), None)
            if waiting is not None:
                waiting.settle(message)

    def lost(self, error: MCPError) -> None:
        self.losses.append(error)
        while self.calls:
            self.calls.popitem()[1].fail(error)

    def report(self, error: Exception) -> None:
        self.reports.append(error)

    def wait(self, condition: Callable[[], Any], seconds: float = PATIENCE) -> None:
        assert poll(condition, seconds), vars(self)

    def loss(self, seconds: float = PATIENCE) -> MCPError:
        self.wait(lambda: self.losses, seconds)
        return self.losses[0]

    @property
    def notes(self) -> list[str]:
        return [message["method"] for message in self.messages if "method" in message]


class Running:
    """A started channel with its recorder."""

    def __init__(self, channel: StdioChannel, inbound: Recorder) -> None:
        self.channel = channel
        self.inbound = inbound
        self.ids = iter(range(1, 10**9))

    @property
    def pid(self) -> int:
        assert self.channel._server is not None
        return self.channel._server.process.pid

    def begin(self, method: str, params: Any = None, timeout: Optional[float] = PATIENCE) -> PendingCall:
        """Send a request; return the call to wait for."""
        number = next(self.ids)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        frame = Frame(json.dumps(message).encode(), method)
        call = self.inbound.calls[number] = PendingCall(number, method, Deadline(timeout))
        self.channel.request(frame, call)
        return call

    def call(self, method: str, params: Any = None, timeout: Optional[float] = PATIENCE) -> Any:
        """Send a request; return its result or raise its error."""
        call = self.begin(method, params, timeout)
        assert call.wait(), f"no answer to {method}"
        return call.result()["result"]

    def notify(self, method: str, timeout: float = PATIENCE) -> None:
        message = {"jsonrpc": "2.0", "method": method}
        self.channel.send(Frame(json.dumps(message).encode(), method), Deadline(timeout))


def settings(limits: Optional[Limits] = None, close: float = 5) -> Settings:
    return Settings("test", Timeouts(close=close), limits or Limits(), Retry())


@contextmanager
def running(
    code: str, limits: Optional[Limits] = None, close: float = 5, command: Any = None, **options: Any
) -> Iterator[Running]:
    """Start ``code`` as a server (or ``command``); close the channel in the end."""
    program, *args = command or script(code)
    channel = Stdio(program, args, **options).channel(settings(limits, close))
    inbound = Recorder()
    channel.start(inbound, Deadline(PATIENCE))
    try:
        yield Running(channel, inbound)
    finally:
        channel.close(Deadline(close))


def poll(condition: Callable[[], Any], seconds: float = PATIENCE) -> bool:
    """Look again and again until something is so."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def lives(pid: int) -> bool:
    """Whether a process runs; one that nobody has buried does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # The second: gone between opening and reading.
        if os.path.isdir("/proc/self"):
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_gone(pid: int, seconds: float = PATIENCE) -> bool:
    return poll(lambda: not lives(pid), seconds)

"""A client with every callback set, what its callbacks have seen, and the servers it talks to."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from mcp_sync import CancelToken, Client, RemoteError, transports, types

WAIT = 20
MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
ROOT = "file:///srv/project"


@dataclass(frozen=True)
class Endpoint:
    """One cell of the matrix: whose server, over what, and in which era."""

    maker: str
    transport: str
    mode: str
    version: str

    def __str__(self) -> str:
        return f"{self.maker}-{self.transport}-{self.mode}"

    @property
    def modern(self) -> bool:
        """Whether the era is the stateless one."""
        return self.version == MODERN

    @property
    def listens(self) -> bool:
        """Whether the server tells this endpoint's clients of changed resources."""
        return self.maker == "sdk1" or (self.maker == "sdk2" and self.modern)

    def parameter(self) -> Any:
        """Make a parameter of a test of this endpoint."""
        marks = [pytest.mark.needs("legacy SSE")] if self.transport == "sse" else []
        return pytest.param(self, id=str(self), marks=marks)


class HttpServer:
    """A server process that listens on a local port; its output is drained, its end is by process id."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    @classmethod
    def printing_its_port(cls, command: Sequence[str]) -> HttpServer:
        """Start a server that binds a free port and prints its number as the first line."""
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"the server ended with {process.wait(WAIT)}: {command}"
        cls._drain(process.stdout)
        return cls(process, int(line))

    @classmethod
    def told_its_port(cls, command: Sequence[str], ready: str) -> HttpServer:
        """Start a server that takes its port from `PORT`; wait until it says `ready` on stderr."""
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PORT": str(port)},
        )
        assert process.stderr is not None
        seen = []
        for line in process.stderr:
            seen.append(line)
            if ready in line:
                break
        else:
            raise AssertionError(f"the server ended with {process.wait(WAIT)}: {''.join(seen)}")
        cls._drain(process.stderr)
        return cls(process, port)

    @staticmethod
    def _drain(stream: Any) -> None:
        def drain() -> None:
            with stream:
                for _ in stream:
                    pass

        threading.Thread(target=drain, daemon=True, name="server-output").start()

    def url(self, path: str = "/mcp") -> str:
        """Return the server's address."""
        return f"http://127.0.0.1:{self.port}{path}"

    def end(self) -> None:
        """Terminate the process and wait for it; kill it when it does not go."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)


class Harness:
    """A client to one endpoint, with callbacks that answer and record."""

    def __init__(self, endpoint: Endpoint, target: Any, server: HttpServer | None = None) -> None:
        self.endpoint = endpoint
        self.target = target
        self.server = server
        self.reset()
        self.client = Client(
            target,
            mode=endpoint.mode,
            sampling_callback=self._sample,
            elicitation_callback=self._elicit,
            list_roots_callback=self._roots,
            logging_callback=self._log,
            message_handler=self._message,
            log_level="debug" if endpoint.modern else None,
        )

    @classmethod
    def over_stdio(cls, endpoint: Endpoint, command: Sequence[str]) -> Harness:
        """Make a harness that starts the server itself."""
        return cls(endpoint, transports.Stdio(command[0], tuple(command[1:])))

    @classmethod
    def over_http(cls, endpoint: Endpoint, server: HttpServer) -> Harness:
        """Make a harness for a running server."""
        if endpoint.transport == "sse":
            return cls(endpoint, transports.LegacySSE(server.url("/sse")), server)
        if endpoint.transport == "websocket":
            return cls(endpoint, transports.WebSocket(server.url("/ws").replace("http", "ws", 1)), server)
        return cls(endpoint, transports.StreamableHTTP(server.url()), server)

    def reset(self) -> None:
        """Forget what was recorded and restore the usual answers."""
        self.logs: queue.Queue[types.LoggingMessageNotificationParams] = queue.Queue()
        self.messages: queue.Queue[Any] = queue.Queue()
        self.roots_asked = threading.Event()
        self.roots = [ROOT]
        self.elicitations: list[Any] = []
        self.elicit_answer: tuple[str, dict[str, Any] | None] = ("accept", {"name": "Zoë"})

    def another_client(self, **options: Any) -> Client:
        """Make a plain client of its own to the same endpoint."""
        return Client(self.target, **{"mode": self.endpoint.mode, **options})

    def _sample(self, context: Any, params: Any) -> types.CreateMessageResult:
        asked = params.messages[0].content.text
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(type="text", text=f"you said {asked}"), model="tester"
        )

    def _elicit(self, context: Any, params: Any) -> types.ElicitResult:
        self.elicitations.append(params)
        action, content = self.elicit_answer
        return types.ElicitResult(action=action, content=content)

    def _roots(self, context: Any) -> types.ListRootsResult:
        self.roots_asked.set()
        return types.ListRootsResult(roots=[types.Root(uri=uri) for uri in self.roots])

    def _log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.put(params)

    def _message(self, message: Any) -> None:
        self.messages.put(message)

    def next_message(self, kind: type) -> Any:
        """Return the next message of a kind that came to `message_handler`; wait for it within bounds."""
        while True:
            message = self.messages.get(timeout=WAIT)
            if isinstance(message, kind):
                return message


class Background:
    """A call on a thread of its own, whose outcome the test looks at afterwards."""

    def __init__(self, call: Any, *args: Any, **options: Any) -> None:
        self.result: Any = None
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(call, args, options), daemon=True)
        self._thread.start()

    def _run(self, call: Any, args: Any, options: Any) -> None:
        try:
            self.result = call(*args, **options)
        except BaseException as failure:
            self.failure = failure

    def wait(self) -> BaseException | None:
        """Wait for the call's end within bounds; return what it raised."""
        self._thread.join(WAIT)
        assert not self._thread.is_alive(), "the call did not end"
        return self.failure


@contextmanager
def running_call(
    client: Client, name: str, arguments: dict[str, Any]
) -> Iterator[tuple[Background, CancelToken]]:
    """Start a call that reports progress when it runs; enter the block once it does."""
    started, token = threading.Event(), CancelToken()
    call = Background(
        client.call_tool, name, arguments, cancel=token, progress_callback=lambda *_: started.set()
    )
    try:
        assert started.wait(WAIT), f"{name} did not start: {call.failure!r}"
        yield call, token
    finally:
        token.cancel("the test is over")
        call.wait()


def is_refused(client: Client, name: str, arguments: dict[str, Any]) -> bool:
    """Say whether a call with wrong arguments was refused, by an error result or as invalid parameters."""
    try:
        return client.call_tool(name, arguments).is_error
    except RemoteError as error:
        return error.code == types.INVALID_PARAMS

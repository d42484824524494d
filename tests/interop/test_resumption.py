"""Calls whose connection is cut, on a server of another maker that keeps its events."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import Client, Retry

from .harness import HANDSHAKE, WAIT, HttpServer
from .install import venv_python

SERVER = Path(__file__).parent / "servers" / "sdk1events_server.py"
STEPS = 8
pytestmark = pytest.mark.interop


class Line:
    """Passes connections on to a server, and cuts them."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/mcp"
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Line:
        self._threads[0].start()
        return self

    def __exit__(self, *error: object) -> None:
        _shut(self._listener)
        self.cut()
        for thread in self._threads:
            thread.join(WAIT)
        self._listener.close()

    def cut(self) -> None:
        """Cut all connections that stand."""
        while self._sockets:
            _shut(self._sockets.pop())

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._pass_on, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._server)) as server:
            peers = {client: server, server: client}
            self._sockets += peers
            with contextlib.suppress(OSError):
                while True:
                    for sock in select.select(list(peers), [], [])[0]:
                        data = sock.recv(65536)
                        if not data:
                            return
                        peers[sock].sendall(data)


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Start the server."""
    server = HttpServer.printing_its_port([str(venv_python("sdk1")), "-W", "ignore", str(SERVER), "http"])
    yield server.port
    server.end()


@pytest.mark.parametrize("cuts", [{2}, {2, 5}, {1, 2, 3}], ids=lambda cuts: f"cuts-{len(cuts)}")
def test_a_call_goes_on_across_cuts_and_the_tool_runs_once(port: int, cuts: set[int]) -> None:
    steps: list[float] = []

    def progress(amount: float, *_: Any) -> None:
        steps.append(amount)
        if amount in cuts:
            line.cut()

    with Line(port) as line, Client(line.url, retry=Retry(backoff=0.05)) as client:
        assert client.protocol_version == HANDSHAKE
        arguments = {"key": uuid.uuid4().hex, "steps": STEPS}
        result = client.call_tool("count", arguments, progress_callback=progress, timeout=WAIT)
    assert result.text == "ran 1 time(s)"
    assert steps == list(range(1, STEPS + 1))

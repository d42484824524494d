"""What the servers on the official Python SDKs share: the data they serve, and how they are run."""

from __future__ import annotations

import base64
import socket
import sys
from collections.abc import Callable
from typing import Any

import anyio
import uvicorn

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
BLOB = bytes(range(256))
NAMES = ["Albert", "Alice", "Bob", "Zoë"]
WAIT = 20


class Cancellations:
    """Which calls of the tool `hang` were cancelled; `wait` lets a test ask without polling."""

    def __init__(self) -> None:
        self._events: dict[str, anyio.Event] = {}

    def _event(self, key: str) -> anyio.Event:
        return self._events.setdefault(key, anyio.Event())

    async def hang(self, key: str) -> None:
        """Wait for the cancellation that must come, and record it."""
        try:
            with anyio.fail_after(WAIT):
                await anyio.Event().wait()
        except anyio.get_cancelled_exc_class():
            self._event(key).set()
            raise

    async def wait(self, key: str) -> bool:
        """Say whether the call named by `key` was cancelled, waiting for it within bounds."""
        with anyio.move_on_after(WAIT):
            await self._event(key).wait()
            return True
        return False


def run(stdio: Callable[[], Any], app: Callable[[], Any]) -> None:
    """Serve as the command line says: `stdio`, or `http` on a free port, which is printed."""
    if sys.argv[1:] == ["stdio"]:
        anyio.run(stdio)
        return
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app(), log_level="warning", lifespan="on", ws="auto", timeout_graceful_shutdown=2)
    uvicorn.Server(config).run(sockets=[listener])

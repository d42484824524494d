"""The servers of the run: one lane for each transport and era, with the faults that it can meet."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mcp_sync.testing import FakeServer, Fault, FaultPlan, ToolContext

STALL = 0.4
OPENING = ("initialize", "server/discover", "notifications/initialized")

_STEPS = ("request", "answer", "head", "result", "body", "end")
_CUT = (*(Fault.drop(at) for at in _STEPS), *(Fault.reset(at) for at in _STEPS))
_SLOW = (
    *(Fault.stall(at, seconds=STALL) for at in ("request", "result", "body")),
    *(Fault.drip(at) for at in ("answer", "head", "result", "body")),
)
_MESSAGE = (Fault.garbage(), Fault.noise(), Fault.truncate(), Fault.no_result(), Fault.duplicate())
_STATUS = (
    Fault.http(429, {"Retry-After": "0"}),
    Fault.http(429, {"Retry-After": "3600"}),
    Fault.http(503),
    Fault.http(503, {"Retry-After": "0"}),
    Fault.http(503, at="answer"),
    Fault.http(500),
    Fault.http(502, at="answer"),
    Fault.http(404),
    Fault.http(401),
    Fault.redirect("http://127.0.0.1:9/mcp"),
    Fault.redirect("/elsewhere", 302),
)
HTTP = (*_CUT, *_SLOW, *_MESSAGE, *_STATUS, Fault.garbage("answer"), Fault.no_answer())
# No answer will come under a wrong id: the call has to wait for its time to be up.
SILENT = (Fault.wrong_id(),)
# On one channel for all calls each of these costs the calls of all threads, and the process a new start.
SHARED = (*_MESSAGE, *_MESSAGE, Fault.stall("request", 0.1), Fault.stall("body", 0.1), Fault.drip())
ENDS = (*(Fault.drop(at) for at in ("request", "body", "end")), Fault.reset("body"))
PROCESS = (Fault.exit(3), Fault.kill(), Fault.kill("body"), Fault.mute(), Fault.exit(2, "request"))


class Tally:
    """What ran, by the nonces of the calls."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "ran"
        # Guards the count of those that ran in this process.
        self._lock = threading.Lock()
        self._ran: Counter[str] = Counter()

    def note(self, nonce: str) -> None:
        """Note that the tool ran."""
        with self._lock:
            self._ran[nonce] += 1

    def ran(self) -> Counter[str]:
        """Return how often it ran for each call, here and in other processes."""
        lines = self.file.read_text().split() if self.file.exists() else []
        with self._lock:
            return self._ran + Counter(line for line in lines if not line.startswith("start"))


class Lane(NamedTuple):
    """A way to a server.

    Attributes:
        serve: The method of `FakeServer` that serves it, ``"serve_stdio"`` for a process.
        target: The name of its target in `mcp_sync.transports`.
        versions: What the server speaks.
        faults: What may happen to a call.
        rate: To how many of them.
        options: More for ``serve``.
        share: Its share of the calls.
    """

    serve: str
    target: str
    versions: str
    faults: tuple[Fault, ...]
    rate: float
    options: dict[str, Any] = {}
    share: int = 4

    def plan(self, seed: str, kind: type[FaultPlan] = FaultPlan) -> FaultPlan:
        """Make the plan of a run."""
        rates = {"tools/call": self.rate, **dict.fromkeys((*OPENING, "GET"), self.rate / 2)}
        return kind.seeded(seed, self.faults, rates)


LANES = {
    "http-modern-json": Lane("serve_http", "StreamableHTTP", "modern", HTTP + SILENT, 0.9),
    "http-modern-sse": Lane("serve_http", "StreamableHTTP", "modern", HTTP, 0.9, {"answers": "sse"}),
    "http-legacy-json": Lane("serve_http", "StreamableHTTP", "legacy", HTTP, 0.9),
    "http-legacy-sse": Lane("serve_http", "StreamableHTTP", "legacy", HTTP, 0.9, {"answers": "sse"}),
    "http-legacy-resumed": Lane(
        "serve_http", "StreamableHTTP", "legacy", HTTP, 0.9, {"answers": "sse", "event_ids": True}
    ),
    "http-old": Lane("serve_http", "StreamableHTTP", "2025-03-26", HTTP, 0.9, {"sessions": False}, 2),
    "stdio-modern": Lane("serve_stdio", "Stdio", "modern", SHARED * 4 + PROCESS, 0.3, {}, 2),
    "stdio-legacy": Lane("serve_stdio", "Stdio", "legacy", SHARED * 4 + PROCESS, 0.3, {}, 2),
    "websocket": Lane("serve_websocket", "WebSocket", "all", SHARED + ENDS, 0.3, {}, 2),
    "sse": Lane("serve_sse", "LegacySSE", "2024-11-05", SHARED + ENDS, 0.3, {}, 2),
}


def make_server(lane: Lane, note: Any) -> FakeServer:
    """Make the server of a lane; ``note`` is called with the nonce of each call that runs."""

    def work(context: ToolContext, nonce: str) -> str:
        note(nonce)
        context.progress(1, 2)
        return f"did {nonce}"

    return FakeServer(tools=[work], versions=lane.versions)


@contextmanager
def served(name: str, seed: str, tally: Tally) -> Iterator[Any]:
    """Serve a lane; yields what leads to it, and what ends the faults."""
    from mcp_sync import transports

    lane = LANES[name]
    make_target = getattr(transports, lane.target)
    if lane.serve == "serve_stdio":
        calm = tally.file.with_suffix(".calm")
        command = [sys.executable, "-m", "tests.faults.child", name, seed, str(tally.file), str(calm)]
        yield make_target(command[0], command[1:]), calm.touch
        return
    server = make_server(lane, tally.note)
    with getattr(server, lane.serve)(faults=lane.plan(seed), **lane.options) as endpoint:
        yield make_target(endpoint.url), lambda: setattr(endpoint, "faults", None)

"""The example scripts run, each as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mcp_sync.cli import demo_server

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def run(script: str, *words: str, **environment: str) -> str:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / script), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
        encoding="utf-8",
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_every_example_is_run_here() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")

    for script in EXAMPLES.glob("*.py"):
        assert f'run("{script.name}"' in tested


def test_stdio_progress() -> None:
    assert run("stdio_progress.py") == (
        "Tools: add, countdown, greet, fail\n"
        " 25% 3 to go\n"
        " 50% 2 to go\n"
        " 75% 1 to go\n"
        "100% 0 to go\n"
        "liftoff\n"
    )


def test_http_headers_and_timeouts() -> None:
    with demo_server.build().serve_http() as endpoint:
        out = run("http_headers_and_timeouts.py", endpoint.url, MCP_TOKEN="a-token")
        requests = endpoint.requests

    assert out == "Speaking 2026-07-28\nSum: 5\nToo slow; could the server have acted? True\n"
    assert {request.headers["authorization"] for request in requests} == {"Bearer a-token"}
    assert [request.headers["x-request-id"] for request in requests if "x-request-id" in request.headers] == [
        "example"
    ]


def test_many_threads() -> None:
    with demo_server.build().serve_http() as endpoint:
        out = run("many_threads.py", endpoint.url)

    assert out == "200 calls, each thread got its own answers\nThreads that are left: 1\n"


def test_answering_the_server() -> None:
    assert run("answering_the_server.py") == (
        "The server asks: What shall the poem be about?\n"
        "The server wants a text: A poem of one line about tides\n"
        "The poem: The sea comes and goes.\n"
    )


def test_cancelling() -> None:
    expected = "step 1\nstep 2\ncancelled: two steps are enough\n"
    assert run("cancelling.py").startswith(expected)

    server = demo_server.build()
    with server.serve_http() as endpoint:
        assert run("cancelling.py", endpoint.url).startswith(expected)

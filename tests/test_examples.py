"""The example scripts run, each as a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

from auth.oauth_server import OAuthServer

from mcp_sync.cli import demo_server
from mcp_sync.testing import FakeTool, ToolContext

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


# Stands in for the browser of a user who agrees to everything.
VISITOR = f"{sys.executable} -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1]).read()' %s"


def command(script: str, *words: str) -> list[str]:
    return [sys.executable, "-W", "error", str(EXAMPLES / script), *words]


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, **more}


def run(script: str, *words: str, **more: str) -> str:
    done = subprocess.run(
        command(script, *words),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(**more),
        encoding="utf-8",
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_every_example_is_run_here() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")

    for script in EXAMPLES.glob("*.py"):
        assert f'run("{script.name}"' in tested or f'running("{script.name}"' in tested


@contextmanager
def running(script: str, *words: str) -> Iterator[str]:
    """Have a script run that serves until it is ended; gives its first line."""
    with subprocess.Popen(
        command(script, *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline()
        finally:
            process.kill()


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


def test_watching() -> None:
    server = demo_server.build()
    server.add_resource("demo://note", lambda: "a note")

    def change() -> None:
        server.wait_for_subscriptions()
        server.resource_updated("demo://note")
        server.tools_changed()
        server.end_subscriptions()

    with server.serve_http() as endpoint:
        changing = threading.Thread(target=change)
        changing.start()
        out = run("watching.py", endpoint.url, "demo://note")
        changing.join()

    tools = "add, countdown, greet, fail"
    assert out == f"Watching {tools}\na note\nTools: {tools}\nThe end: graceful\n"


def test_keeping_answers(tmp_path: Path) -> None:
    server = demo_server.build()
    server.ttl_ms = 60_000
    with server.serve_http() as endpoint:
        outs = [run("keeping_answers.py", endpoint.url, str(tmp_path / "answers.sqlite")) for _ in range(2)]

    tools = "Tools: add, countdown, greet, fail\n"
    assert outs == [f"{tools}Asked the server.\n", f"{tools}Did not ask the server.\n"]


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


def test_waiting_for_input(tmp_path: Path) -> None:
    path = str(tmp_path / "waiting.json")
    script = "waiting_for_input.py"
    with demo_server.build().serve_http() as endpoint:
        asked = run("waiting_for_input.py", "ask", endpoint.url, path)
        assert asked == "The server asks: What is your name?\n  name: Your name (string, needed)\n"
        assert run(script, "answer", endpoint.url, path) == "name: an answer is needed\n"
        answer = ("answer", endpoint.url, path, "name=Ada")
        assert "the key is another one" in run(script, *answer, WAITING_KEY="x")
        assert run(script, *answer) == "Hello, Ada!\n"


def test_cancelling() -> None:
    expected = "step 1\nstep 2\ncancelled: two steps are enough\n"
    assert run("cancelling.py").startswith(expected)

    server = demo_server.build()
    with server.serve_http() as endpoint:
        assert run("cancelling.py", endpoint.url).startswith(expected)


def test_futures() -> None:
    steps = "1 of 3: 2 to go\n2 of 3: 1 to go\n3 of 3: 0 to go\n"
    expected = f"sum of all: 90\nquick first: True\ncancelled: True\n{steps}liftoff\n"
    assert run("futures.py") == expected

    with demo_server.build().serve_http() as endpoint:
        assert run("futures.py", endpoint.url) == expected


def test_users() -> None:
    with OAuthServer() as server, demo_server.build().serve_http(intercept=server.protect) as endpoint:
        tokens = [f"token-{number}" for number in range(5)]
        server.tokens.update(dict.fromkeys(tokens, ""))
        out = run("users.py", endpoint.url, *tokens)

    assert out == "".join(f'user {n}: {{"sum": {n + 1}}}\n' for n in range(5))


def test_observing() -> None:
    expected = "mcp_sync.server.demo DEBUG step 1\ncalls: 2\n"
    spans = "tools/call countdown 2026-07-28 fine\ntools/call fail 2026-07-28 tool_error\n"
    with demo_server.build().serve_http() as endpoint:
        for url in ((), (endpoint.url,)):
            assert run("observing.py", *url) == f"{expected}{spans}lines of the wire: 2\n"


def test_oauth_browser(tmp_path: Path) -> None:
    folder = str(tmp_path / "grants")
    with OAuthServer() as server, demo_server.build().serve_http(intercept=server.protect) as endpoint:
        tools = "Tools: add, countdown, greet, fail\n"
        for before in ("none", "valid"):
            out = run("oauth_browser.py", endpoint.url, folder, BROWSER=VISITOR)
            assert out == f"Before: {before}\n{tools}After: valid\n"
        assert run("oauth_browser.py", endpoint.url, folder, "--logout") == "Revoked: True\n"
    assert server.asked["authorize"] == 1


def test_oauth_service() -> None:
    with OAuthServer() as server, demo_server.build().serve_http(intercept=server.protect) as endpoint:
        server.clients["service"] = "s3cret"
        server.resource_metadata = {"scopes_supported": ["tools"]}
        out = run("oauth_service.py", endpoint.url, MCP_CLIENT_ID="service", MCP_CLIENT_SECRET="s3cret")
    assert out == "Sum: 90\nScope: tools\n"
    assert server.asked["client_credentials"] == 1


def test_grant_store() -> None:
    with OAuthServer() as server, demo_server.build().serve_http(intercept=server.protect) as endpoint:
        server.clients["service"] = "s3cret"
        out = run("grant_store.py", endpoint.url, MCP_CLIENT_ID="service", MCP_CLIENT_SECRET="s3cret")
    assert out == '{"sum": 5}\n' * 2
    assert server.asked["client_credentials"] == 1


def test_oauth_web() -> None:
    with (
        OAuthServer() as server,
        demo_server.build().serve_http(intercept=server.protect) as endpoint,
        running("oauth_web.py", endpoint.url, "0") as line,
    ):
        url = line.split()[-1]
        for user in ("ada", "bob"):
            browser = build_opener(HTTPCookieProcessor())
            with browser.open(url.replace("ada", user), timeout=30) as page:
                assert page.read().decode() == f"Tools for {user}: add, countdown, greet, fail\n"
    assert server.asked["authorize"] == 2
    assert server.asked["register"] == 1


def test_task_in_two_processes(tmp_path: Path) -> None:
    first_has_ended = threading.Event()

    def report(context: ToolContext, month: str) -> str:
        """Write the report of a month."""
        context.status("adding up")
        return f"The report of {month}" if first_has_ended.wait(50) else "Nobody came"

    server, kept = demo_server.build(), tmp_path / "task.json"
    server.add_tool(FakeTool(report, task=True))
    with server.serve_http() as endpoint:
        assert run("task_in_two_processes.py", endpoint.url, "begin", str(kept), "report", "month=June") == (
            "Begun: report\n"
        )
        first_has_ended.set()
        out = run("task_in_two_processes.py", endpoint.url, "finish", str(kept))
    assert out.splitlines()[-1] == "Finished: The report of June"


def test_skills(tmp_path: Path) -> None:
    server = demo_server.build()
    uri = server.add_skill("acme/refunds", description="By the rules", files={"mail.md": "Dear"})
    folder = tmp_path / "refunds"
    with server.serve_http() as endpoint:
        listed = run("skills.py", endpoint.url)
        written = run("skills.py", endpoint.url, "acme/refunds", str(folder))
    assert listed.startswith(f"{uri} (2 files, ")
    assert listed.endswith(" bytes): By the rules\n")
    assert written.startswith(f"Written: {folder}\nFingerprint: sha256:")
    assert (folder / "mail.md").read_text() == "Dear"


def test_app_page() -> None:
    server = demo_server.build()
    server.add_app("ui://board", "<!DOCTYPE html><p>Weather", permissions={"camera": {}})
    with (
        server.serve_http() as endpoint,
        running("app_page.py", endpoint.url, "ui://board", "0") as line,
    ):
        assert line.startswith("It asks for (), ('camera',). Open http://127.0.0.1:")
        opener = build_opener()
        with opener.open(line.split()[-1], timeout=30) as page:
            [inner] = re.findall('src="(.*?)" sandbox="allow-scripts allow-forms"', page.read().decode())
            assert page.headers["Content-Security-Policy"] == f"frame-src {inner.rstrip('/')}"
        with opener.open(inner, timeout=30) as page:
            assert page.read().decode() == "<!DOCTYPE html><p>Weather"
            policy = page.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert f"frame-ancestors {line.split()[-1].rstrip('/')}; sandbox" in policy

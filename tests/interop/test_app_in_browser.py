"""The page of an app in a real browser: it can do what it asked for, and no more."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from mcp_sync import Client, InMemory
from mcp_sync.apps import Apps
from mcp_sync.testing import FakeServer

from .harness import WAIT
from .install import chromium

pytestmark = pytest.mark.interop

# Tries what a stranger's program would try, and reports to the one origin that it named.
PAGE = """<!DOCTYPE html><body><script>
const attempt = (act) => { try { return String(act()) } catch (error) { return error.name } };
const fetched = (url) => fetch(url).then((answer) => answer.text(), () => "blocked");
const loaded = (tag, url) => new Promise((done) => {
    const element = document.createElement(tag);
    element.onload = () => done("loaded");
    element.onerror = () => done("blocked");
    element.src = url;
    document.body.append(element);
});
(async () => {
    const found = {
        origin: self.origin,
        cookie: attempt(() => document.cookie),
        storage: attempt(() => localStorage.length),
        parent: attempt(() => parent.document.title),
        evaluated: attempt(() => eval("1 + 1")),
        named: await fetched("NAMED/data"),
        other: await fetched("OTHER/fetched"),
        image: await loaded("img", "OTHER/image"),
        script: await loaded("script", "OTHER/script"),
    };
    await fetch("NAMED/report?" + encodeURIComponent(JSON.stringify(found)));
})();
</script>"""


class Site(ThreadingHTTPServer):
    """Serves one text at all addresses, and notes which were asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server_port}"
        self.answer: tuple[dict[str, str], str] = ({"Access-Control-Allow-Origin": "*"}, "data")
        self.asked: queue.Queue[str] = queue.Queue()


class Handler(BaseHTTPRequestHandler):
    """Answers for a `Site`."""

    server: Site

    def do_GET(self) -> None:
        headers, text = self.server.answer
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())
        self.server.asked.put(self.path)

    def log_message(self, *arguments: Any) -> None:
        pass


@contextlib.contextmanager
def sites(count: int) -> Iterator[list[Site]]:
    made = [Site() for _ in range(count)]
    threads = [threading.Thread(target=site.serve_forever, args=(0.05,)) for site in made]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        for site in made:
            site.shutdown()
            site.server_close()
        for thread in threads:
            thread.join(WAIT)


@contextlib.contextmanager
def browser(folder: Path, url: str) -> Iterator[None]:
    binary, environment = chromium()
    command = [str(binary), "--no-sandbox", "--disable-gpu", "--no-first-run", "--no-proxy-server"]
    process = subprocess.Popen(
        [*command, f"--user-data-dir={folder}", "--remote-debugging-port=0", url],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(WAIT)


def report(named: Site) -> dict[str, Any]:
    while True:
        path, _, found = named.asked.get(timeout=3 * WAIT).partition("?")
        if path == "/report":
            told: dict[str, Any] = json.loads(unquote(found))
            return told


@pytest.mark.parametrize("framed", [True, False], ids=["in its frame", "opened by itself"])
def test_a_page_does_what_it_asked_for_and_no_more(framed: bool, tmp_path: Path) -> None:
    with sites(4) as (host, inner, named, other):
        server = FakeServer()
        html = PAGE.replace("NAMED", named.origin).replace("OTHER", other.origin)
        server.add_app("ui://board", html, csp={"connectDomains": [named.origin]})
        with Client(InMemory(server), extensions=[Apps()]) as client:
            app = client.app("ui://board")
        inner.answer = (app.headers(embedder=host.origin), app.html)
        attributes = "".join(f' {name}="{value}"' for name, value in app.iframe().items())
        frame = f'<!DOCTYPE html><title>The host</title><iframe src="{inner.origin}/"{attributes}></iframe>'
        host.answer = ({"Content-Type": "text/html", "Set-Cookie": "secret=1"}, frame)
        with browser(tmp_path, host.origin if framed else inner.origin):
            found = report(named)
        assert found == {
            "origin": "null",
            "cookie": "SecurityError",
            "storage": "SecurityError",
            "parent": "SecurityError" if framed else "",
            "evaluated": "EvalError",
            "named": "data",
            "other": "blocked",
            "image": "blocked",
            "script": "blocked",
        }
        assert other.asked.empty()


def test_another_page_cannot_show_it(tmp_path: Path) -> None:
    with sites(3) as (host, inner, named):
        server = FakeServer()
        html = PAGE.replace("NAMED", named.origin).replace("OTHER", named.origin)
        server.add_app("ui://board", html, csp={"connectDomains": [named.origin]})
        with Client(InMemory(server), extensions=[Apps()]) as client:
            app = client.app("ui://board")
        inner.answer = (app.headers(embedder="https://host.example"), app.html)
        frame = f'<iframe src="{inner.origin}/" onload="fetch(\'{named.origin}/over\')"></iframe>'
        host.answer = ({"Content-Type": "text/html"}, frame)
        with browser(tmp_path, host.origin):
            assert named.asked.get(timeout=3 * WAIT) == "/over"
        assert named.asked.empty()


@pytest.mark.parametrize("kept", [True, False], ids=["with frame-src", "without"])
def test_the_policy_of_its_host_keeps_a_page_from_taking_its_frame_elsewhere(
    kept: bool, tmp_path: Path
) -> None:
    with sites(4) as (host, inner, named, other):
        server = FakeServer()
        leaving = f'<!DOCTYPE html><body><script>location = "{other.origin}/left?data"</script>'
        server.add_app("ui://board", leaving)
        with Client(InMemory(server), extensions=[Apps()]) as client:
            app = client.app("ui://board")
        inner.answer = (app.headers(embedder=host.origin), app.html)
        attributes = "".join(f' {name}="{value}"' for name, value in app.iframe().items())
        told = f'document.addEventListener("securitypolicyviolation", () => fetch("{named.origin}/kept"))'
        frame = f'<script>{told}</script><iframe src="{inner.origin}/"{attributes}></iframe>'
        policy = {"Content-Security-Policy": f"frame-src {inner.origin}"} if kept else {}
        host.answer = ({"Content-Type": "text/html", **policy}, frame)
        with browser(tmp_path, host.origin):
            # One of them is asked for something, and never both.
            expected, path = (named, "/kept") if kept else (other, "/left?data")
            assert expected.asked.get(timeout=3 * WAIT) == path
        assert named.asked.empty()
        assert other.asked.empty() or not kept

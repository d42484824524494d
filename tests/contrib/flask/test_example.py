"""The example runs by one command, and a browser gets through all of it; under gunicorn, too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from .site import EXAMPLE, ROOT


@contextmanager
def program(*command: str, **more: str) -> Iterator[str]:
    """Have a program run that serves until it is ended; gives its address."""
    path = os.pathsep.join([str(ROOT), str(EXAMPLE)])
    with subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **more},
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        try:
            seen = ""
            for line in process.stdout:
                seen += line
                found = re.search(r"http://127\.0\.0\.1:\d+", line)
                if found:
                    break
            assert found, seen
            yield found[0]
        finally:
            process.terminate()
            process.wait(30)


class Browser(requests.Session):
    """A browser as far as forms go: it posts their hidden fields, too."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address
        self.trust_env = False

    def see(self, path: str) -> requests.Response:
        return self.get(f"{self.address}{path}", timeout=20)

    def submit(self, page: requests.Response, action: str, **values: Any) -> requests.Response:
        return self.post(**self._form(page, action, values), timeout=20)

    def submit_only(self, page: requests.Response, action: str) -> str:
        """Post a form; return where that sends the browser."""
        answer = self.post(**self._form(page, action, {}), timeout=20, allow_redirects=False)
        return answer.headers["location"]

    def _form(self, page: requests.Response, action: str, values: Any) -> dict[str, Any]:
        hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text))
        url = action if action.startswith("http") else f"{self.address}{action}"
        return {"url": url, "data": {**hidden, **values}, "headers": {"Referer": page.url}}


def walk(address: str, name: str) -> None:
    with Browser(address) as browser:
        start = browser.see("/")
        assert "You are not connected" in start.text
        start = browser.submit(start, "/mcp/connect/kitchen")
        assert (start.status_code, start.url) == (200, f"{address}/")
        assert "You are connected" in start.text
        assert "17 euros" in browser.see("/add?a=12&b=5").text
        assert browser.see("/add?a=x&b=5").status_code == 400

        form = browser.see("/book")
        assert "For whom shall the table be booked?" in form.text
        wrong = browser.submit(form, form.url, **{"q0-name": name, "q0-guests": "20"})
        assert (wrong.status_code, "Your answer was not sent" in wrong.text) == (422, True)
        done = browser.submit(wrong, form.url, **{"q0-name": name, "q0-guests": "3", "q0-where": "inside"})
        assert f"A table for 3, inside, in the name of {name}." in done.text

        page = browser.submit(start, "/cook")
        seen = set()
        end = time.monotonic() + 30
        while "courses are served" not in page.text:
            seen.update(re.findall(r"course \d of 5", page.text))
            assert time.monotonic() < end, page.text
            time.sleep(0.1)
            page = browser.see(page.url[len(address) :])
        assert seen
        with Browser(address) as other:
            assert other.see(page.url[len(address) :]).status_code == 404
            assert other.get(form.url, timeout=20).status_code == 404

        start = browser.submit(browser.see("/"), "/mcp/disconnect/kitchen")
        assert "You are not connected" in start.text


def test_one_command_runs_the_example(tmp_path: Path) -> None:
    script = str(EXAMPLE / "app.py")
    with program(script, "0", RESTAURANT_FOLDER=str(tmp_path)) as address:
        walk(address, "Ada")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sync", "gthread", "gevent"])
def test_workers_of_gunicorn_share_grants_and_questions(kind: str, tmp_path: Path) -> None:
    """Any process answers any request: each of them has its own clients."""
    pytest.importorskip("gunicorn")
    site = tmp_path / "site_wsgi.py"
    site.write_text(SITE)
    with program("-c", BACKEND) as url:
        # A worker of gevent waits for connections that a browser keeps open.
        options = ["-k", kind, "-w", "3", "--preload", "--threads", "2", "--graceful-timeout", "5"]
        command = ["-m", "gunicorn", *options, "-b", "127.0.0.1:0", "--chdir", str(tmp_path), "site_wsgi:app"]
        site_is = program(*command, KITCHEN=f"{url}/mcp", FOLDER=str(tmp_path))
        with site_is as address, Browser(address) as browser:
            start = browser.submit(browser.see("/"), "/mcp/connect/kitchen")
            assert "You are connected" in start.text
            for _ in range(20):
                bill = browser.get(f"{address}/add?a=12&b=5", headers={"Connection": "close"}, timeout=20)
                assert "17 euros" in bill.text
            form = browser.see("/book")
            done = browser.submit(form, form.url, **{"q0-name": "Ada", "q0-guests": "3"})
            assert "in the name of Ada" in done.text


SITE = """
import os
from app import create_app
from mcp_sync.auth import SQLiteStore

store = SQLiteStore(os.path.join(os.environ["FOLDER"], "grants.sqlite"))
app = create_app(os.environ["KITCHEN"], {"SECRET_KEY": "secret", "MCP_TOKEN_STORE": store})
"""
BACKEND = """
import threading
from backend import running

with running() as url:
    print(url, flush=True)
    threading.Event().wait()
"""

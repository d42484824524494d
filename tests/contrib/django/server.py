"""Servers of applications that run the site of the tests, with the database of this process, and visitors."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from django.db import connection

from .conftest import browser_of

ROOT = Path(__file__).parents[3]
PATIENCE = 30.0
_PLACE = re.compile(r"(?:Listening at|running on):? (http://127\.0\.0\.1:\d+)")
GUNICORN = ["gunicorn", "-b", "127.0.0.1:0", "tests.contrib.django.deployed:application"]
UVICORN = ["uvicorn", "--host", "127.0.0.1", "--port", "0", "tests.contrib.django.deployed:asgi"]


class Site:
    """A running server.

    Attributes:
        url: Where it listens.
        process: Its first process.
        log: A file with what it says.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log
        self.url = ""

    def wait(self) -> None:
        """Wait until it listens."""
        until = time.monotonic() + PATIENCE
        while True:
            found = _PLACE.search(self.log.read_text())
            if found and _takes_connections(found[1]):
                self.url = found[1]
                return
            is_late = self.process.poll() is not None or time.monotonic() > until
            assert not is_late, self.log.read_text()
            time.sleep(0.02)

    @property
    def workers(self) -> list[int]:
        """The ids of its worker processes."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(each) for each in children.read_text().split()]


def _takes_connections(url: str) -> bool:
    try:
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), PATIENCE).close()
    except ConnectionRefusedError:
        return False
    return True


@contextmanager
def serving(words: list[str], servers: dict[str, Any], *options: str) -> Iterator[Site]:
    """Run the site.

    Args:
        words: `GUNICORN` or `UVICORN`.
        servers: ``MCP_SYNC["SERVERS"]``.
        options: Further words of the command line.
    """
    kept = ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT", "OPTIONS")
    database = {key: connection.settings_dict[key] for key in kept}
    environment = {
        **os.environ,
        "MCP_SYNC_TEST_DATABASE": json.dumps(database, default=str),
        "MCP_SYNC_TEST_SERVERS": json.dumps(servers),
        "PYTHONUNBUFFERED": "1",
    }
    log = Path(tempfile.mkdtemp(prefix="mcp-sync-site-")) / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *words, *options],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    site = Site(process, log)
    try:
        site.wait()
        yield site
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()


class Visitor:
    """The browser of a user, as far as the pages need one.

    Args:
        site: Where it goes.
        user: Who is logged in.
    """

    def __init__(self, site: Site, user: Any) -> None:
        self._site = site
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.cookies.set("sessionid", browser_of(user).cookies["sessionid"].value)

    def get(self, place: str) -> requests.Response:
        """Ask for a page, and follow nothing."""
        return self.session.get(self._url(place), timeout=PATIENCE, allow_redirects=False)

    def post(self, place: str, **values: str) -> requests.Response:
        """Send the form of a page, which was asked for first."""
        hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', self.get(place).text)
        return self.session.post(
            self._url(place), {**dict(hidden), **values}, timeout=PATIENCE, allow_redirects=False
        )

    def connect(self, auth: Any, name: str) -> None:
        """Connect to the protected server, as somebody there."""
        back = self.get(auth.consent(self.begin(), name))
        assert (back.status_code, back.headers["Location"]) == (302, "/whoami/"), back.text

    def begin(self) -> str:
        """Begin to connect; return where the browser is sent."""
        sent = self.post("/mcp/connect/guarded/?next=/whoami/")
        assert sent.status_code == 302, sent.text
        return str(sent.headers["Location"])

    def _url(self, place: str) -> str:
        return place if place.startswith("http") else self._site.url + place

    def close(self) -> None:
        """End its connections."""
        self.session.close()

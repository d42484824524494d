"""The example site runs with one command, and a user walks through it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urljoin

import pytest
import requests

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[3]
SITE = ROOT / "examples" / "django_site" / "run.py"


class Visitor:
    """A browser, as far as the pages need one."""

    def __init__(self, site: str) -> None:
        self.session = requests.Session()
        self.page = self.session.get(site, timeout=20)

    def see(self, place: str) -> str:
        """Go to a place."""
        self.page = self.session.get(urljoin(self.page.url, place), timeout=20)
        return self.page.text

    def post(self, to: str = "", **values: str) -> str:
        """Send a form of the page."""
        hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', self.page.text)
        place = urljoin(self.page.url, to) if to else self.page.url
        headers = {"Referer": self.page.url}
        self.page = self.session.post(place, {**dict(hidden), **values}, headers=headers, timeout=20)
        return self.page.text

    def log_in(self, name: str) -> None:
        """Log in at the site."""
        assert "Log in" in self.page.text
        assert f"<strong>{name}</strong>" in self.post(username=name, password="secret")

    def connect(self, name: str) -> str:
        """Connect to the MCP server, as somebody there."""
        self.see("/mcp/connect/desk/?next=/tools/")
        assert "Allow access?" in self.post()
        hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', self.page.text))
        params = {**hidden, "name": name, "answer": "yes"}
        self.page = self.session.get(self.page.url.partition("?")[0], params=params, timeout=20)
        return self.page.text


@pytest.fixture
def site():
    process = subprocess.Popen(
        [sys.executable, str(SITE), "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_port_that_is_taken_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [sys.executable, str(SITE), str(taken.getsockname()[1])]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=100,
            check=False,
        )
    assert done.returncode == 1
    assert re.fullmatch(r"Port \d+ cannot be had: .*\. Give another one: run\.py PORT\n", done.stderr)


def test_two_users_walk_through_the_example(site):
    ada, bob = Visitor(site), Visitor(site)
    try:
        for visitor, name in ((ada, "ada"), (bob, "bob")):
            visitor.log_in(name)
            assert "You are not connected" in visitor.page.text
            visitor.see("/report/")
            assert visitor.page.status_code == 405  # And not a page to connect, which would lead here.
            visitor.see("/")
            assert f"You are {name} there at this server" in visitor.connect(f"{name} there")
        assert "You are ada there" in ada.see("/tools/")
        ada.see("/")
        report = ada.post("/report/")
        assert re.findall(r"<li>(\d of 5)", report) == [f"{step} of 5" for step in range(1, 6)]
        assert "all is well" in report
        ada.see("/")
        assert "Where to?" in ada.post("/book/")
        assert ada.page.url.startswith(f"{site}mcp/input/")
        bob.see(ada.page.url)
        assert bob.page.status_code == 404
        typed = {"action": "accept", "q0-field0": "Oslo", "q0-field1": "3"}
        assert "3 nights in Oslo, without breakfast" in ada.post(**typed)
        ada.see("/")
        assert "You are not connected" in ada.post("/mcp/disconnect/desk/")
        assert "You are bob there" in bob.see("/tools/")
    finally:
        ada.session.close()
        bob.session.close()

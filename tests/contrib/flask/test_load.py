"""The example under load, with tokens that are renewed all the time. ``--load-seconds 60`` takes a minute."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from contrib.load import Descriptors, press, to_port
from mcp_sync.testing import FakeAuthorizationServer, FakeServer, ToolContext

from .test_example import Browser, program

USERS, TABS = 8, 4
WORKERS, WORKER_THREADS = 4, 8

SITE = """
import os
from app import create_app, mcp
from mcp_sync.auth import SQLiteStore

store = SQLiteStore(os.path.join(os.environ["FOLDER"], "grants.sqlite"))
app = create_app(os.environ["KITCHEN"], {"SECRET_KEY": "secret", "MCP_TOKEN_STORE": store})
app.add_url_rule("/who", "who", lambda: mcp["kitchen"].call_tool("whoami").text)
app.add_url_rule("/worker", "worker", lambda: str(os.getpid()))
"""


class CountingServer(FakeAuthorizationServer):
    """Counts what must not happen: that a refresh token is used twice, which ends all that came of it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.ended: list[str] = []
        end = self._grants._end
        self._grants._end = lambda family: (self.ended.append(family), end(family))[1]  # type: ignore[method-assign]


def connected(browser: Browser, auth: FakeAuthorizationServer, user: str) -> None:
    """Have a user connect, as a browser would."""
    start = browser.see("/")
    away = browser.submit_only(start, "/mcp/connect/kitchen")
    back = browser.get(auth.consent(away, user), timeout=20)
    assert "You are connected" in back.text


def ask(browser: Browser, user: str) -> str:
    """Ask who one is; return what was wrong with the answer."""
    answer = browser.get(f"{browser.address}/who", timeout=30, allow_redirects=False)
    return "" if (answer.status_code, answer.text) == (200, user) else f"{answer.status_code} {answer.text}"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_many_users_at_many_workers_with_tokens_that_are_renewed_all_the_time(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """A token is renewed after a second, and a refresh token counts once."""
    (tmp_path / "site_wsgi.py").write_text(SITE)
    seconds = pytestconfig.getoption("--load-seconds")
    with CountingServer(lifetime=31) as auth:

        def whoami(context: ToolContext) -> str:
            return str(auth.user_of(context.headers))

        fake = FakeServer(tools=[whoami], principal=auth.user_of)
        command = ["-m", "gunicorn", "-k", "gthread", "-w", str(WORKERS), "--threads", str(WORKER_THREADS)]
        command += ["--preload", "-b", "127.0.0.1:0", "--chdir", str(tmp_path), "site_wsgi:app"]
        with fake.serve_http(intercept=auth.guard()) as endpoint:
            site = program(*command, KITCHEN=endpoint.url, FOLDER=str(tmp_path))
            with site as address:
                tabs: list[Browser] = []
                visits: list[Callable[[], str]] = []
                for number in range(USERS):
                    first = Browser(address)
                    connected(first, auth, f"user {number}")
                    for tab in [first, *(Browser(address) for _ in range(TABS - 1))]:
                        tab.cookies.update(first.cookies)
                        tabs.append(tab)
                        visits.append(functools.partial(ask, tab, f"user {number}"))
                descriptors = Descriptors(f"{address}/worker", WORKERS)
                found = press(visits, seconds)
                for tab in tabs:
                    tab.close()
                # As many as there are threads that need one, at most.
                grown = descriptors.grown({to_port(urlsplit(endpoint.url).port): WORKER_THREADS})
        assert found.wrong == []
        assert auth.ended == []
        assert auth.asked["/token"]
        assert grown == {}
        print(f"{found.requests} requests in {seconds:g} s")

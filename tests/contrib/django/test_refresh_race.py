"""Workers of several processes share a grant, whose refresh token is good for one use."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from .conftest import browser_of, connect

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[3]
PROCESSES, THREADS, CALLS = 3, 3, 20
EXPIRY = 60  # after so many calls the token is no good any more, for all of them at once


def test_of_processes_and_threads_whose_token_is_refused_one_refreshes_it(guarded, ada):
    calls = itertools.count(1)

    def whoami(context):
        user = guarded.auth.user_of(context.headers)
        if next(calls) == EXPIRY:
            guarded.auth.expire_access_tokens()
        return user or "expired meanwhile"

    guarded.fake.remove_tool("whoami")
    guarded.fake.add_tool(whoami, "whoami")
    connect(browser_of(ada), guarded.auth, "ada at the server")
    database = {
        key: connection.settings_dict[key]
        for key in ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT", "OPTIONS")
    }
    connection.close()
    arguments = [json.dumps(database), guarded.url, str(ada.pk), str(THREADS), str(CALLS)]
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.contrib.django.refresher", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    try:
        answers = [worker.communicate(timeout=50)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert [json.loads(answer) for answer in answers] == [[]] * PROCESSES
    assert guarded.auth.asked["refresh_token"] == 1

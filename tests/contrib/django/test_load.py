"""Many requests of several users at once, while their tokens rotate: ``--load-seconds`` says for how long."""

from __future__ import annotations

import random
import threading
import time
from urllib.parse import urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from ..load import Descriptors, to_port
from .server import GUNICORN, PATIENCE, Visitor, serving

USERS, THREADS = 6, 12
WORKERS, WORKER_THREADS = 4, 8
TOKEN_SECONDS = 3.0
PLACES = ["/whoami/", "/connected/", "/atomic/"]


@pytest.mark.contrib
@pytest.mark.timeout(300)
def test_no_request_fails_while_tokens_rotate_and_nobody_sees_anything_of_others(
    guarded, request, monkeypatch, capsys
):
    seconds = float(request.config.getoption("--load-seconds"))
    ended = _families_that_end(guarded.auth, monkeypatch)
    guarded.auth.lifetime = TOKEN_SECONDS
    guarded.fake.remove_tool("whoami")
    guarded.fake.add_tool(lambda context: _whose(guarded.auth, context), "whoami")
    users = [get_user_model().objects.create_user(f"user{number}") for number in range(USERS)]
    # Without the last, a connection is closed here now and then while a visitor begins to use it.
    kept = ["--keep-alive", "75"]
    options = ["-w", str(WORKERS), "-k", "gthread", "--threads", str(WORKER_THREADS), *kept]
    with serving(GUNICORN, guarded.servers, *options) as site:
        for number, user in enumerate(users):
            visitor = Visitor(site, user)
            visitor.connect(guarded.auth, f"number {number}")
            visitor.close()
        crowd = Crowd(site, users)
        connection.close()
        descriptors = Descriptors(f"{site.url}/worker/", WORKERS)
        with crowd:
            time.sleep(seconds)
            until = time.monotonic() + PATIENCE
            while not (crowd.done > THREADS and guarded.auth.asked["refresh_token"] >= USERS):
                assert time.monotonic() < until, f"only {crowd.done} requests; {crowd.wrong}"
                time.sleep(0.05)
        assert set(site.workers) == descriptors.workers, "a worker has ended"
        # As many as there are threads that need one, at most.
        grown = descriptors.grown({to_port(_port(guarded.url)): WORKER_THREADS, _database(): WORKER_THREADS})
        text = site.log.read_text()
    with capsys.disabled():
        print(f"\n{crowd.done} requests in {seconds:g} s, {guarded.auth.asked['refresh_token']} refreshes")
    assert crowd.wrong == [], text[-4000:]
    assert ended == []
    assert guarded.auth.asked["authorization_code"] == USERS
    assert grown == {}
    assert "Traceback" not in text, text[-4000:]


def _port(url):
    return urlsplit(url).port


def _database():
    """Name the connections to the database as `Descriptors` does: of the library's threads they stay."""
    return str(connection.settings_dict["NAME"]) if connection.vendor == "sqlite" else "socket"


def _whose(auth, context):
    """Return whose token a request was let in with, which may have expired since."""
    return auth._grants.access[context.headers["authorization"].partition(" ")[2]].user


def _families_that_end(auth, monkeypatch):
    """Return a list to which each family of tokens is added that the server withdraws for a reuse."""
    ended, end = [], auth._grants._end

    def note(family):
        ended.append(family)
        end(family)

    monkeypatch.setattr(auth._grants, "_end", note)
    return ended


class Crowd:
    """Threads that are the browsers of users, each request that of another user."""

    def __init__(self, site, users):
        self.done = 0
        self.wrong = []
        self._over = threading.Event()
        self._lock = threading.Lock()
        # They are logged in before the time begins.
        self._visitors = [[Visitor(site, user) for user in users] for _ in range(THREADS)]
        self._threads = []

    def __enter__(self):
        for seed, visitors in enumerate(self._visitors):
            self._threads.append(threading.Thread(target=self._visit, args=(seed, visitors)))
            self._threads[-1].start()

    def __exit__(self, *exc_info):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _visit(self, seed, visitors):
        choose = random.Random(seed).randrange
        try:
            while not self._over.is_set():
                number = choose(USERS)
                place = PLACES[choose(len(PLACES))]
                answer = visitors[number].get(place)
                good = f"number {number}" if place != "/connected/" else '{"ok": true}'
                if (answer.status_code, answer.text) != (200, good):
                    self.wrong.append(
                        (place, answer.status_code, answer.headers.get("Location"), answer.text[:200])
                    )
                with self._lock:
                    self.done += 1
        except Exception as error:
            self.wrong.append(repr(error))
        finally:
            for visitor in visitors:
                visitor.close()

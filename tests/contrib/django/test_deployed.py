"""The site under real servers of applications: users connect, call and answer, and workers may die."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from django.db import connection

from mcp_sync.contrib.django.models import Grant, PendingInput
from mcp_sync.testing import FakeAuthorizationServer, FakeServer, FakeTool, HTTPReply

from .server import GUNICORN, PATIENCE, UVICORN, Visitor, serving

pytestmark = [pytest.mark.contrib, pytest.mark.timeout(120)]

NAME = {"type": "object", "properties": {"name": {"type": "string", "title": "Name"}}, "required": ["name"]}
KINDS = {
    "sync": (GUNICORN, "-w", "2"),
    "gthread": (GUNICORN, "-w", "2", "-k", "gthread", "--threads", "4"),
    "gevent": (GUNICORN, "-w", "2", "-k", "gevent"),
    "preload": (GUNICORN, "-w", "2", "-k", "gthread", "--threads", "4", "--preload"),
    "uvicorn": (UVICORN,),
    "uvicorn-workers": (UVICORN, "--workers", "2"),
}


@pytest.fixture
def servers(guarded):
    """Give the protected server, and one that asks for a name; its question waits where a test says so."""
    held = SimpleNamespace(count=0, arrived=threading.Event(), go_on=threading.Event())

    def greet(context):
        name = context.elicit("Who are you?", NAME)["content"]["name"]
        held.count += 1
        if name == "Slow":
            held.arrived.set()
            held.go_on.wait(PATIENCE)
        return f"Hello, {name}!"

    def build(context):
        held.count += 1
        held.go_on.wait(PATIENCE)
        return "built"

    slow = FakeTool(build, task="required")
    with FakeServer(tools=[greet]).serve_http() as one, FakeServer(tools=[slow]).serve_http() as other:
        settings = {**guarded.servers, "desk": {"URL": one.url}, "builder": {"URL": other.url}}
        yield SimpleNamespace(settings=settings, auth=guarded.auth, fake=guarded.fake, held=held)
        held.go_on.set()


@pytest.fixture
def visit():
    with ExitStack() as stack:

        def visitor(site, user):
            found = Visitor(site, user)
            stack.callback(found.close)
            return found

        yield visitor
    connection.close()


@pytest.mark.parametrize("kind", KINDS)
def test_users_connect_call_and_answer(kind, servers, visit, ada, bob):
    words, *options = KINDS[kind]
    with serving(words, servers.settings, *options) as site:
        visitors = {name: visit(site, user) for name, user in (("ada", ada), ("bob", bob))}
        for name, visitor in visitors.items():
            visitor.connect(servers.auth, f"{name} there")
        for _ in range(4):
            for name, visitor in visitors.items():
                assert visitor.get("/whoami/").text == f"{name} there"
        servers.auth.expire_access_tokens()
        wrong = _all_at_once(visitors)
        assert wrong == []
        one = visitors["ada"]
        asked = one.get("/greet/")
        assert asked.status_code == 302, asked.text
        place = asked.headers["Location"]
        assert "Who are you?" in one.get(place).text
        assert visitors["bob"].get(place).status_code == 404
        answered = one.post(place, action="accept", **{"q0-field0": "Ada"})
        assert answered.status_code == 302, answered.text
        assert "Hello, Ada!" in one.get(place).text
        text = site.log.read_text()
    assert "Traceback" not in text, text
    assert site.process.returncode in (0, -signal.SIGTERM), site.log.read_text()


def test_workers_that_were_forked_with_open_clients_have_sessions_of_their_own(visit, ada, bob, monkeypatch):
    with FakeAuthorizationServer(user="someone") as auth:
        tools = {
            "whoami": lambda context: f"{auth.user_of(context.headers)} {context.headers['mcp-session-id']}"
        }
        fake = FakeServer(tools=tools, principal=auth.user_of, versions="2025-11-25")
        with fake.serve_http(intercept=auth.guard()) as endpoint:
            servers = {"guarded": {"URL": endpoint.url, "AUTH": {"KIND": "oauth"}}}
            with serving(GUNICORN, servers, "-w", "1") as site:
                for user in (ada, bob):
                    visit(site, user).connect(auth, user.username)
            monkeypatch.setenv("MCP_SYNC_TEST_WARM", "1")
            before = set(endpoint.sessions)
            with serving(GUNICORN, servers, "-w", "3", "--preload") as site:
                of_the_parent = set(endpoint.sessions) - before
                seen = {user.username: set() for user in (ada, bob)}
                for _ in range(30):
                    for user in (ada, bob):
                        name, session = visit(site, user).get("/whoami/").text.split()
                        assert name == user.username
                        seen[name].add(session)
                    if all(len(each) == 3 for each in seen.values()):
                        break
                assert of_the_parent <= set(endpoint.sessions)
    assert len(of_the_parent) == 2
    assert not of_the_parent & (seen["ada"] | seen["bob"])
    assert not seen["ada"] & seen["bob"]
    assert all(1 <= len(each) <= 3 for each in seen.values())


def _all_at_once(visitors):
    """Have each user call a tool from several threads; return what went wrong."""
    start, wrong = threading.Barrier(8), []

    def call(name, visitor):
        start.wait()
        answer = visitor.get("/whoami/")
        if answer.text != f"{name} there":
            wrong.append((answer.status_code, answer.text[:200]))

    everybody = list(visitors.items())
    threads = [threading.Thread(target=call, args=everybody[number % 2]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def _killed(site):
    """Kill all workers, and wait until there are others."""
    before = site.workers
    for worker in before:
        os.kill(worker, signal.SIGKILL)
    until = time.monotonic() + PATIENCE
    while set(site.workers) & set(before) or len(site.workers) < len(before):
        assert time.monotonic() < until, site.log.read_text()
        time.sleep(0.02)


def test_a_login_is_finished_by_another_worker_than_the_one_that_died(servers, visit, ada):
    with serving(GUNICORN, servers.settings, "-w", "2", "-k", "gthread", "--threads", "2") as site:
        visitor = visit(site, ada)
        away = visitor.begin()
        _killed(site)
        back = visitor.get(servers.auth.consent(away, "ada there"))
        assert back.status_code == 302, back.text
        assert visitor.get("/whoami/").text == "ada there"
    assert Grant.objects.get().user == ada


def test_a_question_is_answered_at_another_worker_than_the_one_that_died(servers, visit, ada):
    with serving(GUNICORN, servers.settings, "-w", "2", "-k", "gthread", "--threads", "2") as site:
        visitor = visit(site, ada)
        place = visitor.get("/greet/").headers["Location"]
        _killed(site)
        assert visitor.post(place, action="accept", **{"q0-field0": "Ada"}).status_code == 302
        assert "Hello, Ada!" in visitor.get(place).text
    assert servers.held.count == 1


def test_a_task_is_followed_by_another_worker_than_the_one_that_died(servers, visit, ada):
    with serving(GUNICORN, servers.settings, "-w", "2", "-k", "gthread", "--threads", "2") as site:
        visitor = visit(site, ada)
        place = f"/build/{visitor.get('/build/').text}/"
        assert visitor.get(place).text == "working"
        _killed(site)
        assert visitor.get(place).text == "working"
        servers.held.go_on.set()
        until = time.monotonic() + PATIENCE
        while (said := visitor.get(place).text) == "working" and time.monotonic() < until:
            time.sleep(0.05)
        assert said == "built"
    assert servers.held.count == 1


def test_a_worker_that_dies_while_it_refreshes_holds_up_nobody(servers, visit, ada):
    arrived, go_on = threading.Event(), threading.Event()
    endpoint = servers.auth._endpoint
    usual = endpoint.intercept

    def held_up(request):
        if request.path != "/token" or arrived.is_set():
            return usual(request)
        arrived.set()
        go_on.wait(PATIENCE)
        return HTTPReply(503)

    with serving(GUNICORN, servers.settings, "-w", "1", "-k", "gthread", "--threads", "4") as site:
        visitor, other = visit(site, ada), visit(site, ada)
        visitor.connect(servers.auth, "ada there")
        servers.auth.expire_access_tokens()
        endpoint.intercept = held_up
        failed = []
        thread = threading.Thread(target=_fails, args=(lambda: other.get("/whoami/"), failed))
        thread.start()
        assert arrived.wait(PATIENCE)
        _killed(site)
        thread.join()
        assert failed
        assert visitor.get("/whoami/").text == "ada there"
        go_on.set()


def _fails(ask, failed):
    try:
        ask()
    except OSError as error:
        failed.append(error)


def test_a_call_whose_worker_dies_amid_it_is_not_made_twice_and_is_given_up_in_time(servers, visit, ada):
    with serving(GUNICORN, servers.settings, "-w", "1", "-k", "gthread", "--threads", "4") as site:
        visitor, other = visit(site, ada), visit(site, ada)
        place = visitor.get("/greet/").headers["Location"]
        failed, typed = [], {"action": "accept", "q0-field0": "Slow"}
        thread = threading.Thread(target=_fails, args=(lambda: visitor.post(place, **typed), failed))
        thread.start()
        assert servers.held.arrived.wait(PATIENCE)
        _killed(site)
        thread.join()
        servers.held.go_on.set()
        assert failed
        waits = other.get(place)
        assert waits.status_code == 409
        assert "on its way" in waits.text
        PendingInput.objects.update(updated=PendingInput.objects.get().updated.replace(year=2000))
        assert "Who are you?" in other.get(place).text
        assert other.post(place, action="accept", **{"q0-field0": "Ada"}).status_code == 302
        assert "Hello, Ada!" in other.get(place).text

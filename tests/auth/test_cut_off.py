"""Calls that end while an authorization server is answering: the answer must not be lost with them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import CancelToken, Client
from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._concurrency.locks import Latch
from mcp_sync.auth import DeviceCode, FileStore, LoopbackBrowser, MemoryStore, OAuth
from mcp_sync.auth._errand import Errand
from mcp_sync.auth._turn import Turn
from mcp_sync.auth._under_way import UnderWay
from mcp_sync.errors import AuthorizationRequired, CallCancelled, ConnectionLost

from .oauth_server import OAuthServer, json_reply, protected, visit
from .plain_server import Reply

WAIT = 20


class SlowServer(OAuthServer):
    """Acts on a request for a token at once, and holds its answer back while it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.acted = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    def _answer(self, request: Any) -> Any:
        codes = {"device_code": "d", "user_code": "ABCD", "verification_uri": f"{self.issuer}/go"}
        return json_reply({**codes, "interval": 1}) if request.path == "/device" else super()._answer(request)

    def _token(self, request: Any) -> Any:
        reply = super()._token(request)
        if not self.may_answer.is_set():
            self.acted.set()
            assert self.may_answer.wait(WAIT)
        return reply


@pytest.fixture
def server() -> Iterator[SlowServer]:
    with SlowServer() as server:
        yield server
        server.may_answer.set()


@pytest.fixture
def endpoint(server: SlowServer) -> Iterator[Any]:
    with protected(server) as endpoint:
        yield endpoint


def call(client: Client, **options: Any) -> str:
    return client.call_tool("add", {"a": 1, "b": 2}, **options).text


def add(url: str, auth: Any) -> str:
    with Client(url, auth=auth) as client:
        return call(client)


def cancelled_meanwhile(server: SlowServer, client: Client) -> None:
    """Make a call, and cancel it when the authorization server has acted for it."""
    server.may_answer.clear()
    token = CancelToken()
    canceller = threading.Thread(target=lambda: server.acted.wait(WAIT) and token.cancel())
    canceller.start()
    with pytest.raises(CallCancelled):
        call(client, cancel=token)
    canceller.join()


def wait_for_work(auth: Any) -> None:
    (access,) = auth._accesses.values()
    access.turn.join(Errand(), "nothing")


def make_due(auth: Any) -> None:
    (access,) = auth._accesses.values()
    access.in_use.current.renew_at = 0.0


def test_a_refresh_goes_on_when_its_call_is_cancelled_and_the_next_call_takes_it(server, endpoint) -> None:
    store = MemoryStore()
    auth = OAuth(store=store, interaction=LoopbackBrowser(open=visit))
    with Client(endpoint.url, auth=auth) as client:
        server.expire_all()
        cancelled_meanwhile(server, client)
        threading.Timer(0.1, server.may_answer.set).start()
        assert call(client) == '{"sum": 3}'
        assert add(endpoint.url, OAuth(store=store, interactive=False)) == '{"sum": 3}'
    assert server.asked["refresh_token"] == 1
    assert server.asked["authorize"] == 1
    assert not server.revoked_families


def test_what_a_refresh_brings_after_a_log_out_is_revoked(server, endpoint) -> None:
    store, errors = MemoryStore(), []
    assert add(endpoint.url, OAuth(store=store, interaction=LoopbackBrowser(open=visit)))
    auth = OAuth(store=store, interactive=False, server_url=endpoint.url)

    def late() -> None:
        with pytest.raises(AuthorizationRequired) as caught:
            add(endpoint.url, auth)
        errors.append(caught.value)

    server.expire_all()
    server.may_answer.clear()
    caller = threading.Thread(target=late)
    caller.start()
    assert server.acted.wait(WAIT)
    (access,) = auth._accesses.values()
    assert access.log_out(0.1) is False  # It does not wait for the refresh.
    server.may_answer.set()
    caller.join(WAIT)
    assert len(errors) == 1
    assert server.tokens == {}  # There was one when the server had acted.
    assert auth.status().state == "needs_login"


def test_a_close_does_not_lose_the_refresh_of_a_call(server, endpoint, tmp_path) -> None:
    auth = OAuth(store=FileStore(tmp_path / "grants"), interaction=LoopbackBrowser(open=visit))
    client = Client(endpoint.url, auth=auth)
    client.open()
    server.expire_all()
    server.may_answer.clear()
    closer = threading.Thread(target=lambda: server.acted.wait(WAIT) and client.close())
    closer.start()
    with pytest.raises(Exception, match="closed"):
        call(client)
    closer.join()
    server.may_answer.set()
    wait_for_work(auth)
    assert add(endpoint.url, OAuth(store=FileStore(tmp_path / "grants"), interactive=False)) == '{"sum": 3}'
    assert server.asked["refresh_token"] == 1


def test_one_impatient_call_of_a_crowd_costs_the_others_nothing(server, endpoint) -> None:
    auth = OAuth(interaction=LoopbackBrowser(open=visit))
    with Client(endpoint.url, auth=auth) as client:
        call(client)
        (access,) = auth._accesses.values()
        server.expire_all()
        results: list[str] = []
        others = [threading.Thread(target=lambda: results.append(call(client))) for _ in range(4)]

        def crowd() -> None:
            assert server.acted.wait(WAIT)
            for other in others:
                other.start()

        starter = threading.Thread(target=crowd)
        starter.start()
        cancelled_meanwhile(server, client)
        starter.join()
        server.may_answer.set()
        for other in others:
            other.join(WAIT)
    assert results == ['{"sum": 3}'] * 4
    assert server.asked["refresh_token"] == 1
    assert access.turn.is_working is False


def test_a_renewal_ahead_of_time_goes_on_when_its_call_does_not_wait_for_it(server, endpoint) -> None:
    auth = OAuth(interaction=LoopbackBrowser(open=visit))
    with Client(endpoint.url, auth=auth) as client:
        call(client)
        make_due(auth)
        server.may_answer.clear()
        # It waits for a third of its time, and goes on with the token that is valid.
        assert call(client, timeout=3) == '{"sum": 3}'
        # Nobody waits for what is under way while the token is valid.
        make_due(auth)
        assert call(client, timeout=3) == '{"sum": 3}'
        server.may_answer.set()
        wait_for_work(auth)
        server.tokens.pop(sorted(server.tokens)[0])
        assert call(client) == '{"sum": 3}'
    assert server.asked["refresh_token"] == 1
    assert server.asked["401"] == 1


def test_the_end_of_a_session_begins_no_renewal(server) -> None:
    deleted: list[str] = []

    def watch(request: Any) -> Any:
        if request.method == "DELETE":
            deleted.append(request.headers.get("authorization", ""))
        return None

    server.on_resource = watch
    with protected(server) as endpoint:
        auth = OAuth(interaction=LoopbackBrowser(open=visit))
        with Client(endpoint.url, auth=auth, mode="2025-06-18") as client:
            call(client)
            make_due(auth)
        assert server.asked["refresh_token"] == 0
        with Client(endpoint.url, auth=auth, mode="2025-06-18") as client:
            call(client)
            refreshed = server.asked["refresh_token"]
            server.expire_all()
    assert len(deleted) == 2
    assert refreshed == 1  # By the second opening.
    assert server.asked["refresh_token"] == refreshed


def test_a_login_that_was_answered_is_not_lost_with_its_call(server, endpoint) -> None:
    auth = OAuth(interaction=LoopbackBrowser(open=visit))
    client = Client(endpoint.url, auth=auth)
    server.may_answer.clear()
    closer = threading.Thread(target=lambda: server.acted.wait(WAIT) and client.close())
    closer.start()
    with pytest.raises(Exception, match="closed"):
        client.open()
    closer.join()
    server.may_answer.set()
    assert add(endpoint.url, auth) == '{"sum": 3}'
    assert server.asked["authorize"] == 1


def test_what_a_user_of_a_device_has_agreed_to_is_not_lost_with_the_call(server, endpoint) -> None:
    server.metadata = {"device_authorization_endpoint": f"{server.issuer}/device"}
    granted = server._granted
    server._granted = lambda form: (
        server._tokens("read", 1) if form["grant_type"].endswith("device_code") else granted(form)
    )
    shown: list[str] = []
    auth = DeviceCode(show=lambda prompt: shown.append(prompt.user_code))
    client = Client(endpoint.url, auth=auth)
    server.may_answer.clear()
    closer = threading.Thread(target=lambda: server.acted.wait(WAIT) and client.close())
    closer.start()
    with pytest.raises(Exception, match="closed"):
        client.open()
    closer.join()
    server.may_answer.set()
    assert add(endpoint.url, auth) == '{"sum": 3}'
    assert shown == ["ABCD"]


# How a process runs `leave`: itself, or by a worker, which ends before it does.
LEAVE = {
    "the interpreter": "leave()",
    "a forked worker": """
import multiprocessing
worker = multiprocessing.get_context("fork").Process(target=leave)
worker.start()
worker.join()
assert worker.exitcode == 0
""",
    "a forked pool": """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
    pool.submit(leave).result()
""",
    # Its threads may begin no more of them, as the interpreter ends already.
    "a thread at the end": """
def at_the_end():
    def no_thread(*args):
        raise RuntimeError("can't create new thread at interpreter shutdown")
    from mcp_sync.auth import _work
    _work.spawn = no_thread
    began = threading.Event()
    begins = _work.under_way.begins
    _work.under_way.begins = lambda latch: (begins(latch), began.set())
    threading.Thread(target=leave, daemon=True).start()
    assert began.wait(20)
    print("leaving", flush=True)
at_the_end()
""",
}


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=pytest.mark.heavy) if how == "a forked pool" else how for how in LEAVE]
)
def test_the_end_of_a_process_waits_for_a_refresh(server, endpoint, tmp_path, how) -> None:
    if "forked" in how and not hasattr(os, "fork"):
        pytest.skip("there is no fork")
    path = tmp_path / "grants"
    assert add(endpoint.url, OAuth(store=FileStore(path), interaction=LoopbackBrowser(open=visit)))
    server.expire_all()
    server.may_answer.clear()
    program = """
import os, sys, threading
from mcp_sync import Client, OAuth
from mcp_sync.auth import FileStore

def leave():
    client = Client(sys.argv[1], auth=OAuth(store=FileStore(sys.argv[2]), interactive=False))
    threading.Thread(target=lambda: os.read(0, 1) and client.close(), daemon=True).start()
    try:
        client.open()
    except Exception as error:
        print("leaving", flush=True)
"""
    command = [sys.executable, "-c", program + LEAVE[how], endpoint.url, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert server.acted.wait(WAIT)
        if how != "a thread at the end":
            child.stdin.write("c")
            child.stdin.flush()
        assert child.stdout.readline() == "leaving\n"
        # Whoever does not wait has ended by then.
        threading.Timer(1.0, server.may_answer.set).start()
        assert child.wait(WAIT) == 0
    assert server.may_answer.wait(WAIT)
    assert add(endpoint.url, OAuth(store=FileStore(path), interactive=False)) == '{"sum": 3}'
    assert server.asked["refresh_token"] == 1


def test_the_end_of_a_worker_of_celery_waits_for_a_refresh() -> None:
    pytest.importorskip("celery")
    program = """
import threading
from celery import signals
from mcp_sync._concurrency.locks import Latch
from mcp_sync.auth._under_way import under_way

latch = Latch()
under_way.begins(latch)
threading.Timer(0.3, latch.open).start()
signals.worker_process_shutdown.send(sender=None, pid=1, exitcode=0)
assert latch.is_open
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=WAIT)


def test_what_has_ended_is_not_waited_for() -> None:
    under_way, ended, forgotten = UnderWay(), Latch(), Latch()
    under_way.begins(ended)
    under_way.begins(forgotten)
    under_way.ends(forgotten)
    ended.open()
    under_way.wait()
    assert under_way._latches == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_takes_what_the_parent_is_getting(server, endpoint, tmp_path: Path) -> None:
    program = """
import os, sys, threading
from mcp_sync import Client, OAuth
from mcp_sync.auth import FileStore

def add(auth):
    with Client(sys.argv[1], auth=auth) as client:
        return client.call_tool("add", {"a": 1, "b": 2}).text

auth = OAuth(store=FileStore(sys.argv[2]), interactive=False)
got = []
thread = threading.Thread(target=lambda: got.append(add(auth)))
thread.start()
sys.stdin.readline()
child = os.fork()
if child == 0:
    assert add(auth) == '{"sum": 3}'
    os._exit(0)
print("forked", flush=True)
thread.join()
assert got == ['{"sum": 3}'], got
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    path = tmp_path / "grants"
    assert add(endpoint.url, OAuth(store=FileStore(path), interaction=LoopbackBrowser(open=visit)))
    server.expire_all()
    server.may_answer.clear()
    command = [sys.executable, "-c", program, endpoint.url, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert server.acted.wait(WAIT)
        child.stdin.write("fork\n")
        child.stdin.flush()
        assert child.stdout.readline() == "forked\n"
        server.may_answer.set()
        assert child.wait(WAIT) == 0
    assert server.asked["refresh_token"] == 1
    assert not server.revoked_families


class Given(Exception):
    """An errand that is over."""


class Over(Errand):
    """An errand for which nobody has time."""

    def check(self, deadline: Any, doing: str) -> None:
        raise Given


def test_what_nobody_waits_for_is_given_up_unless_it_must_be_seen_through() -> None:
    turn, ended = Turn(), threading.Event()
    left = threading.Event()

    def task(errand: Errand) -> None:
        try:
            assert left.wait(WAIT)
            errand.check(errand.deadline, "the work")
        finally:
            ended.set()

    with pytest.raises(Given):
        turn.work(Over(), "the work", task)
    left.set()
    assert ended.wait(WAIT)
    turn.join(Errand(), "the work")  # That it was given up is no error of the next one.

    left.clear()
    with pytest.raises(Given):
        turn.work(Over(), "the work", lambda errand: (errand.see_through(), task(errand)))
    left.set()
    turn.join(Errand(), "the work")
    assert not turn.is_working


class Waiting(Errand):
    """An errand that lets the work go on as soon as it waits for it."""

    def __init__(self, goes_on: threading.Event) -> None:
        super().__init__()
        self._goes_on = goes_on

    def check(self, deadline: Any, doing: str) -> None:
        self._goes_on.set()


def left_alone(turn: Turn, goes_on: threading.Event) -> None:
    """Begin what will fail, and wait for it no longer."""

    def task(errand: Errand) -> None:
        errand.see_through()
        assert goes_on.wait(WAIT)
        raise ConnectionLost("it broke")

    with pytest.raises(Given):
        turn.work(Over(), "the same", task)


def test_who_waits_for_the_same_gets_its_error_and_who_wants_another_thing_does_not() -> None:
    turn, goes_on = Turn(), threading.Event()
    left_alone(turn, goes_on)
    with pytest.raises(ConnectionLost, match="it broke"):
        turn.join(Waiting(goes_on), "the same")
    goes_on.clear()
    left_alone(turn, goes_on)
    turn.join(Waiting(goes_on), "another")
    assert not turn.is_working


def test_what_failed_before_somebody_came_is_no_error_of_theirs() -> None:
    turn, goes_on = Turn(), threading.Event()
    left_alone(turn, goes_on)
    goes_on.set()
    assert turn._work is not None
    assert turn._work._over.wait(Deadline(WAIT))
    turn.join(Errand(), "the same")
    assert turn._work is None


def test_a_call_does_not_get_the_error_of_an_earlier_one_that_gave_up(server, endpoint) -> None:
    auth = OAuth(interaction=LoopbackBrowser(open=visit))
    with Client(endpoint.url, auth=auth) as client:
        call(client)
        (access,) = auth._accesses.values()
        server.expire_all()
        server.on_token = lambda form: Reply(503, b"busy")
        cancelled_meanwhile(server, client)
        server.on_token = lambda form: None
        work = access.turn._work
        server.may_answer.set()
        assert work._over.wait(Deadline(WAIT))
        assert call(client) == '{"sum": 3}'
    assert server.asked["refresh_token"] == 2


def test_without_another_thread_it_is_done_on_this_one(monkeypatch) -> None:
    def no_thread(*args: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("mcp_sync.auth._work.spawn", no_thread)
    assert Turn().work(Errand(), "the work", lambda errand: threading.get_ident()) == threading.get_ident()

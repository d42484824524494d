"""Many threads that wait for one login: a person is asked once, and what they say counts for all of them."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Callable

import pytest
import requests

from mcp_sync import Client
from mcp_sync.auth import DeviceCode, LoopbackBrowser, OAuth
from mcp_sync.auth._errand import Errand
from mcp_sync.auth._turn import Turn
from mcp_sync.errors import AccessDenied, AuthError, AuthorizationRequired, CallTimeout, InsufficientScope

from .oauth_server import OAuthServer, json_reply, visit

THREADS = 16
TOOL = json.dumps({"params": {"name": "add"}}).encode()


class Window:
    """The browser of a user who answers once everybody waits for it.

    Attributes:
        opened: How often it was opened.
    """

    def __init__(self, answers: Callable[[str], bool] = visit) -> None:
        self.opened = 0
        self.auth: Any = None
        self.all = THREADS
        self._answers = answers

    def __call__(self, url: str) -> bool:
        self.opened += 1
        (access,) = self.auth._accesses.values()
        until = time.monotonic() + 20
        while access.turn.takers < self.all and time.monotonic() < until:
            time.sleep(0.01)
        return self._answers(url)


def asking(window: Window, timeout: float = 30, **options: Any) -> OAuth:
    window.auth = OAuth(interaction=LoopbackBrowser(open=window, timeout=timeout), **options)
    return window.auth


def post(url: str, auth: Any, body: bytes = b"{}") -> int:
    with requests.Session() as session:
        session.trust_env = False
        return session.post(url, data=body, auth=auth, timeout=40).status_code


def at_once(url: str, auth: Any, body: bytes = b"{}") -> list[Any]:
    """Post from all threads; return what each got, or of what type its error was."""
    outcomes: list[Any] = []

    def work() -> None:
        try:
            outcomes.append(post(url, auth, body))
        except AuthError as error:
            outcomes.append(type(error))

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return outcomes


def refuse(server: OAuthServer) -> None:
    server.on_authorize = lambda query: {
        "error": "access_denied",
        "state": query["state"],
        "iss": server.issuer,
    }


def test_a_refusal_counts_for_all_that_waited_for_the_answer_and_for_nobody_later(server, endpoint) -> None:
    refuse(server)
    window = Window()
    auth = asking(window)
    assert at_once(endpoint.url, auth) == [AccessDenied] * THREADS
    assert window.opened == server.asked["authorize"] == 1
    window.all = 1
    with pytest.raises(AccessDenied):
        post(endpoint.url, auth)
    assert window.opened == 2


def test_a_step_up_that_is_refused_is_not_asked_for_again_by_those_that_waited(server, endpoint) -> None:
    server.needed_scope = {"add": "write"}
    window = Window()
    window.all = 1
    auth = asking(window, scopes=["read"])
    assert post(endpoint.url, auth) == 415
    window.opened, window.all = 0, THREADS
    refuse(server)
    assert at_once(endpoint.url, auth, TOOL) == [AccessDenied] * THREADS
    assert window.opened == 1
    # What was granted before serves on.
    assert post(endpoint.url, auth) == 415


def test_a_step_up_that_brings_too_little_is_tried_once(server, endpoint) -> None:
    server.needed_scope = {"add": "write"}
    server.granted = lambda scope: "read"
    window = Window()
    window.all = 1
    auth = asking(window, scopes=["read"])
    assert post(endpoint.url, auth) == 415
    window.opened, window.all = 0, THREADS
    assert at_once(endpoint.url, auth, TOOL) == [InsufficientScope] * THREADS
    assert window.opened == 1


def test_who_waits_with_another_question_has_it_asked() -> None:
    turn = Turn()
    answers: list[Any] = []
    refusal = AccessDenied("no")
    questions = [frozenset({"a"}), frozenset({"a"}), frozenset({"b"}), None]

    def wait(scopes: Any) -> None:
        with turn.taken(Errand(), "the login", scopes) as taker:
            try:
                answers.append((scopes, taker.answer()))
            except AccessDenied as error:
                # Each has its own copy, which it may add to.
                answers.append((scopes, error is not refusal and str(error)))

    with turn.taken(Errand(), "the login", frozenset({"a"})) as asker:
        threads = [threading.Thread(target=wait, args=(scopes,)) for scopes in questions]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 10
        while turn.takers < 5 and time.monotonic() < until:
            time.sleep(0.01)
        turn.tell(asker, None, refusal)
        assert asker.error is None
    for thread in threads:
        thread.join()
    expected = [(frozenset({"a"}), "no"), (frozenset({"a"}), "no"), (frozenset({"b"}), None), (None, None)]
    assert sorted(answers, key=repr) == sorted(expected, key=repr)
    assert turn.takers == 0


@pytest.mark.parametrize("life", [0, 0.001])
def test_a_token_without_a_life_is_got_once_for_all_that_wait(server, endpoint, life) -> None:
    server.lifetime = life
    window = Window()
    auth = asking(window)
    assert at_once(endpoint.url, auth) == [415] * THREADS
    assert window.opened == 1
    window.all = 1
    assert post(endpoint.url, auth) == 415
    assert window.opened == 1


@pytest.mark.parametrize("refreshes", [True, False])
def test_a_token_without_a_life_that_is_refused_costs_one_login_a_call_and_a_clear_error(
    server, endpoint, refreshes
) -> None:
    server.lifetime = 0
    server.gives_refresh_tokens = refreshes
    window = Window()
    window.all = 1
    auth = asking(window)
    assert post(endpoint.url, auth) == 415
    server.refuses_tokens = True
    for number in (2, 3):
        with pytest.raises(AuthError, match="it had expired by then: tokens are given too short a life"):
            post(endpoint.url, auth)
        assert window.opened == number
    assert server.asked["refresh_token"] <= 12


def test_a_login_that_nobody_does_ends_for_all_that_wait_at_the_same_time(server, endpoint) -> None:
    window = Window(lambda url: True)
    auth = asking(window, timeout=1.5)
    assert at_once(endpoint.url, auth) == [AuthorizationRequired] * THREADS
    assert window.opened == 1


def test_a_code_that_is_refused_is_shown_once(server, endpoint) -> None:
    shown: list[Any] = []
    codes = {"device_code": "d", "user_code": "AB", "verification_uri": "https://x.example/d", "interval": 0}
    server.metadata = {"device_authorization_endpoint": server.issuer + "/register"}
    server._register = lambda request: json_reply(codes)  # type: ignore[method-assign]
    auth = DeviceCode("app", show=shown.append)

    def refused(form: dict[str, str]) -> Any:
        (access,) = auth._accesses.values()
        is_over = access.turn.takers == THREADS
        return json_reply({"error": "access_denied" if is_over else "authorization_pending"}, 400)

    server.on_token = refused
    assert at_once(endpoint.url, auth) == [AccessDenied] * THREADS
    assert len(shown) == 1


def test_a_caller_without_time_leaves_the_login_to_the_others(server, endpoint) -> None:
    agreed = threading.Event()
    auth = OAuth(interaction=LoopbackBrowser(open=lambda url: agreed.wait(20) and visit(url), timeout=30))
    with pytest.raises(CallTimeout), Client(endpoint.url, auth=auth, timeout=0.5):
        pass
    agreed.set()
    assert post(endpoint.url, auth) == 415

"""Subscriptions in forked children, and under signals."""

from __future__ import annotations

import gc
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from concurrency.striking import strike_at
from engine.background import Background, wait_until

from mcp_sync import Client, Forked, ToolsChanged
from mcp_sync.testing import Listening

from .places import LEGACY, MODERN, PATIENCE, SOON, URI, Place, make_server

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
]


def in_child(function: Any) -> int:
    """Run a function in a forked child; return the exit code, 0 where it is true."""
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            code = 0 if function() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("place", [MODERN[0], LEGACY[0]], ids=str)
def test_in_a_forked_child_it_is_dead_and_the_parent_notices_nothing(place: Place) -> None:
    server = make_server()
    with place.client(server) as client, client.listen(tools=True, resources=[URI]) as events:

        def child() -> bool:
            try:
                events.next(0.1)
            except Forked:
                pass
            else:
                return False
            events.close()
            with pytest.raises(Forked):
                next(iter(events))
            return client._engine.plan.listeners == 0 and not list(client._engine.plan.subscriptions)

        assert in_child(child) == 0
        server.tools_changed()
        assert events.next(PATIENCE) == ToolsChanged()
        if place.is_modern:
            server.wait_for_subscriptions(1)


class Struck(Exception):
    """What the handler raises."""


@pytest.fixture
def alarm() -> Iterator[None]:
    def strike(number: int, frame: Any) -> None:
        raise Struck

    before = signal.signal(signal.SIGUSR1, strike)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("alarm")
def test_a_signal_interrupts_the_loop_and_the_next_event_still_comes() -> None:
    server = make_server()
    with MODERN[0].client(server) as client, client.listen(tools=True) as events:
        main = threading.get_ident()

        def strike() -> None:
            wait_until(lambda: events._feed._news._latches)
            signal.pthread_kill(main, signal.SIGUSR1)

        striker = Background(strike)
        with pytest.raises(Struck):
            next(events)
        striker.join()
        server.tools_changed()
        assert next(events) == ToolsChanged()


# A connection that is dropped between two steps is closed by the garbage collector, which warns of it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="signals are looked for at more points, unsafe ones")
@pytest.mark.parametrize("place", [MODERN[0], MODERN[1], LEGACY[0]], ids=str)
def test_a_handler_that_raises_at_any_point_leaves_no_subscription_behind(place: Place) -> None:
    server = make_server()
    # The server belongs to another thread: here its locks, too, would be struck.
    wishes: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def serve() -> None:
        for _ in iter(wishes.get, None):
            server.tools_changed()

    def watch() -> Any:
        with client.listen(tools=True) as events:
            wishes.put("a change")
            return events.next(PATIENCE)

    with place.client(server) as client:
        serving = Background(serve)
        number = 1
        while strike_at(number, watch):
            gc.collect()
            wait_until(lambda: not any(thread.name.endswith("-listen") for thread in threading.enumerate()))
            server.wait_for_subscriptions(0)
            assert Background(watch).result() == watch() == ToolsChanged(), number
            number += 13
        wishes.put(None)
        serving.join()
    assert number > 50


@pytest.mark.usefixtures("alarm")
def test_a_signal_while_the_acknowledgement_is_waited_for_ends_the_subscription() -> None:
    server = make_server()
    server.listen_with(Listening(acknowledges=False))
    with server.serve_http() as endpoint, Client(endpoint.url, retry=SOON, mode="2026-07-28") as client:
        main = threading.get_ident()

        def strike() -> None:
            server.wait_for_subscriptions()
            signal.pthread_kill(main, signal.SIGUSR1)

        striker = Background(strike)
        with pytest.raises(Struck):
            client.listen(tools=True)
        striker.join()
        server.wait_for_subscriptions(0)

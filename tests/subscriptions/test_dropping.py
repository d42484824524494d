"""Subscriptions that break off, and servers that do not keep the rules."""

from __future__ import annotations

import gc
import logging
import threading
import time
from contextlib import suppress
from typing import Any

import pytest
from engine.background import Background, wait_until
from engine.scripted import DuplexTarget, PostTarget, legacy, modern, refusal

from mcp_sync import (
    CallTimeout,
    Client,
    ClientSession,
    ConnectFailed,
    ConnectionLost,
    HTTPStatusError,
    InMemory,
    InvalidResult,
    Limits,
    MessageTooLarge,
    MethodNotFound,
    NotSupported,
    PromptsChanged,
    ResourceUpdated,
    Resync,
    Retry,
    SessionExpired,
    StreamableHTTP,
    Timeouts,
    ToolsChanged,
    types,
)
from mcp_sync.subscriptions import Interest, Subscription
from mcp_sync.testing import HTTPReply, Listening

from .places import LEGACY, MODERN, PATIENCE, SOON, URI, ListeningTarget, Place, make_server, stamp

every_modern = pytest.mark.parametrize("place", MODERN, ids=str)
TOOLS_CHANGED = "notifications/tools/list_changed"
GONE = ConnectionLost("the server exited with code 9", returncode=9)


def warnings(caplog: Any) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


# --- drops, and opening again ---------------------------------------------------------------------------


@pytest.mark.parametrize("place", [each for each in MODERN if each.channel != "websocket"], ids=str)
def test_a_drop_is_opened_again_and_told_once(place: Place) -> None:
    server = make_server()
    with place.client(server) as client, client.listen(tools=True) as events:
        for _ in range(3):
            server.wait_for_subscriptions()
            server.tools_changed()
            assert events.next(PATIENCE) == ToolsChanged()
            server.drop_subscriptions()
            assert events.next(PATIENCE) == Resync()
        server.tools_changed()
        assert events.next(PATIENCE) == ToolsChanged()
        assert events.ended is None


def test_a_connection_that_breaks_in_the_middle_is_opened_again() -> None:
    server = make_server()
    with server.serve_http() as endpoint, Client(endpoint.url, retry=SOON) as client:
        events = client.listen(resources=[URI])
        server.wait_for_subscriptions()
        endpoint.drop_connections()
        assert events.next(PATIENCE) == Resync()
        server.resource_updated(URI)
        assert events.next(PATIENCE) == ResourceUpdated(URI)


def test_a_server_process_that_died_is_started_again() -> None:
    target = ListeningTarget()
    with Client(target, retry=SOON) as client, client.listen(tools=True) as events:
        target.now.lose(GONE)
        assert events.next(PATIENCE) == Resync()
        first, second = target.channels
        request = second.expect("subscriptions/listen")
        assert request["params"]["notifications"] == {"toolsListChanged": True}
        assert request["id"] != first.expect("subscriptions/listen")["id"]
        second.notify(TOOLS_CHANGED, _meta=stamp(request))
        assert events.next(PATIENCE) == ToolsChanged()


def test_a_session_does_not_open_again_what_all_calls_share() -> None:
    target = ListeningTarget()
    with ClientSession(target, retry=SOON) as session:
        session.discover()
        events = session.listen(tools=True)
        target.now.lose(GONE)
        with pytest.raises(ConnectionLost, match="code 9"):
            events.next(PATIENCE)
        assert events.ended == "failed"
    assert len(target.channels) == 1


def test_it_is_given_up_when_the_server_stays_away(caplog: Any) -> None:
    server = make_server()
    retry = Retry(backoff=0.001, listen=3)
    with server.serve_http() as endpoint, Client(endpoint.url, retry=retry) as client:
        events = client.listen(tools=True)
        server.wait_for_subscriptions()
        server.tools_changed()
        wait_until(lambda: events._feed._events)
        endpoint.close()
        loop = Background(lambda: list(events))
        assert isinstance(loop.error(), ConnectFailed)
        assert isinstance(events.error, ConnectFailed)
        assert events.ended == "failed"
        for _ in range(2):
            with pytest.raises(ConnectFailed):
                events.next(PATIENCE)


def test_a_failed_subscription_with_a_callback_is_reported(caplog: Any) -> None:
    server = make_server()
    heard: list[Any] = []
    came = threading.Event()

    def handle(message: Any) -> None:
        if isinstance(message, Exception):
            heard.append(message)
            came.set()

    options: Any = {"retry": Retry(backoff=0.001, listen=0), "message_handler": handle}
    with server.serve_http() as endpoint, Client(endpoint.url, **options) as client:
        events = client.listen(tools=True, on_event=heard.append)
        server.wait_for_subscriptions()
        server.drop_subscriptions()
        assert came.wait(PATIENCE)
        assert events.ended == "failed"
    assert [type(each) for each in heard] == [ConnectionLost]
    assert any("given up" in text for text in warnings(caplog))


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (HTTPReply(401), HTTPStatusError),
        (HTTPReply(403), HTTPStatusError),
        (HTTPReply(404), HTTPStatusError),
    ],
)
def test_a_refusal_for_good_ends_it_at_once(reply: HTTPReply, kind: type[Exception]) -> None:
    server = make_server()
    with server.serve_http() as endpoint, Client(endpoint.url, retry=SOON) as client:
        events = client.listen(tools=True)
        server.wait_for_subscriptions()
        endpoint.intercept = lambda request: reply
        count = len(endpoint.requests)
        server.drop_subscriptions()
        with pytest.raises(kind, match=str(reply.status)):
            events.next(PATIENCE)
        assert len(endpoint.requests) == count + 1
        with pytest.raises(kind, match=str(reply.status)):
            client.listen(tools=True)
        assert len(endpoint.requests) == count + 2


def test_a_server_that_is_busy_at_first_is_asked_again() -> None:
    server = make_server()
    replies = [HTTPReply(503, {"retry-after": "0"}), HTTPReply(429)]
    with server.serve_http() as endpoint, Client(endpoint.url, retry=SOON) as client:
        client.list_tools()
        endpoint.intercept = lambda request: replies.pop(0) if replies else None
        events = client.listen(tools=True)
        assert events.honoured == Interest(tools=True)
        assert not replies


def test_a_server_that_closes_in_a_loop_is_asked_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp_sync._engine import listener

    waits: list[float] = []
    plain = listener.reopening_delay

    def note(*args: Any, **kwargs: Any) -> Any:
        wait = plain(*args, **kwargs)
        waits.append(wait)
        return 0.0 if len(waits) < 12 else 1000.0

    monkeypatch.setattr(listener, "reopening_delay", note)
    server = make_server()
    server.listen_with(Listening(ends_after=0, graceful=False))
    with MODERN[0].client(server, retry=Retry()) as client, client.listen(tools=True) as events:
        wait_until(lambda: len(waits) == 12)
        # Told as long as nobody has taken notice, and not once for each time.
        assert events.next(PATIENCE) == Resync()
        assert events.next(0.0) is None
    assert all(15.0 <= wait <= 45.0 for wait in waits[5:])
    assert waits[0] <= 1.5


@pytest.mark.parametrize("has_callback", [False, True])
def test_a_server_that_acknowledges_and_closes_for_ever_is_given_up(has_callback: bool) -> None:
    server = make_server()
    # The first one stands until it is dropped; all others end as soon as they are acknowledged.
    server.listen_with(Listening(), Listening(ends_after=0, graceful=False))
    faults: list[Any] = []
    came = threading.Event()

    def handle(message: Any) -> None:
        if isinstance(message, Exception):
            faults.append(message)
            came.set()

    options: Any = {"retry": Retry(backoff=0.001, listen=3), "message_handler": handle}
    with server.serve_http() as endpoint, Client(endpoint.url, **options) as client:
        told: list[Any] = []
        events = client.listen(tools=True, on_event=told.append if has_callback else None)
        server.wait_for_subscriptions()
        before = len(endpoint.requests)
        server.drop_subscriptions()
        if has_callback:
            assert came.wait(PATIENCE)
            assert set(told) == {Resync()}
        else:
            with pytest.raises(ConnectionLost, match="opened again 3 times in a row") as caught:
                list(events)
            faults.append(caught.value)
        assert events.ended == "failed"
        assert len(endpoint.requests) == before + 3
    (fault,) = faults
    assert isinstance(fault, ConnectionLost)
    assert "Retry.listen" in str(fault)
    assert "ask with calls, from time to time" in str(fault)
    assert isinstance(fault.__cause__, ConnectionLost)


def test_a_server_that_brings_an_event_each_time_is_not_given_up() -> None:
    server = make_server()
    server.listen_with(Listening(flood=1, ends_after=1, graceful=False))
    retry = Retry(backoff=0.001, longest_wait=0.001, listen=2)
    with MODERN[0].client(server, retry=retry) as client, client.listen(tools=True) as events:
        count = 0
        while count < 10:
            count += events.next(PATIENCE) == ToolsChanged()
        assert events.ended is None


def test_a_stream_of_the_session_that_never_stays_open_is_given_up() -> None:
    server = make_server()

    def empty(request: Any) -> Any:
        if request.method == "GET" and is_tired.is_set():
            return HTTPReply(200, {"content-type": "text/event-stream"}, b": at once\n\n")
        return None

    is_tired = threading.Event()
    retry = Retry(backoff=0.001, resume=1, listen=3)
    with (
        server.serve_http(intercept=empty) as endpoint,
        Client(endpoint.url, mode="legacy", retry=retry) as client,
    ):
        events = client.listen(tools=True)
        is_tired.set()
        endpoint.drop_connections()
        with pytest.raises(ConnectionLost, match="opened again 3 times in a row"):
            list(events)
        assert events.ended == "failed"
        # The session itself is fine.
        assert client.list_tools().tools == []


def brief_streams(body: bytes, opened: threading.Event) -> Any:
    """Have each stream of the server's own but the first end as soon as it has brought a body."""

    def intercept(request: Any) -> Any:
        if request.method != "GET":
            return None
        if not opened.is_set():
            opened.set()
            return None
        return HTTPReply(200, {"content-type": "text/event-stream"}, b"retry: 0\n" + body)

    return intercept


@pytest.mark.parametrize(
    "body",
    [
        b'data: {"jsonrpc":"2.0","id":1,"method":"ping"}\n\n',
        b'data: {"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}\n\n',
        b'data: {"odd":1}\n\n',
    ],
    ids=["ping", "another event", "no message"],
)
def test_a_stream_of_the_session_that_ends_for_ever_without_an_event_is_given_up(body: bytes) -> None:
    server, opened = make_server(), threading.Event()
    retry = Retry(backoff=0.001, listen=3)
    with (
        server.serve_http(intercept=brief_streams(body, opened)) as endpoint,
        Client(endpoint.url, mode="legacy", retry=retry) as client,
    ):
        events = client.listen(tools=True)
        assert opened.wait(PATIENCE)
        endpoint.drop_connections()
        with pytest.raises(ConnectionLost, match="opened again 3 times in a row") as caught:
            list(events)
        assert "Retry.listen" in str(caught.value)
        assert client.list_tools().tools == []


def test_a_stream_of_the_session_that_ends_for_ever_with_an_event_is_asked_ever_more_rarely() -> None:
    server, opened = make_server(), threading.Event()
    change = b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'
    with (
        server.serve_http(intercept=brief_streams(change, opened)) as endpoint,
        Client(endpoint.url, mode="legacy", retry=Retry(backoff=0.001, listen=1)) as client,
    ):
        events = client.listen(tools=True)
        assert opened.wait(PATIENCE)
        endpoint.drop_connections()
        began, count = time.monotonic(), 0
        while count < 6:
            count += events.next(PATIENCE) == ToolsChanged()
        # Between the six streams there were 0.02 + 0.04 + 0.08 + 0.16 + 0.32 s at least.
        assert time.monotonic() - began >= 0.6
        assert events.ended is None


@pytest.mark.parametrize("who", ["subscription", "client", "nobody"])
def test_a_pause_before_the_next_attempt_holds_nobody_up(who: str) -> None:
    server = make_server()
    retry = Retry(backoff=1000.0, longest_wait=1000.0)
    with server.serve_http() as endpoint:
        client = Client(endpoint.url, retry=retry, name="patient")
        events = client.listen(tools=True, on_event=lambda event: None)
        server.wait_for_subscriptions()
        server.drop_subscriptions()
        listener = events._listener
        wait_until(lambda: listener.changed._latches)
        if who != "nobody":
            (events if who == "subscription" else client).close()
            assert events.ended == "closed"
        else:
            del client
            gc.collect()
        wait_until(lambda: not any(thread.is_alive() for thread in listener.threads))


# --- bad servers ----------------------------------------------------------------------------------------


@every_modern
def test_a_server_that_never_acknowledges_is_waited_for_no_longer_than_asked(place: Place) -> None:
    server = make_server()
    server.listen_with(Listening(acknowledges=False))
    with place.client(server) as client:
        with pytest.raises(CallTimeout, match=r"did not acknowledge the subscription within 0\.2 s"):
            client.listen(tools=True, timeout=0.2)
        server.wait_for_subscriptions(0)


@every_modern
def test_without_a_timeout_the_silence_bounds_the_acknowledgement(place: Place) -> None:
    server = make_server()
    server.listen_with(Listening(acknowledges=False))
    client_with = place.client(server, timeouts=Timeouts(silence=0.2))
    with client_with as client, pytest.raises(CallTimeout, match="did not acknowledge"):
        client.listen(tools=True)


def listen_within(seconds: float, client: Client) -> Subscription:
    """Listen, as soon as the machine is quick enough for an acknowledgement in that time."""
    while True:
        with suppress(CallTimeout):
            return client.listen(tools=True, timeout=seconds)


@every_modern
def test_the_time_for_the_acknowledgement_does_not_bound_the_subscription(place: Place) -> None:
    server = make_server()
    with place.client(server, timeouts=Timeouts(silence=0.1, total=0.2)) as client:
        events = listen_within(0.3, client)
        assert events.next(0.6) is None
        server.tools_changed()
        assert events.next(PATIENCE) == ToolsChanged()
        server.wait_for_subscriptions(1)


def test_a_drop_whose_reopening_is_never_acknowledged_is_given_up() -> None:
    server = make_server()
    with MODERN[0].client(server, retry=Retry(backoff=0.001, listen=2)) as client:
        events = listen_within(0.2, client)
        server.listen_with(Listening(acknowledges=False))
        server.drop_subscriptions()
        with pytest.raises(CallTimeout, match=r"did not acknowledge the subscription within 0\.2 s"):
            events.next(PATIENCE)
        server.wait_for_subscriptions(0)


@every_modern
def test_what_comes_ahead_of_the_acknowledgement_is_kept_and_warned_of(place: Place, caplog: Any) -> None:
    server = make_server()
    early = [(TOOLS_CHANGED, {}), ("notifications/prompts/list_changed", {}), (TOOLS_CHANGED, {})]
    server.listen_with(Listening(early=early))
    with place.client(server) as client, client.listen(tools=True) as events:
        assert [events.next(PATIENCE) for _ in range(2)] == [ToolsChanged()] * 2
        assert events.next(0.0) is None
    assert warnings(caplog) == ["The server sent an event ahead of the acknowledgement of its subscription"]


@every_modern
def test_a_server_that_honours_less_is_listened_to_all_the_same(place: Place, caplog: Any) -> None:
    server = make_server()
    server.listen_with(Listening(honours=["promptsListChanged"]))
    with place.client(server) as client, client.listen(tools=True, prompts=True) as events:
        assert events.honoured == Interest(prompts=True)
        server.prompts_changed()
        assert events.next(PATIENCE) == PromptsChanged()
    assert warnings(caplog) == ["The server has not agreed to tell of tools"]


def test_a_resource_that_is_not_honoured_cannot_be_subscribed_to() -> None:
    server = make_server()
    server.listen_with(Listening(honours=[]))
    with MODERN[0].client(server) as client:
        with pytest.raises(NotSupported, match="does not tell of changes"):
            client.subscribe_resource(URI)
        server.wait_for_subscriptions(0)


@every_modern
def test_a_server_that_ends_it_before_it_began_breaks_the_rules(place: Place) -> None:
    server = make_server()
    server.listen_with(Listening(acknowledges=False, ends_after=0))
    with place.client(server) as client, pytest.raises(InvalidResult, match="before it had acknowledged"):
        client.listen(tools=True)


def test_a_server_without_subscriptions_says_so() -> None:
    target = DuplexTarget(modern(subscriptions_listen=lambda request: refusal(-32601)))
    with Client(target) as client, pytest.raises(MethodNotFound):
        client.listen(tools=True)


@pytest.mark.parametrize(
    "notifications",
    [None, 7, [], {"toolsListChanged": "yes"}, {"toolsListChanged": 1, "resourceSubscriptions": "demo://a"}],
)
def test_an_acknowledgement_that_cannot_be_read_grants_nothing(notifications: Any) -> None:
    target = DuplexTarget(modern(subscriptions_listen=lambda request: None))
    with Client(target) as client:
        opened = Background(client.listen, tools=True, resources=[URI])
        request = target.now.expect("subscriptions/listen")
        params: Any = {"_meta": stamp(request)}
        if notifications is not None:
            params["notifications"] = notifications
        target.now.notify("notifications/subscriptions/acknowledged", **params)
        with opened.result() as events:
            assert events.honoured == Interest()


def test_what_belongs_to_nobody_or_to_another_is_no_event() -> None:
    target = ListeningTarget()
    with Client(target) as client, client.listen(tools=True) as first, client.listen(tools=True) as second:
        one, _ = target.now.expect("subscriptions/listen", count=2)
        target.now.notify(TOOLS_CHANGED)
        target.now.notify(TOOLS_CHANGED, _meta={"io.modelcontextprotocol/subscriptionId": "unknown"})
        target.now.notify(TOOLS_CHANGED, _meta={"io.modelcontextprotocol/subscriptionId": [1]})
        target.now.notify("notifications/resources/updated", _meta=stamp(one))
        target.now.notify("notifications/resources/updated", uri=7, _meta=stamp(one))
        target.now.say({"jsonrpc": "2.0", "method": TOOLS_CHANGED, "params": [1]})
        target.now.notify(TOOLS_CHANGED, _meta=stamp(one))
        target.now.sync()
        assert first.next(PATIENCE) == ToolsChanged()
        assert first.next(0.0) is None
        assert second.next(0.0) is None


def test_a_subscription_that_the_server_cancels_has_ended_in_good_order() -> None:
    target = ListeningTarget()
    with Client(target) as client:
        events = client.listen(tools=True)
        request = target.now.expect("subscriptions/listen")
        target.now.notify("notifications/cancelled", requestId=request["id"], reason="shutting down")
        assert list(events) == []
        assert events.ended == "graceful"
        assert target.now.received("notifications/cancelled") == []


def test_closing_on_a_shared_channel_sends_a_cancellation() -> None:
    target = ListeningTarget()
    with Client(target) as client:
        client.listen(tools=True).close()
        request = target.now.expect("subscriptions/listen")
        cancelled = target.now.expect("notifications/cancelled")
        assert cancelled["params"]["requestId"] == request["id"]


@pytest.mark.parametrize("place", [MODERN[0], MODERN[2]], ids=str)
def test_a_flood_waits_for_a_slow_consumer(place: Place) -> None:
    server = make_server()
    server.listen_with(Listening(flood=10_000))
    with place.client(server, limits=Limits(queue_length=10)) as client:
        events = client.listen(tools=True, prompts=True)
        wait_until(lambda: len(events._feed._events) == 10)
        got = []
        for event in events:
            assert len(events._feed._events) <= 10
            got.append(event)
            if len(got) == 20_000:
                break
        assert got.count(ToolsChanged()) == got.count(PromptsChanged()) == 10_000


def test_a_flood_can_be_closed_while_the_reader_waits() -> None:
    server = make_server()
    server.listen_with(Listening(flood=10_000))
    with MODERN[0].client(server, limits=Limits(queue_length=10)) as client:
        events = client.listen(tools=True)
        wait_until(lambda: len(events._feed._events) == 10)
        events.close()
        server.wait_for_subscriptions(0)


@pytest.mark.parametrize("place", [MODERN[1], *LEGACY], ids=str)
def test_a_flood_on_a_shared_channel_holds_nobody_up(place: Place) -> None:
    server = make_server()
    with place.client(server, limits=Limits(queue_length=10)) as client:
        events = client.listen(tools=True, prompts=True)
        for _ in range(1000):
            server.tools_changed()
            server.prompts_changed()
        assert client.list_tools().tools == []
        wait_until(lambda: events._feed._events)
        kinds = set()
        while (event := events.next(0.2)) is not None:
            kinds.add(event)
        assert kinds == {ToolsChanged(), PromptsChanged()}


def test_more_different_events_than_may_wait_become_one_resync(caplog: Any) -> None:
    target = ListeningTarget()
    with Client(target, limits=Limits(queue_length=3)) as client:
        events = client.listen(resources=["demo://"])
        request = target.now.expect("subscriptions/listen")
        for number in range(100):
            target.now.notify("notifications/resources/updated", uri=f"demo://{number}", _meta=stamp(request))
        target.now.sync()
        got = []
        while (event := events.next(0.0)) is not None:
            got.append(event)
        assert got[0] == Resync()
        assert got[-1] in (Resync(), ResourceUpdated("demo://99"))
        assert len(got) <= 3
    assert any("Resync replaces them" in text for text in warnings(caplog))


# --- sessions ---------------------------------------------------------------------------------------------


def test_a_session_that_was_lost_is_opened_again_and_subscribed_again() -> None:
    server = make_server()
    with server.serve_http() as endpoint, Client(endpoint.url, mode="legacy", retry=SOON) as client:
        events = client.listen(tools=True, resources=[URI])
        endpoint.expire_sessions()
        assert events.next(PATIENCE) == Resync()
        wait_until(lambda: any(URI in each.subscribed for each in server.connections if each.version))
        server.resource_updated(URI)
        assert events.next(PATIENCE) == ResourceUpdated(URI)
        assert events.honoured == Interest(tools=True, resources=(URI,))


def test_a_stream_of_the_session_that_broke_is_told_where_the_server_keeps_no_events() -> None:
    server = make_server()
    with server.serve_http() as endpoint, Client(endpoint.url, mode="legacy", retry=SOON) as client:
        events = client.listen(tools=True)
        endpoint.drop_connections()
        assert events.next(PATIENCE) == Resync()
        server.tools_changed()
        assert events.next(PATIENCE) == ToolsChanged()


def test_a_stream_of_the_session_that_was_taken_up_where_it_broke_has_no_gap() -> None:
    server = make_server()
    with (
        server.serve_http(event_ids=True) as endpoint,
        Client(endpoint.url, mode="legacy", retry=SOON) as client,
    ):
        events = client.listen(tools=True)
        server.tools_changed()
        assert events.next(PATIENCE) == ToolsChanged()
        endpoint.drop_connections()
        server.tools_changed()
        assert events.next(PATIENCE) == ToolsChanged()
        assert events.next(0.0) is None


@pytest.mark.parametrize("status", [401, 404, 405, 500, 501])
def test_a_stream_that_never_stood_is_gone_without(status: int, caplog: Any) -> None:
    server = make_server()

    def refuse(request: Any) -> Any:
        return HTTPReply(status) if request.method == "GET" else None

    with server.serve_http(intercept=refuse) as endpoint:
        client = Client(endpoint.url, mode="legacy", retry=SOON)
        with client, client.listen(tools=True, resources=[URI]) as events:
            assert events.honoured == Interest()
            assert events.next(0.0) is None
            assert events.ended is None
    assert any("no stream of its own" in text for text in warnings(caplog))


def test_a_stream_that_had_stood_is_tried_again_until_it_stands() -> None:
    server = make_server()
    replies = [HTTPReply(503), HTTPReply(500), HTTPReply(503)]

    def refuse(request: Any) -> Any:
        return replies.pop() if request.method == "GET" and is_down.is_set() and replies else None

    is_down = threading.Event()
    with server.serve_http(intercept=refuse) as endpoint:
        client = Client(endpoint.url, mode="legacy", retry=SOON)
        with client, client.listen(tools=True) as events:
            is_down.set()
            endpoint.drop_connections()
            assert events.next(PATIENCE) == Resync()
            assert not replies
            server.tools_changed()
            assert events.next(PATIENCE) == ToolsChanged()
            assert len(endpoint.sessions) == 1


def test_a_server_without_a_stream_of_its_own_is_heard_during_calls(caplog: Any) -> None:
    server = make_server()
    with (
        server.serve_http(get_stream=False) as endpoint,
        Client(endpoint.url, mode="legacy", retry=SOON) as client,
    ):
        events = client.listen(tools=True)
        assert events.honoured == Interest()
        assert events.next(0.0) is None
        assert events.ended is None
    assert any("no stream of its own" in text for text in warnings(caplog))


def test_a_head_that_is_held_back_is_waited_for_only_a_second() -> None:
    server = make_server()
    released = threading.Event()

    def hold(request: Any) -> Any:
        if request.method == "GET":
            released.wait(PATIENCE)

    with (
        server.serve_http(intercept=hold) as endpoint,
        Client(endpoint.url, mode="legacy", retry=SOON) as client,
    ):
        events = client.listen(tools=True)
        assert not released.is_set()
        released.set()
        server.tools_changed()
        assert events.next(PATIENCE) == ToolsChanged()


def test_a_resource_that_the_server_refuses_is_not_honoured(caplog: Any) -> None:
    offers = {"resources": {"subscribe": True}}

    def subscribe(request: Any) -> Any:
        return refusal(-32002) if request["params"]["uri"] == URI else {}

    target = DuplexTarget(legacy(resources_subscribe=subscribe, resources_unsubscribe=lambda request: {}))
    result = {**target.scripts["initialize"]({}), "capabilities": offers}
    target.scripts["initialize"] = lambda request: result
    with Client(target, mode="legacy") as client:
        events = client.listen(resources=[URI, "demo://b"])
        assert events.honoured == Interest(resources=("demo://b",))
        target.now.notify("notifications/resources/updated", uri="demo://b/part")
        target.now.notify("notifications/resources/updated", uri="demo://c")
        assert events.next(PATIENCE) == ResourceUpdated("demo://b/part")
        events.close()
        uris = [each["params"]["uri"] for each in target.now.received("resources/unsubscribe")]
        assert uris == ["demo://b"]
    assert warnings(caplog) == ["The server has not agreed to tell of 1 of 2 resources"]


def test_a_session_that_ends_for_good_fails_the_subscription() -> None:
    server = make_server()
    with server.serve_http() as endpoint, ClientSession(StreamableHTTP(endpoint.url), retry=SOON) as session:
        session.initialize()
        events = session.listen(tools=True)
        endpoint.expire_sessions()
        with pytest.raises(SessionExpired):
            events.next(PATIENCE)


def test_the_message_handler_sees_what_a_subscription_brings() -> None:
    server = make_server()
    heard: list[Any] = []
    with Client(InMemory(server), message_handler=heard.append) as client:
        events = client.listen(tools=True)
        server.tools_changed()
        assert events.next(PATIENCE) == ToolsChanged()
    kinds = [type(message) for message in heard]
    assert kinds == [types.SubscriptionsAcknowledgedNotification, types.ToolListChangedNotification]


def test_a_hook_of_the_user_that_fails_reaches_the_consumer() -> None:
    server = make_server()
    calls: list[Any] = []

    def sign(request: Any) -> Any:
        calls.append(request)
        if calls[2:]:
            raise RuntimeError("the key is gone")
        return request

    with server.serve_http() as endpoint, Client(endpoint.url, retry=SOON, auth=sign) as client:
        events = client.listen(tools=True)
        server.wait_for_subscriptions()
        server.drop_subscriptions()
        with pytest.raises(RuntimeError, match="the key is gone"):
            events.next(PATIENCE)


def test_a_stream_that_comes_later_makes_good_what_was_agreed() -> None:
    server = make_server()
    is_down = threading.Event()
    is_down.set()

    def refuse(request: Any) -> Any:
        return HTTPReply(405) if request.method == "GET" and is_down.is_set() else None

    with server.serve_http(intercept=refuse) as endpoint:
        client = Client(endpoint.url, mode="legacy", retry=SOON)
        with client, client.listen(tools=True) as first:
            assert first.honoured == Interest()
            is_down.clear()
            with client.listen(tools=True) as second:
                assert second.honoured == Interest(tools=True)
                wait_until(lambda: first.honoured == Interest(tools=True))
                server.tools_changed()
                assert first.next(PATIENCE) == second.next(PATIENCE) == ToolsChanged()


@pytest.mark.parametrize("kind", [DuplexTarget, PostTarget])
def test_an_end_before_any_acknowledgement_is_a_fault(kind: Any) -> None:
    target = kind(modern(subscriptions_listen=lambda request: {"tools": []}))
    with Client(target) as client, pytest.raises(InvalidResult, match="before it had acknowledged"):
        client.listen(tools=True)


@pytest.mark.parametrize("kind", ["input_required", "task", "odd"])
def test_an_end_that_is_not_final_is_no_end_in_good_order(kind: str) -> None:
    target = ListeningTarget()
    with Client(target) as client:
        events = client.listen(tools=True)
        target.now.answer(target.now.expect("subscriptions/listen"), {"resultType": kind, "taskId": "t"})
        with pytest.raises(InvalidResult, match=f"a result of the kind '{kind}'"):
            list(events)
        assert events.ended == "failed"


def test_an_event_that_is_too_large_each_time_ends_the_subscription(caplog: Any) -> None:
    target = ListeningTarget()
    attempts: list[Any] = []

    def grow(request: Any) -> Any:
        attempts.append(request)
        target.now.lose(MessageTooLarge("an event has more than 100 bytes", limit=100))

    target.scripts = modern(subscriptions_listen=grow)
    with Client(target, retry=Retry(listen=3, backoff=0.001)) as client:
        events = client.listen(tools=True)
        with pytest.raises(MessageTooLarge):
            while events.next(PATIENCE) == Resync():
                pass
        assert events.ended == "failed"
    # Opened, and opened again three times.
    assert len(attempts) == 4
    assert len([text for text in warnings(caplog) if "more than 100 bytes" in text]) == 1

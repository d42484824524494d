"""Extensions: what they declare, their methods, results that they finish, and their notifications."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from pydantic import BaseModel

from mcp_sync import CancelToken, Client
from mcp_sync._concurrency import deadline
from mcp_sync.errors import CallCancelled, CallTimeout, InvalidResult, RemoteError, UsageError
from mcp_sync.extensions import Extension, Method

from .background import Background
from .scripted import DuplexTarget, PostTarget, modern, refusal, text


class Counted(BaseModel):
    method: str
    params: dict[str, Any]


class Queue(Extension):
    """A server may answer a call with a ticket; the result is collected later."""

    identifier = "com.example/queue"
    methods = (
        Method("queue/collect", name_param="ticket", idempotent=True),
        Method("queue/leave", name_param="ticket"),
    )
    result_types = {"ticket": ("tools/call",)}
    notifications = {"notifications/queue/moved": Counted}

    def __init__(self):
        self.seen = []
        self.told = threading.Event()

    def settings(self):
        return {"patience": 3}

    def finish(self, interim):
        try:
            while True:
                interim.report(1, 2, "waiting")
                result = interim.call("queue/collect", {"ticket": interim.result["ticket"]})
                if result["resultType"] == "complete":
                    return result
                interim.pause(result.get("seconds", 0))
        except (CallTimeout, CallCancelled):
            interim.tell("queue/leave", {"ticket": interim.result["ticket"]})
            raise

    def notified(self, session, notification):
        self.seen.append((session, notification))
        self.told.set()


def ticket(request):
    return {"resultType": "ticket", "ticket": "7"}


def answers(*collected):
    turn = iter(collected)
    return modern(tools_call=ticket, queue_collect=lambda request: next(turn))


@pytest.fixture(params=[DuplexTarget, PostTarget])
def kind(request):
    return request.param


def test_its_settings_are_declared_with_each_request(kind):
    target = kind(answers({**text("done"), "resultType": "complete"}))
    with Client(target, extensions=[Queue()]) as client:
        assert client.call_tool("x").text == "done"
    for method in ("server/discover", "tools/call", "queue/collect"):
        meta = target.now.received(method)[0]["params"]["_meta"]
        declared = meta["io.modelcontextprotocol/clientCapabilities"]["extensions"]
        assert declared == {"com.example/queue": {"patience": 3}}


def test_a_result_of_its_kind_is_finished_and_progress_is_seen_before_the_call_returns(kind):
    waiting = {"resultType": "waiting", "seconds": 0}
    target = kind(answers(waiting, waiting, {**text("done"), "resultType": "complete"}))

    class Patient(Queue):
        result_types = {"ticket": ("tools/call",), "waiting": ("queue/collect",)}

        def finish(self, interim):
            if interim.method == "queue/collect":
                return {"resultType": "waiting", "seconds": 0}
            return super().finish(interim)

    seen = []
    with Client(target, extensions=[Patient()]) as client:
        result = client.call_tool("x", progress_callback=lambda *values: seen.append(values))
        assert result.text == "done"
        assert seen == [(1, 2, "waiting")] * 3
    assert [each["params"]["ticket"] for each in target.now.received("queue/collect")] == ["7"] * 3


def test_the_name_that_a_method_works_on_travels_in_a_header_too():
    target = PostTarget(answers({**text("done"), "resultType": "complete"}))
    with Client(target, extensions=[Queue()]) as client:
        client.call_tool("x")
        frame = next(frame for frame in target.now.frames if frame.method == "queue/collect")
    assert frame.headers["Mcp-Name"] == "7"


def test_without_the_extension_a_result_of_its_kind_is_refused(kind):
    with Client(kind(answers())) as client, pytest.raises(InvalidResult, match="ticket") as caught:
        client.call_tool("x")
    assert caught.value.result == {"resultType": "ticket", "ticket": "7"}


def test_a_method_that_may_not_bring_its_kind_of_result_is_refused(kind):
    target = kind(modern(tools_list=ticket))
    with Client(target, extensions=[Queue()]) as client, pytest.raises(InvalidResult, match="ticket"):
        client.list_tools()


def test_an_error_of_its_own_requests_is_that_of_the_call(kind):
    target = kind(modern(tools_call=ticket, queue_collect=lambda request: refusal(-32000, "closed")))
    with Client(target, extensions=[Queue()]) as client, pytest.raises(RemoteError, match="closed"):
        client.call_tool("x")


def test_a_cancelled_call_can_still_tell_the_server():
    target = DuplexTarget(modern(tools_call=ticket, queue_leave=lambda request: {"resultType": "complete"}))
    token = CancelToken()
    with Client(target, extensions=[Queue()]) as client:
        call = Background(client.call_tool, "x", cancel=token)
        target.now.expect("queue/collect")
        token.cancel()
        with pytest.raises(CallCancelled):
            call.result()
        assert target.now.expect("queue/leave")["params"]["ticket"] == "7"


class Waiting(Queue):
    """Does with each call what a test wants."""

    def __init__(self, wait):
        super().__init__()
        self.wait = wait

    def finish(self, interim):
        self.wait(interim)
        return {**text("done"), "resultType": "complete"}


def test_a_pause_ends_when_somebody_wakes_it_before_or_meanwhile(kind):
    interims, begun = [], threading.Event()

    def wait(interim):
        interim.wake()
        interim.pause(60)
        interims.append(interim)
        begun.set()
        interim.pause(60)

    with Client(kind(answers()), extensions=[Waiting(wait)]) as client:
        call = Background(client.call_tool, "x")
        assert begun.wait(10)
        interims[0].wake()
        assert call.result().text == "done"


def test_a_pause_that_takes_longer_than_the_call_may_last_says_so(kind):
    target = kind(answers())
    waiting = Waiting(lambda interim: interim.pause(60))
    with Client(target, extensions=[waiting]) as client, pytest.raises(CallTimeout) as caught:
        client.call_tool("x", timeout=0.02)
    assert (caught.value.timeout, caught.value.request_sent) == (0.02, True)


def test_reports_are_signs_of_life_and_silence_may_be_another_for_one_request(kind, monkeypatch):
    ahead = [0.0]
    monkeypatch.setattr(deadline, "_now", lambda: time.monotonic() + ahead[0])

    def wait(interim):
        for _ in range(4):
            ahead[0] += 40  # seconds: more than half of the silence that is allowed
            interim.report(1)
        with pytest.raises(CallTimeout):
            interim.call("queue/collect", {"ticket": "7"}, silence=0.02)

    target = kind(modern(tools_call=ticket, queue_collect=None))
    with Client(target, extensions=[Waiting(wait)]) as client:
        assert client.call_tool("x").text == "done"


def test_its_notifications_reach_it_and_the_message_handler_as_its_models():
    queue, handled = Queue(), []
    target = DuplexTarget(modern())
    with Client(target, extensions=[queue], message_handler=handled.append) as client:
        target.now.notify("notifications/queue/moved", place=2)
        assert queue.told.wait(5)
        client._engine.router.worker.drain(client._deadline(5), 5)
    assert queue.seen == [(client, Counted(method="notifications/queue/moved", params={"place": 2}))]
    assert handled == [queue.seen[0][1]]


def test_a_method_of_the_application_itself_is_called_by_its_row(kind):
    target = kind(answers({"resultType": "complete", "x": 1}))
    with Client(target, extensions=[Queue()]) as client:
        assert client.request("queue/collect", {"ticket": "1"})["x"] == 1


class Nameless(Extension):
    pass


class Thief(Extension):
    identifier = "com.example/thief"
    methods = (Method("tools/call"),)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ("io.modelcontextprotocol/tasks", "list of extensions"),
        (7, "list of extensions"),
        ([7], "not int"),
        ([Queue], "class Queue"),
        ([Queue(), Queue()], "two extensions claim"),
        ([Nameless()], "no identifier"),
        ([Thief()], "tools/call"),
        ({"x/y": 3}, "not str"),
    ],
)
def test_what_is_no_extension_is_refused(given, match):
    with pytest.raises(UsageError, match=match):
        Client(DuplexTarget(), extensions=given)


def test_identifiers_are_declared_alone():
    target = DuplexTarget(modern())
    with Client(target, extensions={"x/y": {"a": 1}}):
        meta = target.now.expect("server/discover")["params"]["_meta"]
    assert meta["io.modelcontextprotocol/clientCapabilities"]["extensions"] == {"x/y": {"a": 1}}


def test_what_is_declared_is_written_once_and_not_with_each_call(kind):
    class Settings(dict):
        written = 0

        def items(self):
            Settings.written += 1
            return super().items()

    class Declared(Extension):
        identifier = "com.example/declared"

        def settings(self):
            return {"deep": Settings(a=1)}

    target = kind(modern(tools_call=lambda request: text("done")))
    with Client(target, extensions=[Declared()]) as client:
        client.call_tool("x")
        before = Settings.written
        for _ in range(3):
            client.call_tool("x", {"a": 1})
        assert Settings.written == before
        # Beside what a caller has for this place, it is written like everything else.
        client.call_tool("x", meta={"trace": "t"})
    calls = target.now.received("tools/call")
    key = "io.modelcontextprotocol/clientCapabilities"
    for call in calls:
        assert call["params"]["_meta"][key]["extensions"] == {"com.example/declared": {"deep": {"a": 1}}}
    assert calls[-1]["params"]["_meta"]["trace"] == "t"

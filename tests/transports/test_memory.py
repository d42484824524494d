"""The in-memory channel: messages pass through JSON, on the caller's thread."""

from __future__ import annotations

import json
import threading
from typing import Any, Callable, Optional

import pytest

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._concurrency.pending import PendingCall
from mcp_sync._protocol.versions import LATEST_MODERN
from mcp_sync.errors import CallTimeout, ConnectionLost, MCPError, UsageError
from mcp_sync.options import Limits, Retry, Timeouts
from mcp_sync.testing import FakeServer
from mcp_sync.transports._base import Channel, Frame, Settings, Target, Wire
from mcp_sync.transports._memory import InMemory, MemoryChannel

Message = dict[str, Any]
Send = Callable[[Message], None]
Handle = Callable[[Message, Send], Optional[Message]]
SETTINGS = Settings("test", Timeouts(), Limits(), Retry())


class Engine:
    """Takes what the channel delivers, and settles calls as the real engine does."""

    def __init__(self) -> None:
        self.received: list[tuple[Any, Optional[PendingCall]]] = []

    def receive(self, message: Any, call: Optional[PendingCall] = None) -> None:
        self.received.append((message, call))
        if call is not None and "method" not in message and message.get("id") == call.id:
            call.settle(message)

    def lost(self, error: MCPError) -> None:
        raise AssertionError("the in-memory channel is never lost")

    def report(self, error: Exception) -> None:
        raise AssertionError("nothing to report")


class Server:
    """A server that is one function."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle


def opened(handle: Handle) -> tuple[MemoryChannel, Engine]:
    engine = Engine()
    channel = InMemory(Server(handle)).channel(SETTINGS)
    channel.start(engine, Deadline(5))
    return channel, engine


def answer(message: Message, send: Send) -> Message:
    return {"jsonrpc": "2.0", "id": message["id"], "result": {"echo": message}}


def frame(method: str, **members: Any) -> Frame:
    return Frame(json.dumps({"jsonrpc": "2.0", "method": method, **members}).encode(), method)


def begin(timeout: Optional[float] = 20) -> tuple[Frame, PendingCall]:
    return frame("m", id=1, params={"a": [1]}), PendingCall(1, "m", Deadline(timeout))


def test_the_target_and_the_channel_keep_their_contracts() -> None:
    target: Target = InMemory(FakeServer())
    channel: Channel = target.channel(SETTINGS)
    assert (channel.is_http, channel.duplex, channel.session_id) == (False, False, None)
    assert "in-memory" in channel.peer
    channel.configure(Wire())
    channel.abandon()


def test_a_target_needs_a_method_handle_and_shows_only_the_class_of_its_server() -> None:
    for wrong in (None, 5, object(), {"handle": print}):
        with pytest.raises(UsageError, match="handle"):
            InMemory(wrong)
    assert repr(InMemory(FakeServer())) == "InMemory(FakeServer)"


def test_two_targets_are_never_taken_for_one() -> None:
    server = FakeServer()
    first, second = InMemory(server), InMemory(server)
    assert first.identity() == first.identity() != second.identity()


def test_a_request_is_answered_on_the_callers_thread() -> None:
    threads: list[threading.Thread] = []

    def handle(message: Message, send: Send) -> Message:
        threads.append(threading.current_thread())
        return answer(message, send)

    channel, _ = opened(handle)
    request, call = begin()
    channel.request(request, call)
    assert call.request_sent is True
    assert call.result()["result"]["echo"]["params"] == {"a": [1]}
    assert threads == [threading.current_thread()]


def test_messages_pass_through_json_both_ways() -> None:
    mutable: Message = {"pair": (1, 2), "none": None}
    channel, _ = opened(lambda message, send: {"id": 1, "result": mutable})
    request, call = begin()
    channel.request(request, call)
    mutable.clear()
    assert call.result()["result"] == {"pair": [1, 2], "none": None}


def test_what_the_server_sends_meanwhile_belongs_to_the_call_and_later_to_nobody() -> None:
    kept: list[Send] = []

    def handle(message: Message, send: Send) -> Message:
        kept.append(send)
        send({"method": "notifications/progress", "params": {"t": (1,)}})
        return answer(message, send)

    channel, engine = opened(handle)
    request, call = begin()
    channel.request(request, call)
    kept[0]({"method": "notifications/later"})
    (progress, first), _, (later, last) = engine.received
    assert (progress["params"], first) == ({"t": [1]}, call)
    assert (later["method"], last) == ("notifications/later", None)
    channel.close(Deadline(1))
    kept[0]({"method": "notifications/too-late"})
    assert len(engine.received) == 3


def test_a_question_of_the_server_is_answered_through_another_thread() -> None:
    answered = threading.Event()
    given: list[Any] = []

    def handle(message: Message, send: Send) -> Optional[Message]:
        if "method" not in message:
            given.append(message["result"])
            answered.set()
            return None
        send({"id": 7, "method": "roots/list"})
        assert answered.wait(20)
        return answer(message, send)

    channel, _ = opened(handle)
    request, call = begin()

    def reply() -> None:
        channel.send(Frame(b'{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}'), Deadline(5))

    thread = threading.Thread(target=reply)
    thread.start()
    channel.request(request, call)
    thread.join(20)
    assert given == [{"roots": []}]
    assert call.settled


@pytest.mark.parametrize("fault", [ValueError("oh no"), TypeError("set")])
def test_an_exception_of_the_server_is_an_internal_error(
    fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(message: Message, send: Send) -> Message:
        raise fault

    channel, _ = opened(handle)
    request, call = begin()
    channel.request(request, call)
    assert call.result()["error"] == {"code": -32603, "message": f"{type(fault).__name__}: {fault}"}
    assert "m failed in the in-memory server" in caplog.text


def test_an_answer_that_is_not_json_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    channel, _ = opened(lambda message, send: {"id": 1, "result": {1, 2}})
    request, call = begin()
    channel.request(request, call)
    assert call.result()["error"]["code"] == -32603


@pytest.mark.parametrize("reply", [None, {"id": 99, "result": {}}])
def test_a_request_without_its_answer_is_a_lost_connection(reply: Optional[Message]) -> None:
    channel, _ = opened(lambda message, send: reply)
    request, call = begin()
    with pytest.raises(ConnectionLost, match="gave no answer") as caught:
        channel.request(request, call)
    assert caught.value.request_sent is True


def test_a_call_that_is_settled_meanwhile_ends_quietly() -> None:
    request, call = begin()

    def handle(message: Message, send: Send) -> None:
        call.fail(ConnectionLost("elsewhere"))

    channel, engine = opened(handle)
    channel.request(request, call)
    assert engine.received == []


def test_an_answer_after_the_deadline_is_a_timeout() -> None:
    channel, engine = opened(answer)
    request, call = begin(timeout=0)
    with pytest.raises(CallTimeout, match="no answer") as caught:
        channel.request(request, call)
    assert (caught.value.timeout, caught.value.request_sent, engine.received) == (0, True, [])


def test_a_notification_reaches_the_server_and_its_failure_only_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[Message] = []

    def handle(message: Message, send: Send) -> None:
        seen.append(message)
        raise ValueError("oh no")

    channel, _ = opened(handle)
    channel.send(frame("notifications/x"), Deadline(5))
    assert [message["method"] for message in seen] == ["notifications/x"]
    assert "notifications/x" in caplog.text
    assert channel.try_send(frame("notifications/x")) is False


def test_closing_cancels_what_is_inside_the_server() -> None:
    entered, cancelled = threading.Event(), threading.Event()
    messages: list[Message] = []

    def handle(message: Message, send: Send) -> None:
        messages.append(message)
        if message["method"] == "notifications/cancelled":
            cancelled.set()
            return
        entered.set()
        assert cancelled.wait(20)

    channel, _ = opened(handle)
    request, call = begin()

    def use() -> None:
        with pytest.raises(ConnectionLost):
            channel.request(request, call)

    thread = threading.Thread(target=use)
    thread.start()
    assert entered.wait(20)
    channel.close(Deadline(1))
    channel.close(Deadline(1))
    thread.join(20)
    assert [message["method"] for message in messages] == ["m", "notifications/cancelled"]
    assert messages[1]["params"]["requestId"] == 1


@pytest.mark.parametrize("end", [lambda channel: channel.close(Deadline(1)), MemoryChannel.discard])
def test_a_closed_channel_carries_nothing(end: Callable[[MemoryChannel], None]) -> None:
    channel, _ = opened(answer)
    end(channel)
    request, call = begin()
    with pytest.raises(ConnectionLost) as caught:
        channel.request(request, call)
    assert caught.value.request_sent is False
    assert call.request_sent is False
    with pytest.raises(ConnectionLost):
        channel.send(frame("notifications/x"), Deadline(1))


def test_a_fake_server_answers_over_it() -> None:
    channel, engine = InMemory(FakeServer(tools={"hi": lambda: "hi"})).channel(SETTINGS), Engine()
    channel.start(engine, Deadline(5))
    meta = {
        "io.modelcontextprotocol/protocolVersion": LATEST_MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    call = PendingCall(1, "tools/list", Deadline(5))
    channel.request(frame("tools/list", id=1, params={"_meta": meta}), call)
    assert call.result()["result"]["tools"][0]["name"] == "hi"

"""How frames go out, for many threads, into a peer that may not read."""

from __future__ import annotations

import errno
import functools
import gc
import json
import logging
import sys
import threading
import time
import weakref

import pytest
from concurrency.striking import strike_at
from stdio_support import SLACK, poll, running

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._concurrency.pending import PendingCall
from mcp_sync.errors import CallCancelled, CallTimeout, ConnectionLost, UsageError
from mcp_sync.transports._base import Frame
from mcp_sync.transports._duplex import Intake, Outlet


class Narrow:
    """A sink with so much room."""

    def __init__(self, room: int = 0) -> None:
        self.lock = threading.RLock()
        self.room = room
        self.taken = b""
        self.waits = 0
        self.on_write = lambda: None
        self.on_wait = lambda: None
        self.broken = False

    def write(self, data, taken) -> None:
        self.on_write()
        if self.broken:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        part = bytes(data[: self.room])
        self.room -= len(part)
        self.taken += part
        if part:
            taken.append(len(part))

    def wait(self, seconds: float) -> None:
        assert 0 < seconds <= 0.1
        self.waits += 1
        self.on_wait()


def call(timeout=None) -> PendingCall:
    return PendingCall(1, "tools/call", Deadline(timeout))


NEVER = Deadline(None)


def test_a_frame_is_written_at_once_where_there_is_room():
    sink, request = Narrow(100), call()
    sent = []
    sink.on_write = lambda: sent.append(request.request_sent)
    Outlet(sink, "peer").write(b"frame\n", NEVER, request)
    assert sink.taken == b"frame\n"
    assert sink.waits == 0
    # Before the first byte may leave.
    assert sent == [True]


def test_a_writer_waits_for_room():
    sink, request = Narrow(3), call()

    def more():
        sink.room = 3

    sink.on_wait = more
    Outlet(sink, "peer").write(b"123456789\n", NEVER, request)
    assert sink.taken == b"123456789\n"
    assert request.request_sent


def test_a_writer_gives_up_at_the_deadline_and_knows_that_nothing_left():
    request = call(0)
    with pytest.raises(CallTimeout, match="peer does not read") as caught:
        Outlet(Narrow(0), "peer").write(b"frame\n", request.deadline, request)
    assert request.request_sent is False
    assert caught.value.request_sent is False


def test_the_rest_of_a_frame_that_was_given_up_is_written_first_by_the_next():
    sink, request = Narrow(4), call(0)
    outlet = Outlet(sink, "peer")
    with pytest.raises(CallTimeout) as caught:
        outlet.write(b"first\n", request.deadline, request)
    assert request.request_sent is True
    assert caught.value.request_sent is True
    # The next one finds room for a part of the rest only, and is not begun itself.
    sink.room, second = 1, call(0)
    with pytest.raises(CallTimeout):
        outlet.write(b"second\n", second.deadline, second)
    assert second.request_sent is False
    sink.room = 100
    outlet.write(b"third\n", NEVER)
    assert sink.taken == b"first\nthird\n"


def test_a_frame_of_which_nothing_left_is_dropped():
    sink, request = Narrow(0), call(0)
    outlet = Outlet(sink, "peer")
    with pytest.raises(CallTimeout):
        outlet.write(b"first\n", request.deadline, request)
    sink.room = 100
    outlet.write(b"second\n", NEVER)
    assert sink.taken == b"second\n"


def test_a_writer_whose_call_is_settled_meanwhile_gives_up_without_an_error():
    sink, request = Narrow(4), call()
    outlet = Outlet(sink, "peer")
    sink.on_wait = lambda: request.fail(CallCancelled("cancelled"))
    outlet.write(b"first\n", NEVER, request)
    assert sink.taken == b"firs"
    sink.room = 100
    outlet.write(b"second\n", NEVER)
    assert sink.taken == b"first\nsecond\n"


def test_a_call_that_is_settled_already_is_not_sent():
    sink, request = Narrow(100), call()
    request.fail(CallCancelled("cancelled"))
    Outlet(sink, "peer").write(b"first\n", NEVER, request)
    assert sink.taken == b""
    assert request.request_sent is False


def test_a_broken_pipe_is_told_with_what_had_left_before():
    sink, request = Narrow(4), call()
    sink.on_wait = lambda: setattr(sink, "broken", True)
    with pytest.raises(BrokenPipeError):
        Outlet(sink, "peer").write(b"first\n", NEVER, request)
    assert request.request_sent is True
    unsent = call()
    with pytest.raises(BrokenPipeError):
        Outlet(sink, "peer").write(b"first\n", NEVER, unsent)
    assert unsent.request_sent is False


def test_the_frame_of_another_is_waited_for_only_by_the_own_deadline():
    sink, blocked = Narrow(1), call()
    outlet, stuck = Outlet(sink, "peer"), threading.Event()
    sink.on_wait = stuck.set
    writer = threading.Thread(target=outlet.write, args=(b"first\n", NEVER, blocked))
    writer.start()
    assert stuck.wait(5)
    started = time.monotonic()
    request = call(0.05)
    with pytest.raises(CallTimeout):
        outlet.write(b"second\n", request.deadline, request)
    assert time.monotonic() - started < 0.3 + SLACK
    assert request.request_sent is False
    assert not outlet.post(b"third\n", 100)
    sink.room = 100
    writer.join(5)
    assert sink.taken == b"first\n"


def test_a_frame_may_be_finished_by_another_thread():
    sink, first = Narrow(1), call()
    outlet = Outlet(sink, "peer")

    def another():
        sink.on_wait, sink.room = lambda: None, 100
        outlet.write(b"second\n", NEVER)

    sink.on_wait = another
    outlet.write(b"first\n", NEVER, first)
    assert sink.taken == b"first\nsecond\n"
    assert first.request_sent


class Interrupt(BaseException):
    pass


def test_a_writer_does_not_wait_for_the_frame_of_the_one_that_finished_its_own():
    sink, first = Narrow(1), call(5)
    outlet = Outlet(sink, "peer")

    def another():
        sink.on_wait, sink.room, second = lambda: None, 8, call(0)
        with pytest.raises(CallTimeout):
            outlet.write(b"second\n", second.deadline, second)

    sink.on_wait = another
    outlet.write(b"first\n", first.deadline, first)
    assert sink.taken == b"first\nsec"
    assert sink.waits == 1


def test_a_writer_that_is_interrupted_leaves_the_stream_whole():
    sink, request = Narrow(3), call()
    outlet = Outlet(sink, "peer")

    def interrupt():
        raise Interrupt

    sink.on_wait = interrupt
    with pytest.raises(Interrupt):
        outlet.write(b"first\n", NEVER, request)
    assert request.request_sent is True
    sink.room = 0
    unsent = call()
    with pytest.raises(Interrupt):
        outlet.write(b"second\n", NEVER, unsent)
    assert unsent.request_sent is False
    sink.room = 100
    outlet.write(b"third\n", NEVER)
    assert sink.taken == b"first\nthird\n"


def test_a_signal_handler_cannot_write_while_it_interrupts_a_write_and_is_told_so():
    sink, refused = Narrow(100), []
    outlet, request = Outlet(sink, "peer"), call()

    def handler():
        sink.on_write = lambda: None
        for late in (request, None):
            with pytest.raises(UsageError, match="signal handler cannot write to peer") as caught:
                outlet.write(b"second\n", NEVER, late)
            refused.append(str(caught.value).split(":")[0])
        assert not outlet.post(b"third\n", 100)
        # Another peer is none of that.
        other = Narrow(100)
        Outlet(other, "other").write(b"fourth\n", NEVER)
        assert other.taken == b"fourth\n"

    sink.on_write = handler
    outlet.write(b"first\n", NEVER)
    assert refused == ["tools/call", "a message"]
    assert request.request_sent is False
    outlet.write(b"fifth\n", NEVER)
    assert sink.taken == b"first\nfifth\n"


def test_a_small_frame_is_posted_where_there_is_room_and_never_waits():
    sink = Narrow(100)
    outlet = Outlet(sink, "peer")
    assert outlet.post(b"one\n", 10)
    assert not outlet.post(b"x" * 11, 10)
    sink.room = 0
    assert not outlet.post(b"two\n", 10)
    assert sink.taken == b"one\n"
    assert sink.waits == 0


def test_nothing_is_posted_into_the_middle_of_a_frame():
    sink, request = Narrow(3), call(0)
    outlet = Outlet(sink, "peer")
    with pytest.raises(CallTimeout):
        outlet.write(b"first\n", request.deadline, request)
    sink.room = 2
    assert not outlet.post(b"two\n", 10)
    sink.room = 100
    assert outlet.post(b"two\n", 10)
    assert sink.taken == b"first\ntwo\n"


def test_nothing_is_posted_into_a_broken_pipe():
    sink = Narrow(3)
    outlet, request = Outlet(sink, "peer"), call(0)
    sink.broken = True
    assert not outlet.post(b"one\n", 10)
    sink.broken = False
    with pytest.raises(CallTimeout):
        outlet.write(b"first\n", request.deadline, request)
    sink.broken = True
    assert not outlet.post(b"two\n", 10)


def test_frames_of_many_threads_stay_whole():
    sink, start = Narrow(0), threading.Barrier(8)
    outlet = Outlet(sink, "peer")

    def more():
        sink.room = 7

    sink.on_wait = more

    def write(name: bytes):
        start.wait()
        for number in range(50):
            outlet.write(name * 10 + b"%d\n" % number, NEVER)

    threads = [threading.Thread(target=write, args=(bytes([65 + index]),)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    lines = sink.taken.splitlines()
    assert len(lines) == 400
    assert set(lines) == {bytes([65 + i]) * 10 + b"%d" % n for i in range(8) for n in range(50)}


# --- a real server that stops reading --------------------------------------------------------------------

STOPS_READING = """
    answer(receive())
    go_on = os.path.join({folder!r}, "go on")
    while not os.path.exists(go_on):
        time.sleep(0.01)
    while True:
        message = receive()
        if message is None:
            break
        note("got", length=len(json.dumps(message)), method=message["method"])
"""


def frame(method: str, size: int = 0) -> Frame:
    return Frame(json.dumps({"jsonrpc": "2.0", "method": method, "params": "x" * size}).encode(), method)


def test_the_deadline_of_a_call_covers_its_writing_and_later_frames_come_whole(tmp_path):
    with running(STOPS_READING.format(folder=str(tmp_path))) as server:
        server.call("initialize")
        started = time.monotonic()
        with pytest.raises(CallTimeout, match="does not read") as caught:
            server.begin("tools/call", "x" * 8_000_000, timeout=0.3)
        assert 0.3 <= time.monotonic() - started < 0.55 + SLACK
        assert caught.value.request_sent is True
        # Others are bounded by their own deadlines.
        started = time.monotonic()
        with pytest.raises(CallTimeout) as caught:
            server.begin("ping", timeout=0.1)
        assert time.monotonic() - started < 0.35 + SLACK
        assert caught.value.request_sent is False
        assert not server.channel.try_send(frame("posted"))
        (tmp_path / "go on").touch()
        server.notify("after")
        server.inbound.wait(lambda: len(server.inbound.notes) == 2)
        got = [message["params"]["method"] for message in server.inbound.messages if "method" in message]
        assert got == ["tools/call", "after"]


def test_what_a_writer_raises_at_its_deadline_is_no_circle():
    with running("time.sleep(20)", close=0.2) as server:
        gc.collect()
        gc.disable()
        try:
            try:
                server.channel.request(frame("tools/call", 1_000_000), call(0.05))
            except CallTimeout as error:
                reference = weakref.ref(error)
            assert reference() is None
        finally:
            gc.enable()


def test_closing_frees_a_writer_that_is_stuck(tmp_path):
    with running(STOPS_READING.format(folder=str(tmp_path)), close=1) as server:
        server.call("initialize")
        errors = []

        def write():
            try:
                server.begin("tools/call", "x" * 8_000_000, timeout=None)
            except ConnectionLost as error:
                errors.append(error)

        def wait_in_line():
            try:
                server.notify("second")
            except ConnectionLost as error:
                errors.append(error)

        threads = [threading.Thread(target=write), threading.Thread(target=wait_in_line)]
        outlet = server.channel._server.outlet
        threads[0].start()
        assert poll(lambda: outlet._frame is not None)
        threads[1].start()
        started = time.monotonic()
        server.channel.close(Deadline(1))
        assert time.monotonic() - started < 1.0 + SLACK
        for thread in threads:
            thread.join(SLACK)
            assert not thread.is_alive()
        assert [str(error).endswith("is closed") for error in errors] == [True, True]


def test_a_small_message_is_posted_to_a_server():
    with running("note('got', method=receive()['method'])\nstdin.read()") as server:
        assert server.channel.try_send(frame("ping"))
        server.inbound.wait(lambda: server.inbound.messages)
        assert server.inbound.messages[0]["params"] == {"method": "ping"}
        assert not server.channel.try_send(frame("large", 100_000))


# --- what comes in ---------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.version_info < (3, 11), reason="signals are looked for at more points, unsafe ones")
def test_a_loss_is_passed_on_the_next_time_where_a_signal_handler_has_interrupted_the_first():
    class Told:
        def __init__(self):
            self.reasons = []

        def lost(self, error):
            self.reasons.append(error)

    number, more = 1, True
    while more:
        told = Told()
        intake = Intake(told, "peer", logging.getLogger("tests"))
        more = strike_at(number, functools.partial(intake.lose, ConnectionLost("first")), "/_duplex.py")
        intake.lose(ConnectionLost("second"))
        assert {*told.reasons} == {intake.error}, number
        number += 1
    assert number > 3

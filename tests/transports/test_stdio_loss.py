"""What a user learns when a server dies, and how soon."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time

import pytest
from stdio_support import PATIENCE, SLACK, is_gone, lives, running, script

from mcp_sync import Client, Stdio
from mcp_sync.errors import ConnectionLost
from mcp_sync.transports._stdio import reader


def assert_cleared_away(server):
    """Nothing of a lost server is left, without a close."""
    for thread in server.channel._server.threads:
        thread.join(5)
        assert not thread.is_alive()
    assert not lives(server.pid)


def test_all_calls_in_flight_fail_at_once_when_the_server_dies():
    code = """
        answer(receive())
        sys.stderr.write("out of memory\\n")
        receive(), receive()
        os._exit(1)
    """
    with running(code) as server:
        server.call("initialize")
        calls = []
        threads = [
            threading.Thread(target=lambda: calls.append(server.begin("tools/call", timeout=None)))
            for _ in range(2)
        ]
        started = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
        error = server.inbound.loss()
        assert time.monotonic() - started < 1.0 + SLACK
        assert all(call.settled for call in calls)
        assert isinstance(error, ConnectionLost)
        assert error.returncode == 1
        assert error.stderr_tail == "out of memory"
        assert "ended with exit code 1" in str(error)
        assert "out of memory" in str(error)
        assert_cleared_away(server)


@pytest.mark.parametrize("half", ['{"content":[', '{"content":[],"_meta":{}'])
def test_a_server_that_dies_in_the_middle_of_an_answer_is_told_of_as_any_other(half):
    code = f"""
        message = receive()
        sys.stdout.write('{{"jsonrpc":"2.0","id":%d,"result":' % message["id"] + {half!r})
        sys.stdout.flush()
        sys.stderr.write("out of memory")
        sys.stderr.flush()
        os._exit(3)
    """
    program, *args = script(code)
    with Client(Stdio(program, args), mode="2026-07-28") as client:
        with pytest.raises(ConnectionLost, match=r"exit code 3(?s:.)*out of memory(?s:.)*skipped") as caught:
            client.call_tool("x", timeout=PATIENCE)
        assert caught.value.returncode == 3


def test_an_error_quotes_the_last_lines_of_standard_error_and_keeps_more():
    with running("sys.stderr.write(''.join(f'line {n}\\n' for n in range(30)))\nsys.exit(5)") as server:
        error = server.inbound.loss()
        assert error.stderr_tail.splitlines() == [f"line {number}" for number in range(30)]
        assert str(error).split("ended with:\n")[1].splitlines() == [f"line {n}" for n in range(20, 30)]


def test_an_error_does_not_show_the_credentials_that_the_server_repeats(caplog):
    caplog.set_level(logging.DEBUG, "mcp_sync.stdio")
    code = """
        print("no message", os.environ["API_KEY"], flush=True)
        sys.stderr.write("key " + os.environ["API_KEY"] + " is wrong in zone " + os.environ["ZONE"])
        sys.exit(1)
    """
    with running(code, env={"API_KEY": "the-key-of-ada", "ZONE": "europe-west1"}) as server:
        error = server.inbound.loss()
    assert error.stderr_tail == "key (secret) is wrong in zone europe-west1"
    log = "".join(caplog.messages)
    assert "key (secret) is wrong" in log
    assert "no message (secret)" in log
    assert "no message (secret)" in str(error)
    assert "the-key-of-ada" not in str(error) + log


def test_a_signal_that_ended_the_server_is_named():
    with running("receive()\nos.kill(os.getpid(), signal.SIGKILL)") as server:
        call = server.begin("tools/call", timeout=None)
        assert call.wait()
        error = server.inbound.loss()
        assert error.returncode == -signal.SIGKILL
        assert "was ended by SIGKILL" in str(error)


def test_calls_on_a_dead_channel_fail_at_once_with_the_same_cause():
    with running("sys.stderr.write('gone\\n')\nsys.exit(5)") as server:
        server.inbound.loss()
        started = time.monotonic()
        for _ in range(3):
            with pytest.raises(ConnectionLost, match="exit code 5") as caught:
                server.begin("tools/call")
            assert caught.value.returncode == 5
            assert caught.value.stderr_tail == "gone"
            assert caught.value.request_sent is False
        with pytest.raises(ConnectionLost, match="exit code 5"):
            server.notify("notifications/cancelled")
        assert time.monotonic() - started < 0.5 + SLACK


def test_a_server_that_dies_while_it_starts_leaves_its_reason():
    code = "sys.stderr.write('API_KEY missing\\n')\nsys.exit(3)"
    with running(code, env={"TOKEN": "hunter2"}) as server:
        error = server.inbound.loss()
        assert error.returncode == 3
        assert error.stderr_tail == "API_KEY missing"
        assert str(error).startswith(script("")[0])
        assert "hunter2" not in str(error)
        assert "hunter2" not in repr(server.channel._target)


def test_a_usage_text_on_standard_output_is_quoted():
    with running("raw(b'usage: server --port N\\n')\nsys.exit(2)") as server:
        error = server.inbound.loss()
        assert error.returncode == 2
        assert "usage: server --port N" in str(error)


def test_a_text_cut_off_by_the_end_is_quoted_too():
    with running("raw(b'Segmentation faul')\nsys.exit(2)") as server:
        assert "Segmentation faul" in str(server.inbound.loss())


def test_answers_written_right_before_the_end_still_arrive():
    code = """
        first, second = receive(), receive()
        raw(b" " * 3_000_000 + b"\\n")
        answer(first, {"n": 1})
        answer(second, {"n": 2})
        os._exit(0)
    """
    with running(code) as server:
        calls = [server.begin("one"), server.begin("two")]
        assert [call.wait() and call.result()["result"]["n"] for call in calls] == [1, 2]
        server.inbound.loss()


@pytest.mark.usefixtures("either_way_to_notice")
def test_the_death_is_noticed_even_if_somebody_else_keeps_the_pipes_open():
    code = """
        pid = os.fork()
        if pid == 0:
            os.setsid()
            time.sleep(600)
        receive()
        note("daemon", pid=pid)
        receive()
        sys.stderr.write("last words\\n")
        sys.stderr.flush()
        os._exit(9)
    """
    with running(code) as server:
        server.notify("go on")
        server.inbound.wait(lambda: server.inbound.messages)
        daemon = server.inbound.messages[0]["params"]["pid"]
        try:
            started = time.monotonic()
            call = server.begin("tools/call", timeout=None)
            assert call.wait()
            assert time.monotonic() - started < 1.5 + SLACK
            error = server.inbound.loss()
            assert error.returncode == 9
            assert error.stderr_tail == "last words"
            assert_cleared_away(server)
            assert lives(daemon)
        finally:
            os.kill(daemon, signal.SIGKILL)


def test_the_death_is_noticed_even_if_somebody_else_goes_on_writing():
    code = """
        pid = os.fork()
        if pid == 0:
            os.setsid()
            while True:
                raw(b'{"method": "noise"}\\n')
        note("daemon", pid=pid)
        receive()
        os._exit(9)
    """
    with running(code) as server:
        server.inbound.wait(lambda: any("params" in message for message in server.inbound.messages))
        daemon = next(m["params"]["pid"] for m in server.inbound.messages if "params" in m)
        try:
            started = time.monotonic()
            call = server.begin("tools/call", timeout=None)
            assert call.wait()
            assert time.monotonic() - started < 2.5 + SLACK
            assert server.inbound.loss().returncode == 9
        finally:
            if lives(daemon):
                os.kill(daemon, signal.SIGKILL)


def test_a_server_that_closes_its_output_is_lost_and_ended():
    code = """
        message = receive()
        os.close(1)
        while True:
            time.sleep(60)
    """
    with running(code, close=1) as server:
        call = server.begin("initialize", timeout=None)
        assert call.wait()
        error = server.inbound.loss()
        assert error.returncode is None
        assert "closed its standard output" in str(error)
        assert_cleared_away(server)


def test_a_server_that_closes_its_input_is_lost_and_ended():
    code = """
        message = receive()
        os.close(0)
        answer(message)
        while True:
            time.sleep(60)
    """
    with running(code, close=1) as server:
        assert server.call("initialize") == {}
        started = time.monotonic()
        call = server.begin("tools/call", timeout=None)
        assert call.wait()
        assert time.monotonic() - started < 1.5 + SLACK
        assert call.request_sent is False
        assert "takes no more input" in str(server.inbound.loss())
        assert is_gone(server.pid)
        assert_cleared_away(server)


def test_after_a_close_no_loss_is_reported():
    with running("serve()") as server:
        server.call("echo")
    assert server.inbound.losses == []


def test_the_last_words_are_waited_for_even_if_they_are_passed_on_slowly(monkeypatch):
    monkeypatch.setattr(reader, "_AWAIT_STDERR", 10.0)

    class Slow:
        def write(self, text):
            time.sleep(0.02)

    code = "sys.stderr.write('x\\n' * 30_000 + 'last words')\nsys.stderr.flush()\nos._exit(1)"
    with running(code, stderr=Slow()) as server:
        assert server.inbound.loss().stderr_tail.endswith("last words")

"""How messages are found in what a server writes."""

from __future__ import annotations

import json
import logging

import pytest
from stdio_support import lives, running

from mcp_sync.errors import InvalidMessage, MessageTooLarge
from mcp_sync.options import Limits
from mcp_sync.transports._stdio.lines import LineBuffer

# --- lines, without a process ----------------------------------------------------------------------------


def cut(data: bytes, size: int, limit: int = 100) -> tuple[list[bytes], bool]:
    """Feed ``data`` in pieces of ``size`` bytes and the end; return the lines and whether it was too much."""
    buffer, lines = LineBuffer(limit), []
    for start in [*range(0, len(data), size), len(data)]:
        buffer.state[0].append(data[start : start + size])
        complete = buffer.complete()
        while complete:
            lines.append(complete.pop())
        if buffer.complete() is None:
            break
    return lines, buffer.overflown


SIZES = [1, 2, 3, 7, 10, 11, 12, 1000]


@pytest.mark.parametrize("size", SIZES)
def test_lines_are_the_same_however_they_arrive_and_none_is_empty(size):
    assert cut(b"one\n\ntwo\r\nthree", size) == ([b"one", b"two\r", b"three"], False)


@pytest.mark.parametrize("size", SIZES)
def test_only_a_line_feed_ends_a_line(size):
    text = "a\u2028b\u2029c\u0085d\re\vf\fg\x1c".encode()
    assert cut(text + b"\n", size) == ([text], False)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_as_long_as_the_limit_is_admitted(size, end):
    lines, too_long = cut(b"0123456789" + end, size, limit=10)
    assert [line.rstrip(b"\r") for line in lines] == [b"0123456789"]
    assert not too_long


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"", b"x" * 5000])
def test_a_line_longer_than_the_limit_is_not_and_ends_the_reading(size, end):
    lines, too_long = cut(b"before\nalso\n0123456789+" + end + b"\nafter\n", size, limit=10)
    assert lines == [b"before", b"also"]
    assert too_long


def test_an_endless_line_is_not_kept():
    buffer = LineBuffer(1000)
    for _ in range(3):
        buffer.state[0].append(b"x" * 600)
        if buffer.complete() is None:
            break
    assert buffer.overflown
    assert buffer.state[0] == []


def test_a_long_line_takes_linear_time():
    # 64 MiB in pieces of 64 KiB: adding up piece by piece would copy 32 GiB.
    buffer = LineBuffer(1 << 30)
    piece = b"x" * 65536
    for _ in range(1024):
        buffer.state[0].append(piece)
        assert buffer.complete() == []
    buffer.state[0].append(b"\n")
    [line] = buffer.complete() or []
    assert len(line) == 1 << 26


# --- a server's output -----------------------------------------------------------------------------------


def test_a_banner_and_log_lines_are_skipped_with_one_warning(caplog):
    code = """
        raw(b"Server v1.2 ready\\n")
        answer(receive(), {"n": 1})
        raw(b"[ws] closed\\n" + b"x" * 500 + b"\\n")
        answer(receive(), {"n": 2})
        sys.exit(4)
    """
    with caplog.at_level(logging.DEBUG, "mcp_sync.stdio"), running(code) as server:
        assert server.call("initialize") == {"n": 1}
        assert server.call("tools/call") == {"n": 2}
        error = server.inbound.loss()
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "Server v1.2 ready" in warnings[0]
    assert [type(report) for report in server.inbound.reports] == [InvalidMessage] * 3
    assert len(server.inbound.messages) == 2
    # When the session fails in the end, this may be why.
    assert "Server v1.2 ready" in str(error)
    assert "[ws] closed" in str(error)
    assert "x" * 201 not in str(error)


def test_blank_lines_are_ignored_silently_and_both_line_ends_are_taken(caplog):
    code = """
        raw(b"\\r\\n   \\n\\n")
        for _ in range(2):
            message = receive()
            raw(b'{"jsonrpc": "2.0", "id": %d, "result": {}}\\r\\n' % message["id"] + b"\\r\\n \\t\\n\\n")
        stdin.read()
    """
    with caplog.at_level(logging.DEBUG, "mcp_sync.stdio"), running(code) as server:
        assert server.call("initialize") == {}
        assert server.call("tools/call") == {}
        assert server.inbound.reports == []
    assert caplog.messages == []


def test_a_line_that_is_no_utf_8_is_skipped():
    code = """
        message = receive()
        raw(b"\\xff\\xfe\\n")
        answer(message)
        stdin.read()
    """
    with running(code) as server:
        assert server.call("initialize") == {}
        server.inbound.wait(lambda: server.inbound.reports)


def test_a_bad_byte_inside_a_message_is_replaced():
    code = """
        message = receive()
        raw(b'{"jsonrpc": "2.0", "id": %d, "result": {"text": "a\\xc3\\x28b"}}\\n' % message["id"])
        stdin.read()
    """
    with running(code) as server:
        assert server.call("initialize") == {"text": "a\ufffd(b"}
        assert server.inbound.reports == []


def test_a_character_that_is_split_between_two_reads_stays_whole():
    code = """
        message = receive()
        whole = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"text": "\\u2713"}},
                           ensure_ascii=False).encode() + b"\\n"
        middle = whole.index(b"\\xe2") + 1
        raw(whole[:middle])
        receive()
        raw(whole[middle:])
        stdin.read()
    """
    with running(code) as server:
        call = server.begin("initialize")
        server.notify("go on")
        assert call.wait()
        assert call.result()["result"] == {"text": "\u2713"}


def test_unicode_line_ends_inside_a_text_do_not_end_the_message():
    text = "before\u2028after\u0085and\u2029end"
    code = f"""
        message = receive()
        result = {{"text": {text!r}}}
        raw(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": result}},
                       ensure_ascii=False).encode() + b"\\n")
        stdin.read()
    """
    with running(code) as server:
        assert server.call("initialize") == {"text": text}


def test_a_last_message_without_a_line_end_counts():
    code = """
        message = receive()
        raw(b'{"jsonrpc": "2.0", "id": %d, "result": {}}' % message["id"])
    """
    with running(code) as server:
        assert server.call("initialize") == {}


def test_a_fault_in_handling_a_message_is_logged_and_the_reading_goes_on(caplog):
    code = """
        receive()
        note("first")
        note("second")
        serve()
    """
    with running(code) as server:
        server.inbound.fault = RuntimeError("a bug of ours")
        server.notify("start")
        server.inbound.wait(lambda: server.inbound.notes == ["second"])
        assert server.call("echo", {"n": 1}) == {"n": 1}
    assert "could not be handled" in caplog.text
    assert "a bug of ours" in caplog.text


# --- the limit -------------------------------------------------------------------------------------------

FLOOD = """
    note("before")
    answer(receive())
    receive()
    block = b"x" * 65536
    while True:
        stdout.write(block)
"""


def test_a_flood_without_a_line_end_ends_the_connection_and_the_server():
    with running(FLOOD, limits=Limits(message_bytes=1 << 20)) as server:
        assert server.call("initialize") == {}
        pid = server.pid
        call = server.begin("tools/call")
        error = server.inbound.loss()
        assert isinstance(error, MessageTooLarge)
        assert error.limit == 1 << 20
        assert "Limits.message_bytes" in str(error)
        assert call.wait()
        assert server.inbound.notes == ["before"]
        for thread in server.channel._server.threads:
            thread.join(10)
        assert not lives(pid)


def test_messages_before_one_that_is_too_long_are_delivered():
    code = """
        raw(b'{"method": "one"}\\n{"method": "two"}\\n')
        raw(b'{"method": "' + b"x" * 2000 + b'"}\\n{"method": "four"}\\n')
        stdin.read()
    """
    with running(code, limits=Limits(message_bytes=1000)) as server:
        assert isinstance(server.inbound.loss(), MessageTooLarge)
        assert server.inbound.notes == ["one", "two"]


@pytest.mark.parametrize("piece", [1000, 70_000, 10_000_000])
def test_messages_just_within_the_limit_pass_in_whatever_pieces(piece):
    limit = 300_000
    message = json.dumps({"method": ""}).encode()
    message = message.replace(b'""', b'"' + b"x" * (limit - len(message)) + b'"')
    assert len(message) == limit
    code = f"""
        message = json.dumps({{"method": "x" * {limit - len(json.dumps({"method": ""}))}}}).encode() + b"\\n"
        data = message * 3
        for start in range(0, len(data), {piece}):
            raw(data[start:start + {piece}])
        stdin.read()
    """
    with running(code, limits=Limits(message_bytes=limit)) as server:
        server.inbound.wait(lambda: len(server.inbound.messages) == 3)
        assert not server.inbound.losses

"""What becomes of a server's standard error."""

from __future__ import annotations

import io
import logging
import sys
import threading

import pytest
from stdio_support import PATIENCE, poll, running

from mcp_sync.errors import UsageError
from mcp_sync.options import Limits
from mcp_sync.transports._stdio.pipes import END, Found, Wake
from mcp_sync.transports._stdio.stderr import StderrTail
from mcp_sync.transports._stdio.target import Stdio

NOISY = """
    message = receive()
    sys.stderr.write({text!r} * {times})
    sys.stderr.flush()
    answer(message)
    serve()
"""


def noisy(text: str, times: int = 1) -> str:
    return NOISY.format(text=text, times=times)


class Chunks:
    """A reader of what is given."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = [*chunks, b""]
        self.closed = False

    def wait(self) -> Found:
        return Found.BYTES if self.chunks else END

    def read(self) -> bytes:
        return self.chunks.pop(0)

    def close(self) -> None:
        self.closed = True


def drained(*chunks: bytes, sink=None, lines=50) -> str:
    tail, reader, wake = StderrTail(sink, lines), Chunks(*chunks), Wake()
    tail.drain(reader, wake)
    assert reader.closed
    assert wake.fd < 0
    return tail.text()


# --- what is kept ----------------------------------------------------------------------------------------


def test_the_last_lines_are_kept_in_whatever_pieces_they_came():
    assert drained(b"one\ntw", b"o\nthree\r", b"\nfo", b"ur", lines=3) == "two\nthree\nfour"


def test_of_a_progress_bar_only_what_was_drawn_last_is_kept():
    assert drained(b"start\n", b"10%\r20%\r", b"30%\r", b"40%") == "start\n40%"
    assert drained(b"10%\r20%\r", b"100%\r\ndone\n") == "100%\ndone"


def test_an_endless_line_is_cut_to_its_end():
    text = drained(*[b"x" * 65536] * 10, b"end")
    assert text.endswith("xend")
    assert len(text) < 10_000


def test_many_long_lines_are_bounded_in_bytes():
    text = drained(*[b"%04d" % number + b"x" * 4000 + b"\n" for number in range(1000)], lines=1000)
    assert text.splitlines()[-1].startswith("0999")
    assert len(text) < 100_000


def test_bytes_that_are_no_text_are_shown_somehow():
    assert drained(b"caf\xe9\n") == "caf\ufffd"


# --- a server that writes much ---------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["line of the log\n", "50%\r", "."])
def test_a_server_that_writes_much_does_not_stop(text):
    with running(noisy(text, 512 * 1024 // len(text))) as server:
        assert server.call("tools/call") == {}
        assert server.call("ping", {"n": 1}) == {"n": 1}


def test_so_many_lines_are_kept_as_the_limits_say():
    code = "sys.stderr.write(''.join(f'{n}\\n' for n in range(100)))\nsys.exit(1)"
    with running(code, limits=Limits(stderr_lines=3)) as server:
        assert server.inbound.loss().stderr_tail == "97\n98\n99"


# --- whom it is passed on to -----------------------------------------------------------------------------


def test_lines_are_logged_at_debug_level(caplog):
    with caplog.at_level(logging.DEBUG, "mcp_sync.stdio"), running(noisy("hello\nworld\n")) as server:
        server.call("tools/call")
        assert poll(lambda: "stderr: world" in caplog.messages)
    assert "stderr: hello" in caplog.messages


def test_a_text_file_gets_it_as_it_comes():
    sink = io.StringIO()
    with running(noisy("50%\r\u2713"), stderr=sink, inherit_env="all") as server:
        server.call("tools/call")
        assert poll(lambda: sink.getvalue() == "50%\r\u2713")


def test_a_character_split_between_two_reads_reaches_a_text_file_whole():
    sink = io.StringIO()
    drained(b"\xe2", b"\x9c\x93", sink=sink)
    assert sink.getvalue() == "\u2713"


def test_a_binary_file_gets_the_very_bytes(tmp_path):
    code = "answer(receive())\nsys.stderr.buffer.write(b'\\xff\\x00raw')\nsys.stderr.flush()\nserve()"
    path = tmp_path / "log"
    with path.open("wb", buffering=0) as sink, running(code, stderr=sink) as server:
        server.call("tools/call")
        assert poll(lambda: path.read_bytes() == b"\xff\x00raw")


def test_a_file_that_cannot_express_a_character_gets_it_escaped():
    raw = io.BytesIO()
    sink = io.TextIOWrapper(raw, encoding="ascii")
    drained(b"ok \xe2\x9c\x93\n", sink=sink)
    assert raw.getvalue() == b"ok \\u2713\n"


def test_a_callable_gets_whole_lines():
    got = []
    drained(b"one\r\ntw", b"o\n\nrest", sink=got.append)
    assert got == ["one", "two", "", "rest"]


class Broken:
    def write(self, text):
        raise OSError("no space left")


def closed_file():
    file = io.StringIO()
    file.close()
    return file


def fails(line):
    raise ValueError(line)


@pytest.mark.parametrize("sink", [Broken(), closed_file(), fails], ids=["broken", "closed", "fails"])
def test_a_sink_that_fails_stops_neither_the_server_nor_the_keeping(sink, caplog):
    with running(noisy("words\n", 100_000), stderr=sink) as server:
        assert server.call("tools/call") == {}
        assert server.call("ping") == {}
    assert len([r for r in caplog.records if "could not be passed on" in r.getMessage()]) == 1
    assert drained(b"words\n", sink=sink) == "words"


def test_a_replaced_standard_error_gets_it(monkeypatch):
    sink = io.StringIO()
    monkeypatch.setattr(sys, "stderr", sink)
    with running(noisy("words\n"), stderr=sys.stderr) as server:
        server.call("tools/call")
        assert poll(lambda: sink.getvalue() == "words\n")


def test_a_program_without_standard_error_can_use_servers(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with running(noisy("words\n"), stderr=sys.stderr) as server:
        assert server.call("tools/call") == {}


def test_last_words_at_the_close_are_passed_on():
    sink = io.StringIO()
    code = "answer(receive())\nstdin.read()\nsys.stderr.write('x' * 200_000 + 'bye')"
    with running(code, stderr=sink) as server:
        server.call("tools/call")
    assert sink.getvalue().endswith("bye")


def test_a_sink_that_is_slow_keeps_nothing_open_for_good():
    entered, leave = threading.Event(), threading.Event()

    def slow(line):
        entered.set()
        assert leave.wait(PATIENCE)

    with running(noisy("words\n"), close=0.2, stderr=slow) as server:
        assert server.call("tools/call") == {}
        assert entered.wait(PATIENCE)
        _, reader = server.channel._server.threads
    reader.join(PATIENCE)
    # What the other thread still has is closed by it when it ends: the guard of the tests looks.
    leave.set()


def test_what_is_no_sink_is_refused():
    with pytest.raises(UsageError, match="stderr must be"):
        Stdio("server", stderr=2)

"""How the end of a pipe is waited for and read."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from mcp_sync.transports._stdio import pipes
from mcp_sync.transports._stdio.pipes import BYTES, CAN_POLL, END, NOTHING, Found, PipeReader, Wake

pytestmark = pytest.mark.skipif(not CAN_POLL, reason="pipes cannot be polled here")
BOUNDS = pytest.mark.parametrize("seconds", [0.0, 0.001, 10.0])


class Pipe(NamedTuple):
    """Both ends, and what wakes the reader."""

    reader: PipeReader
    writer: int
    wake: Wake


@pytest.fixture(params=["awake", "asleep"])
def pipe(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipe]:
    """Make a pipe, for a system on which a thread can stay awake and for one where it cannot."""
    if request.param == "asleep":
        monkeypatch.setattr(pipes, "_give_way", None)
    wake = Wake()
    read, write = os.pipe()
    reader = PipeReader(read, wake)
    yield Pipe(reader, write, wake)
    reader.close()
    wake.close()
    os.close(write)


def soon(pipe: Pipe) -> tuple[Found, list[bytes]]:
    pieces: list[bytes] = []
    return pipe.reader.read_soon(pieces), pieces


@BOUNDS
def test_bytes_that_are_there_are_found(pipe: Pipe, seconds: float) -> None:
    os.write(pipe.writer, b"x")
    pieces: list[bytes] = []
    assert pipe.reader.wait(seconds) is BYTES
    assert pipe.reader.read_onto(pieces, seconds) is BYTES
    assert pieces == [b"x"]


def test_bytes_that_are_there_are_read_at_once(pipe: Pipe) -> None:
    os.write(pipe.writer, b"x")
    assert soon(pipe) == (BYTES, [b"x"])


def test_bytes_that_come_soon_are_read(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whoever stays awake lets them come when it gives way; whoever sleeps is woken by them.
    monkeypatch.setattr(pipes, "LOOK", 10.0)
    writer = threading.Thread(target=os.write, args=(pipe.writer, b"x"))
    if pipes._give_way is None:
        writer.start()
    else:
        monkeypatch.setattr(pipes, "_give_way", lambda: writer.ident or writer.start())
    assert soon(pipe) == (BYTES, [b"x"])
    writer.join()


def test_the_end_of_file_is_an_empty_piece(pipe: Pipe) -> None:
    read, write = os.pipe()
    reader = PipeReader(read, pipe.wake)
    os.close(write)
    pieces: list[bytes] = []
    assert reader.read_soon(pieces) is BYTES
    assert reader.read_onto(pieces) is BYTES
    assert pieces == [b"", b""]
    reader.close()


@pytest.mark.parametrize("seconds", [0.0, 0.001])
def test_nothing_is_found_within_a_bound(pipe: Pipe, seconds: float) -> None:
    assert pipe.reader.wait(seconds) is NOTHING
    assert pipe.reader.read_onto([], seconds) is NOTHING
    assert soon(pipe) == (NOTHING, [])


@BOUNDS
def test_a_wait_that_is_woken_finds_the_end(pipe: Pipe, seconds: float) -> None:
    pipe.wake.set()
    assert soon(pipe) == (END, [])
    assert pipe.reader.wait(seconds) is END


@BOUNDS
def test_what_is_left_is_read_after_a_wake(pipe: Pipe, seconds: float) -> None:
    os.write(pipe.writer, b"x")
    pipe.wake.set()
    assert pipe.reader.wait(seconds) is BYTES
    assert pipe.reader.read() == b"x"
    assert pipe.reader.wait(seconds) is END


def test_who_stayed_awake_in_vain_sleeps_the_next_times(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[bool] = []
    monkeypatch.setattr(pipes, "_give_way", lambda: turns.append(True))
    monkeypatch.setattr(pipes, "_LONGEST_PAUSE", 2)

    def stays_awake() -> bool:
        turns.clear()
        assert soon(pipe) == (NOTHING, [])
        return bool(turns)

    assert [stays_awake() for _ in range(9)] == [True, False, True, False, False, True, False, False, True]
    # Two more sleep, and the third is lucky.
    for _ in range(3):
        os.write(pipe.writer, b"x")
        assert soon(pipe) == (BYTES, [b"x"])
    assert [stays_awake() for _ in range(3)] == [True, False, True]


@BOUNDS
def test_what_comes_for_ever_after_a_wake_is_not_read_for_ever(
    pipe: Pipe, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipes, "_READ_ON", -1.0)
    os.write(pipe.writer, b"x")
    pipe.wake.set()
    assert pipe.reader.wait(seconds) is END
    assert soon(pipe) == (END, [])
    assert pipe.reader.wait(seconds) is END

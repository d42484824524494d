"""What the thread does that reads a server's standard output."""

from __future__ import annotations

import signal
import threading
import weakref
from typing import Optional

from .._concurrency.deadline import Deadline
from ..errors import ConnectionLost, MCPError, MessageTooLarge
from ._base import Settings
from ._duplex import Intake
from ._lines import LineBuffer
from ._process import ServerProcess
from ._stderr import StderrTail

# How long the loss of a server is held back for its exit code and its last words.
_AWAIT_EXIT = 0.5
_AWAIT_STDERR = 0.3


class StdoutReader:
    """What the reading thread does. It knows the channel's `Intake` only weakly."""

    def __init__(
        self,
        process: ServerProcess,
        tail: StderrTail,
        errors: threading.Thread,
        peer: str,
        settings: Settings,
    ) -> None:
        self._process = process
        self._tail = tail
        self._errors = errors
        self._peer = peer
        self._limit = settings.limits.message_bytes
        self._timeouts = settings.timeouts
        self._lines = LineBuffer(self._limit)

    def run(self, intake: weakref.ref[Intake]) -> None:
        """Read until the end, tell of it, and leave nothing of the process behind."""
        process = self._process
        try:
            self._pump(intake)
            process.stdout.close()
            receiver = intake()
            if receiver is not None and not process.ending:
                receiver.lose(self._loss(receiver.skipped))
            del receiver
        finally:
            process.end(Deadline(self._timeouts.close), grace=not self._lines.overflown)
            process.wake.set()

    def _pump(self, intake: weakref.ref[Intake]) -> None:
        read, lines = self._process.stdout.read, self._lines
        while True:
            chunk = read()
            receiver = intake()
            if receiver is None:
                return
            for line in lines.feed(chunk) if chunk else [lines.rest()]:
                receiver.take(line)
            if not chunk or lines.overflown:
                return
            del receiver

    def _loss(self, skipped: list[str]) -> MCPError:
        if self._lines.overflown:
            return MessageTooLarge(
                f"{self._peer} sent a message of more than {self._limit} bytes (Limits.message_bytes)",
                limit=self._limit,
            )
        returncode = self._process.wait(_AWAIT_EXIT)
        self._errors.join(_AWAIT_STDERR)
        tail = self._tail.text()
        text = f"{self._peer} {_how_it_ended(returncode)}"
        if tail:
            text += f"; its standard error ended with:\n{tail}"
        if skipped:
            text += "\nskipped on its standard output:\n" + "\n".join(skipped)
        return ConnectionLost(text, returncode=returncode, stderr_tail=tail)


def _how_it_ended(returncode: Optional[int]) -> str:
    if returncode is None:
        return "closed its standard output"
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        return f"was ended by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was ended by signal {-returncode}"

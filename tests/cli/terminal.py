"""A program with a terminal of its own, in which somebody types and reads."""

from __future__ import annotations

import os
import select
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Optional

import pytest

fcntl = pytest.importorskip("fcntl")
pty = pytest.importorskip("pty")
termios = pytest.importorskip("termios")

PATIENCE = 30.0


class Terminal:
    """A program with a terminal of its own; its input and output are all there."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        size: tuple[int, int] = (24, 80),
        folder: Optional[str] = None,
    ) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", *size, 0, 0))
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            cwd=folder,
            # Makes the terminal the process's own, so that Ctrl-C reaches it.
            preexec_fn=_own_terminal,
        )
        os.close(theirs)
        self._fd = ours
        self.screen = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc_info: object) -> None:
        os.close(self._fd)
        self._process.kill()
        self._process.wait()

    def expect(self, text: str) -> None:
        """Wait until a text has appeared."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.screen:
            assert time.monotonic() < deadline, f"{text!r} did not come: {self.screen!r}"
            if not self._read(deadline):
                raise AssertionError(f"{text!r} did not come: {self.screen!r}")

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._fd, text.encode())

    def finish(self) -> int:
        """Wait for the end and return the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self._process.wait(PATIENCE)

    def _read(self, deadline: float) -> bool:
        if not select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # what Linux says when the other side is closed
            return False
        self.screen += data.decode("utf-8", "replace")
        return bool(data)


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)

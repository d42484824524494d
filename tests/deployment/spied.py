"""A server that sees which process uses which connection, and the programs that are its clients."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Callable

from concurrency.spy_server import STDIO_SERVER, answer, deletions, is_alive, senders
from interop.install import venv_python
from transports.http_server import PATIENCE, ScriptedServer, Turn

ROOT = Path(__file__).resolve().parents[2]
APPS = Path(__file__).parent / "apps"


class Spied:
    """A server of which every request is known, with its sender and its connection."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.url = server.url

    def check_that_nothing_is_shared(self) -> set[str]:
        """See that each connection and each session served one process; return the processes."""
        everybody: set[str] = set()
        for key in ("connection", "mcp-session-id"):
            for name, pids in senders(self.server, key).items():
                assert len(pids) == 1, f"{key} {name} was used by {sorted(pids)}"
                everybody |= pids
        for session_id, pid in deletions(self.server).items():
            assert senders(self.server, "mcp-session-id")[session_id] == {pid}
        return everybody


def meeting() -> Callable[[Turn], None]:
    """Make a script that also knows ``meet`` and ``hang``.

    ``meet`` holds each call until as many as its argument says are in flight together; ``hang`` holds one
    until its client gives up.
    """
    barriers: dict[int, threading.Barrier] = defaultdict(lambda: threading.Barrier(0))
    lock = threading.Lock()

    def script(turn: Turn) -> None:
        params = turn.message.get("params", {})
        if params.get("name") == "meet":
            parties = int(params["arguments"]["text"].split()[0])
            with lock:
                if parties not in barriers:
                    barriers[parties] = threading.Barrier(parties)
            barriers[parties].wait(PATIENCE)
        elif params.get("name") == "hang":
            turn.wait_for_close()
            return
        answer(turn)

    return script


def environment(**extra: str) -> dict[str, str]:
    """Return the environment of a program of the deployment venv, which finds mcp_sync in this checkout."""
    path = os.pathsep.join([str(APPS), str(ROOT), str(ROOT / "tests")])
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **extra}


def told_stdio() -> dict[str, str]:
    """Return what tells an application to start its server itself."""
    return {"MCP_SERVER": STDIO_SERVER}


def run(script: str, *args: str, timeout: float = 50, **extra: str) -> str:
    """Run a program with the interpreter of the deployment venv; return its output."""
    done = subprocess.run(
        [str(venv_python("deployment")), "-c", script, *args],
        env=environment(**extra),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


class Program:
    """A process that runs beside the test, and what it has said so far."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self.process = subprocess.Popen(
            command,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._arrived = threading.Condition()
        self._reader = threading.Thread(target=self._read, name="program-output")
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                with self._arrived:
                    self.lines.append(line)
                    self._arrived.notify_all()

    @property
    def output(self) -> str:
        """All that it has said."""
        return "".join(self.lines)

    def wait_for(self, words: str, seconds: float = 20) -> str:
        """Wait for a line that holds these words, and return it."""

        def found() -> bool:
            return any(words in line for line in self.lines) or self.process.poll() is not None

        with self._arrived:
            until = time.monotonic() + seconds
            while not found() and time.monotonic() < until:
                self._arrived.wait(0.2)
        line = next((line for line in self.lines if words in line), None)
        assert line is not None, f"no {words!r} in:\n{self.output}"
        return line

    def end(self, seconds: float = 15) -> int:
        """Terminate it and return its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(5)
            raise AssertionError(f"it did not end:\n{self.output}") from None
        finally:
            self._reader.join(5)


@contextmanager
def program(command: Sequence[str], cwd: Path, **extra: str) -> Iterator[Program]:
    """Run a program of the deployment venv beside the test."""
    told = environment(HOME=str(cwd), **extra)
    running = Program([str(venv_python("deployment")), *command], told, cwd)
    try:
        yield running
    finally:
        running.end()


def gone(pids: set[int], seconds: float = 8) -> bool:
    """Wait until processes have ended; return whether they have."""
    until = time.monotonic() + seconds
    while any(is_alive(pid) for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True

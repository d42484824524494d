"""What the rows are measured with: the canned server, the contenders' processes, and interleaved rounds."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any

from ..interop import install

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
Rounds = dict[str, list[float]]
# The official SDK of the other major version stands in the column of the SDK, where only that has what a row
# measures.
STANDS_FOR = {"sdk1": "sdk"}
COMPONENTS = {"sdk": "sdk2", "sdk1": "sdk1"}


class ContenderFailed(Exception):
    """A contender could not do what a row asked of it."""


def environment(ours: bool) -> dict[str, str]:
    """Return the environment of a contender.

    Its bytecode is kept, as that of an installed package is: otherwise ours, which runs from the checkout,
    would be compiled at each start where ``PYTHONDONTWRITEBYTECODE`` is set.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONPATH": str(REPOSITORY)} if ours else inherited


class Contender:
    """One contender's process; it carries out a command when asked and otherwise waits."""

    def __init__(
        self, name: str, command: Sequence[str], core: int | None = None, timeout: float = 180
    ) -> None:
        self.name = name
        self._timeout = timeout
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(name == "ours"),
        )
        if core is not None:
            # Inherited by the threads and processes that it starts when it is told to.
            os.sched_setaffinity(self._process.pid, {core})

    def ask(self, command: str, **arguments: Any) -> Any:
        """Carry out one command and return its value.

        Raises:
            ContenderFailed: It raised, died, or took longer than the timeout.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = Timer(self._timeout, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(json.dumps([command, arguments]) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watchdog.cancel()
        reply = json.loads(line) if line else {"error": "the process ended or took too long"}
        if "error" in reply:
            raise ContenderFailed(f"{self.name}: {command}: {reply['error']}")
        return reply["value"]

    def end(self) -> None:
        """End the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=None if self._process.poll() is not None else 10)
        self._process.wait(10)


@dataclass
class Lab:
    """The canned server and the settings of this run."""

    contenders: Sequence[str]
    quick: bool = False
    url: str = ""
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Have something said once below the table."""
        if text not in self.notes:
            self.notes.append(text)

    def few(self, usual: int, quick: int) -> int:
        """Choose a count by the `--quick` option."""
        return quick if self.quick else usual

    def python(self, contender: str) -> str:
        """Return the interpreter that a contender runs under."""
        component = COMPONENTS.get(contender)
        return sys.executable if component is None else str(install.venv_python(component))

    def script(self, contender: str) -> str:
        """Return a contender's own module, which run as a script is a whole program."""
        return str(HERE / f"contender_{contender}.py")

    @contextlib.contextmanager
    def serving(self) -> Iterator[Lab]:
        """Run the canned HTTP server while the block runs."""
        process = subprocess.Popen(
            [sys.executable, str(HERE / "canned_http.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        self.url = f"http://127.0.0.1:{int(process.stdout.readline())}"
        try:
            yield self
        finally:
            process.communicate(timeout=10)

    @contextlib.contextmanager
    def websocket(self, core: int | None) -> Iterator[str]:
        """Run the canned WebSocket server, which keeps to a core if one is given; yield its URL."""
        place = [] if core is None else [str(core)]
        process = subprocess.Popen(
            [sys.executable, str(HERE / "canned_websocket.py"), *place],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            yield f"ws://127.0.0.1:{int(process.stdout.readline())}/ws"
        finally:
            process.communicate(timeout=10)

    def stats(self) -> dict[str, int]:
        """Return, and reset, how many connections the server had."""
        with urllib.request.urlopen(f"{self.url}/stats", timeout=10) as answer:
            told: dict[str, int] = json.loads(answer.read())
            return told

    def stdio_command(self, core: int | None) -> list[str]:
        """Return the command of the canned stdio server, which keeps to a core if one is given."""
        place = [] if core is None else [str(core)]
        return [sys.executable, str(HERE / "canned_stdio.py"), *place]

    def cores(self, count: int) -> list[int | None]:
        """Choose so many cores; `None` (anyone) where the system cannot keep a process to one."""
        if not hasattr(os, "sched_setaffinity"):
            self.note("this system keeps no process to a core: the stdio rows are noise")
            return [None] * count
        usable = sorted(os.sched_getaffinity(0))
        if len(usable) < count:
            self.note(f"there are only {len(usable)} cores: some stdio rows share them")
        return [usable[index % len(usable)] for index in range(count)]

    @contextlib.contextmanager
    def running(
        self, *names: str, target: dict[str, Any] | None = None, core: int | None = None
    ) -> Iterator[dict[str, Contender]]:
        """Start those contenders that this run measures, connected to a target; end them with the block.

        Args:
            names: The contenders.
            target: What they connect to.
            core: Where they are kept, with all their threads and what they start.
        """
        chosen = [name for name in names if STANDS_FOR.get(name, name) in self.contenders]
        with contextlib.ExitStack() as stack:
            started = {}
            for name in chosen:
                worker = Contender(name, [self.python(name), str(HERE / "worker.py"), name], core)
                stack.callback(worker.end)
                if target is not None:
                    worker.ask("open", target=target)
                    stack.callback(_close_quietly, worker)
                started[name] = worker
            yield started

    def http(self, path: str, **extra: Any) -> dict[str, Any]:
        """Describe a target on the canned HTTP server."""
        return {"url": self.url + path, **extra}


def _close_quietly(worker: Contender) -> None:
    with contextlib.suppress(ContenderFailed):
        worker.ask("close")


def interleave(rounds: int, takes: dict[str, Callable[[], float]]) -> Rounds:
    """Take one measurement from each contender in turn, `rounds` times, another one first each time."""
    names = list(takes)
    values: Rounds = {name: [] for name in names}
    for number in range(rounds):
        for index in range(len(names)):
            name = names[(number + index) % len(names)]
            values[name].append(takes[name]())
    return values


def small_calls(workers: dict[str, Contender], rounds: int, count: int, busy: bool = False) -> Rounds:
    """Measure the median milliseconds of a small call in each round, after a warm-up."""
    for worker in workers.values():
        worker.ask("calls", count=20, busy=busy)

    def take(worker: Contender) -> float:
        return statistics.median(worker.ask("calls", count=count, busy=busy)) / 1e6

    return interleave(rounds, {name: (lambda w=worker: take(w)) for name, worker in workers.items()})


def program_seconds(command: Sequence[str], ours: bool) -> float:
    """Run a program to its end; return the seconds that took."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=60, env=environment(ours))
    return time.perf_counter() - start


def import_seconds(python: str, statement: str, ours: bool) -> float:
    """Return the seconds that an import takes in a new interpreter."""
    program = f"from time import perf_counter as p; s = p(); {statement}; print(p() - s)"
    command = [python, "-c", program]
    return float(
        subprocess.run(command, check=True, capture_output=True, timeout=60, env=environment(ours)).stdout
    )

"""Measure the command line: `python -m tests.benchmarks.command_line`.

- `mcp-sync --help` beyond `python -c pass`: at most 150 ms;
- `mcp-sync call` over HTTP against the same by the command line of FastMCP: at most 0.5 times.

All are new processes, in turns; the bytecode of both is kept. The server is one of FastMCP's own. Beside the
time that passed stands that of the processor: on a machine with other work to do, the first says little.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from ..interop import install
from .lab import environment

ROUNDS = 15
TIMEOUT = 120


class Taken(NamedTuple):
    """What a process has taken, in milliseconds.

    Attributes:
        wall: The time that passed.
        cpu: The time of the processor.
    """

    wall: float
    cpu: float


def main() -> None:
    """Measure, and print one line for each; a missed target never changes the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    install.install(["fastmcp4"])
    print(f"Python {sys.version.split()[0]}, {rounds} rounds, medians")
    ours = [sys.executable, "-m", "mcp_sync.cli"]
    started = _medians({"bare": [sys.executable, "-c", "pass"], "help": [*ours, "--help"]}, rounds)
    wall, cpu = (ours - bare for ours, bare in zip(started["help"], started["bare"]))
    print(
        f"mcp-sync --help beyond python -c pass: {wall:.0f} ms (at most 150), {cpu:.0f} ms of the processor"
    )

    python = str(install.venv_python("fastmcp4"))
    script = str(install.home().parents[1] / "tests" / "interop" / "servers" / "fastmcp4_server.py")
    with subprocess.Popen(
        [python, "-W", "ignore", script, "http"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/mcp"
            theirs = [python, "-m", "fastmcp.cli", "call", url, "add", "a=1", "b=2", "--auth", "none"]
            called = _medians(
                {"mcp-sync": [*ours, "call", url, "add", "a=1", "b=2"], "fastmcp": theirs}, rounds
            )
        finally:
            server.terminate()
    for name, each in called.items():
        print(f"call by {name:9} {each.wall:6.0f} ms, {each.cpu:6.0f} ms of the processor")
    wall, cpu = (ours / theirs for ours, theirs in zip(called["mcp-sync"], called["fastmcp"]))
    print(f"ratio {wall:.2f} (at most 0.5), {cpu:.2f} of the processor")


def _medians(commands: dict[str, Sequence[str]], rounds: int) -> dict[str, Taken]:
    """Run all commands in turns and return the medians of each; the first turn warms up."""
    taken: dict[str, list[Taken]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, command in commands.items():
            found = _run(command, ours=name != "fastmcp")
            if turn:
                taken[name].append(found)
    return {name: Taken(*map(statistics.median, zip(*times))) for name, times in taken.items()}


def _run(command: Sequence[str], *, ours: bool) -> Taken:
    begun, before = time.perf_counter(), _processor()
    subprocess.run(
        command,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(ours=ours),
        timeout=TIMEOUT,
    )
    wall, cpu = time.perf_counter() - begun, _processor() - before
    return Taken(wall * 1000, cpu * 1000)


def _processor() -> float:
    """Return the seconds that children of this process have taken of the processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()

"""Measure the command line: `python -m tests.benchmarks.command_line`.

- `mcp-sync --help` beyond `python -c pass`: at most 150 ms;
- `mcp-sync call` over HTTP against the same by the command line of FastMCP: at most 0.5 times.

All are new processes, in turns; the bytecode of both is kept. The server is one of FastMCP's own.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from ..interop import install
from .lab import environment

ROUNDS = 15


def main() -> None:
    """Measure, and print one line for each; a missed target never changes the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    install.install(["fastmcp4"])
    print(f"Python {sys.version.split()[0]}, {rounds} rounds, medians")
    ours = [sys.executable, "-m", "mcp_sync.cli"]
    started = _medians({"bare": [sys.executable, "-c", "pass"], "help": [*ours, "--help"]}, rounds)
    extra = (started["help"] - started["bare"]) * 1000
    print(f"mcp-sync --help beyond python -c pass: {extra:.0f} ms (at most 150)")

    python = str(install.venv_python("fastmcp4"))
    script = str(install.home().parents[1] / "tests" / "interop" / "servers" / "fastmcp4_server.py")
    with subprocess.Popen(
        [python, "-W", "ignore", script, "http"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/mcp"
            theirs = [python, "-m", "fastmcp.cli", "call", url, "add", "a=1", "b=2", "--auth", "none"]
            called = _medians({"ours": [*ours, "call", url, "add", "a=1", "b=2"], "theirs": theirs}, rounds)
        finally:
            server.terminate()
    share = called["ours"] / called["theirs"]
    print(f"mcp-sync call: {called['ours'] * 1000:.0f} ms, fastmcp call: {called['theirs'] * 1000:.0f} ms")
    print(f"ratio {share:.2f} (at most 0.5)")


def _medians(commands: dict[str, Sequence[str]], rounds: int) -> dict[str, float]:
    """Run all commands in turns and return the median of each, in seconds; the first turn warms up."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, command in commands.items():
            begun = time.perf_counter()
            subprocess.run(
                command,
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment(ours=name != "theirs"),
                timeout=120,
            )
            if turn:
                taken[name].append(time.perf_counter() - begun)
    return {name: statistics.median(times) for name, times in taken.items()}


if __name__ == "__main__":
    main()

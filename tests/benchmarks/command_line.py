"""The command line as new processes, by the time of the processor: the clock counts what else runs."""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence

from ..interop import install
from .lab import REPOSITORY, environment

OURS = (sys.executable, "-m", "mcp_sync.cli")
TIMEOUT = 120


@contextlib.contextmanager
def fastmcp_server() -> Iterator[str]:
    """Run a server of FastMCP's own over HTTP; yield its URL."""
    script = str(REPOSITORY / "tests" / "interop" / "servers" / "fastmcp4_server.py")
    with subprocess.Popen(
        [fastmcp_python(), "-W", "ignore", script, "http"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/mcp"
        finally:
            server.terminate()


def fastmcp_python() -> str:
    """Return the interpreter that has FastMCP, which is installed at first."""
    install.install(["fastmcp4"])
    return str(install.venv_python("fastmcp4"))


def processor_seconds(command: Sequence[str], *, ours: bool) -> float:
    """Run a command to its end and return what it has taken of the processor."""
    before = _used_by_children()
    subprocess.run(
        command,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(ours=ours),
        timeout=TIMEOUT,
    )
    return _used_by_children() - before


def _used_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

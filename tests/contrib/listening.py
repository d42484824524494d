"""Waits for a server of the tests' own to listen at a socket of the file system."""

from __future__ import annotations

import socket
import subprocess
import time

PATIENCE = 60.0  # seconds


def wait_for(place: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until a server takes connections."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as client:
                return client.connect(place)
        except OSError:
            assert server.poll() is None, f"{server.args!r} does not start"
            assert time.monotonic() < until, f"{server.args!r} does not listen"
            time.sleep(0.02)

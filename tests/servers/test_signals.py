"""A signal handler that raises while all servers are asked: the caller hears it, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from mcp_sync import ClientGroup

from .fakes import PATIENCE, named, over_http

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no signals to processes here")


class TimeIsUp(Exception):
    """What the handler raises."""


def test_ctrl_c_ends_the_wait_at_once_cancels_what_runs_and_leaves_the_group_usable() -> None:
    slow, released = named("slow"), threading.Event()

    def interrupt(message: Any) -> Any:
        os.kill(os.getpid(), signal.SIGUSR1)
        released.wait(PATIENCE)
        return NotImplemented

    def stop(*args: object) -> None:
        raise TimeIsUp

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with over_http(named("web"), slow, named("mail")) as servers, ClientGroup(servers) as group:
            group.open()
            slow.on("tools/list", interrupt)
            with pytest.raises(TimeIsUp):
                group.tools()
            slow.overrides.clear()
            released.set()
            assert len(group.tools(timeout=PATIENCE)) == 3
    finally:
        released.set()
        signal.signal(signal.SIGUSR1, before)

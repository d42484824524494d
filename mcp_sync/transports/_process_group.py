"""The group of a server's process: everything that it has started, unless that went its own way."""

from __future__ import annotations

import os
import subprocess
import sys


def signal_group(group: int, number: int) -> None:
    """Send a signal to a process group; on Windows, which has none, end a process with its descendants."""
    if sys.platform != "win32":
        os.killpg(group, number)
    else:
        subprocess.run(["taskkill", "/T", "/F", "/PID", str(group)], capture_output=True, check=False)


def group_lives(group: int) -> bool:
    """Say whether a process group has a member that has not ended."""
    if sys.platform == "win32":
        return False
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    # In a container nobody may bury those whose parent has ended before them: they stay members for ever.
    return _member_in_proc(group)


def _member_in_proc(group: int) -> bool:
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return True
    unknown = not pids
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                state, _, of_group = file.read().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(of_group) == group and state not in (b"Z", b"X"):
            return True
    return unknown

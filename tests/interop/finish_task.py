"""Finishes a task that another process has begun: `finish_task.py URL MODE SESSION`, the handle on stdin."""

from __future__ import annotations

import sys

from mcp_sync import Client

url, mode, session_id = sys.argv[1:]
with Client(url, mode=mode, session_id=session_id or None, timeout=20) as client:
    handle = client.task(sys.stdin.read())
    client.call_tool("go_on", {"key": "elsewhere"})
    print(handle.tool, handle.result().text)

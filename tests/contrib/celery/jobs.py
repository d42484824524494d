"""An application of Celery. Broker and results: the Redis at ``REDIS_SOCKET``; the server: ``MCP_URL``."""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded

from mcp_sync import CallTimeout
from mcp_sync.contrib.celery import MCPTask, use_servers

redis = os.environ.get("REDIS_SOCKET", "/nowhere")
app = Celery("jobs", broker=f"redis+socket://{redis}", backend=f"redis+socket://{redis}")
app.conf.update(
    broker_connection_retry_on_startup=False,
    # What a dead worker had taken goes to the next one, soon.
    broker_transport_options={"visibility_timeout": 1, "unacked_restore_interval": 0.5},
    worker_prefetch_multiplier=1,
    task_track_started=False,
    result_serializer=os.environ.get("RESULTS", "json"),
    result_accept_content=["json", "pickle"],
)


def redis_of_tests() -> Any:
    """Return where tasks leave notes for the tests."""
    from redis import Redis

    return Redis(unix_socket_path=redis)


url = os.environ.get("MCP_URL", "http://127.0.0.1:9/mcp")
use_servers(app, {"demo": {"url": url}}, envelope_key="secret")


@app.task(base=MCPTask, bind=True, mcp_server="demo", max_retries=3)
def call(self: Any, tool: str, arguments: dict[str, Any]) -> Any:
    """Call a tool; return what it said, and which process asked it."""
    return [self.mcp.call_tool(tool, arguments).text, os.getpid()]


@app.task(base=MCPTask, bind=True, mcp_server="demo", max_retries=3, mcp_timeout=1.5)
def impatient(self: Any, tool: str, arguments: dict[str, Any]) -> Any:
    """Call a tool within less time than a busy server asks for."""
    return self.mcp.call_tool(tool, arguments).text


@app.task(base=MCPTask, bind=True, mcp_server="demo", mcp_progress_interval=0)
def report(self: Any) -> Any:
    """Call a tool that reports."""
    return self.mcp.call_tool("report").text


@app.task(base=MCPTask, bind=True, mcp_server="demo", soft_time_limit=4, time_limit=30)
def slow(self: Any) -> Any:
    """Call a tool that never ends."""
    began = time.monotonic()
    try:
        self.mcp.call_tool("hang", timeout=60)
    except CallTimeout:
        return ["timeout", time.monotonic() - began < 4]
    except SoftTimeLimitExceeded:
        return ["limit", False]


@app.task(base=MCPTask, bind=True, mcp_server="demo")
def long(self: Any, tool: str) -> Any:
    """Call a tool that takes long."""
    return self.run_tool(tool)


@app.task(
    base=MCPTask,
    bind=True,
    mcp_server="demo",
    acks_late=True,
    reject_on_worker_lost=True,
    track_started=True,
)
def repeated(self: Any, tool: str) -> Any:
    """Call a tool that takes long, again if the process dies; tell first which one it is."""
    redis_of_tests().rpush("processes", os.getpid())
    return self.run_tool(tool)


@app.task(base=MCPTask, bind=True, mcp_server="demo", soft_time_limit=1, time_limit=30)
def unbounded(self: Any) -> Any:
    """Call a tool that never ends, past the bound on calls, until the limit comes."""
    try:
        return self.mcp.client.call_tool("hang", timeout=60)
    except SoftTimeLimitExceeded:
        return "limit"


@app.task
def after(results: Any, word: str) -> Any:
    """Come after tasks that take long: tell what they have said."""
    said = [each["content"][0]["text"] for each in (results if isinstance(results, list) else [results])]
    return [word, *said]


@app.task(base=MCPTask, mcp_server="demo")
def unbound() -> int:
    """Have no self."""
    return 1

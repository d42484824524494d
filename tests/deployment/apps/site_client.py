"""What an application has at module level: one client, which may be opened before the workers are forked."""

from __future__ import annotations

import os
import sys

from mcp_sync import Client
from mcp_sync.transports import Stdio, StreamableHTTP


def signed(request):
    """Say which process sends a request."""
    request.headers["X-Sender"] = str(os.getpid())
    return request


if "MCP_URL" in os.environ:
    target = StreamableHTTP(os.environ["MCP_URL"], auth=signed)
else:
    target = Stdio(sys.executable, ["-c", os.environ["MCP_SERVER"]])

client = Client(target, mode=os.environ.get("MCP_MODE", "auto"), timeout=20)
if os.environ.get("MCP_OPEN"):
    assert client.call_tool("echo", {"text": "before the fork"}).text == "before the fork"

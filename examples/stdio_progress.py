"""Start a server process, call a slow tool, and watch its progress.

    python examples/stdio_progress.py [COMMAND ...]

Without a command it starts the demo server that comes with mcp_sync.
"""

from __future__ import annotations

import sys
from typing import Optional

from mcp_sync import Client

DEMO_SERVER = [sys.executable, "-m", "mcp_sync.cli.demo_server"]


def show(progress: float, total: Optional[float], message: Optional[str]) -> None:
    share = f"{progress / total:4.0%}" if total else f"{progress:g}"
    print(f"{share} {message or ''}")


def main() -> None:
    with Client(sys.argv[1:] or DEMO_SERVER) as client:
        print("Tools:", ", ".join(tool.name for tool in client.tools()))
        result = client.call_tool("countdown", {"steps": 4, "delay": 0.05}, progress_callback=show)
        print(result.text)


if __name__ == "__main__":
    main()

"""Cancel a call from another thread; Ctrl-C and ``close()`` do it as well.

    python examples/cancelling.py [URL]

Without a URL it starts the demo server that comes with mcp_sync.
"""

from __future__ import annotations

import sys
from typing import Optional

from mcp_sync import CallCancelled, CancelToken, Client

DEMO_SERVER = [sys.executable, "-m", "mcp_sync.cli.demo_server"]


def main() -> None:
    token = CancelToken()

    def watch(progress: float, total: Optional[float], message: Optional[str]) -> None:
        """Cancel after two steps. Any thread may do so; this one delivers the progress."""
        print("step", f"{progress:g}")
        if progress == 2:
            token.cancel("two steps are enough")

    target = sys.argv[1] if len(sys.argv) > 1 else DEMO_SERVER
    with Client(target) as client:
        try:
            client.call_tool(
                "countdown", {"steps": 1000, "delay": 0.05}, cancel=token, progress_callback=watch
            )
        except CallCancelled as error:
            print("cancelled:", error.reason)
        # The client is as good as new.
        print(client.call_tool("add", {"a": 1, "b": 1}).text)


if __name__ == "__main__":
    main()

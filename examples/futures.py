"""Have many calls run at once, take what ends first, cancel the rest; then follow the progress of one.

    python examples/futures.py [URL]

Without a URL it starts the demo server that comes with mcp_sync.
"""

from __future__ import annotations

import sys
from concurrent.futures import FIRST_COMPLETED, as_completed, wait

from mcp_sync import Client

DEMO_SERVER = [sys.executable, "-m", "mcp_sync.cli.demo_server"]


def main() -> None:
    target = sys.argv[1] if len(sys.argv) > 1 else DEMO_SERVER
    with Client(target) as client:
        sums = [client.submit(client.call_tool, "add", {"a": n, "b": n}, timeout=30) for n in range(10)]
        total = sum(call.result().structured_content["sum"] for call in as_completed(sums))
        print("sum of all:", f"{total:g}")

        slow = client.submit(client.call_tool, "countdown", {"steps": 10_000})
        quick = client.submit(client.call_tool, "countdown", {"steps": 1, "delay": 0.01})
        done, _ = wait([slow, quick], return_when=FIRST_COMPLETED)
        print("quick first:", done == {quick})
        print("cancelled:", slow.cancel("the other one was faster"))

        # Leaving the block early would cancel the call.
        with client.stream_tool("countdown", {"steps": 3, "delay": 0.01}) as stream:
            for step in stream:
                print(f"{step.progress:g} of {step.total:g}: {step.message}")
            print(stream.result().text)


if __name__ == "__main__":
    main()

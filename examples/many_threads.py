"""One client for many threads.

python examples/many_threads.py https://example.com/mcp
"""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from mcp_sync import Client

THREADS = 16
CALLS = 200


def main(url: str) -> None:
    with Client(url) as client, ThreadPoolExecutor(THREADS) as pool:

        def double(number: int) -> float:
            result = client.call_tool("add", {"a": number, "b": number}, timeout=30)
            return float(result.structured_content["sum"])

        doubled = list(pool.map(double, range(CALLS)))
        assert doubled == [2 * number for number in range(CALLS)]
        print(f"{CALLS} calls, each thread got its own answers")
    print("Threads that are left:", threading.active_count())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

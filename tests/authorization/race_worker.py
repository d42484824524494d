"""Threads that share one grant, as a program: `race_worker.py KIND FOLDER URL SECONDS THREADS`.

It opens its client, prints a line, and starts when it is sent one. In the end it prints what came of it.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

from auth.store_worker import open_store

from mcp_sync import Client
from mcp_sync.auth import OAuth

PAUSE = 1.0  # seconds between two calls of a thread, at most


def run(client: Client, seconds: float, threads: int) -> dict[str, Any]:
    """Call a tool from all threads until the time is over; return the number of calls and what failed."""
    until = time.monotonic() + seconds
    calls: list[None] = []
    failures: list[str] = []

    def work(number: int) -> None:
        while time.monotonic() < until:
            text = f"{number} {len(calls)}"
            try:
                assert client.call_tool("echo", {"text": text}, timeout=30).text == text
            except Exception as error:
                failures.append(repr(error))
            calls.append(None)
            time.sleep(random.uniform(0, PAUSE))

    running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return {"calls": len(calls), "failures": failures}


if __name__ == "__main__":
    kind, folder, url, seconds, threads = sys.argv[1:]
    oauth = OAuth(store=open_store(kind, Path(folder)), interactive=False)
    with Client(url, auth=oauth, name="racer") as opened:
        opened.open()
        print("ready", flush=True)
        sys.stdin.readline()
        print(json.dumps(run(opened, float(seconds), int(threads))))

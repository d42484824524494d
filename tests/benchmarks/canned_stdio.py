"""A canned MCP server over standard input and output: 2026-07-28, and the older handshake.

With the number of a core as its argument it keeps to that core.
"""

from __future__ import annotations

import json
import os
import sys

import canned_answers as canned


def main() -> None:
    """Answer line by line until standard input ends."""
    legacy = False
    answers = {
        "server/discover": canned.discover(),
        "tools/list": canned.small_list(),
        "tools/call": canned.small_call(),
        "ping": canned.response({}),
    }
    unknown = canned.error(-32601, "Method not found")
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    for line in source:
        message = json.loads(line)
        if "id" not in message:
            continue
        if message["method"] == "initialize" and not legacy:
            legacy = True
            answers.update(
                {
                    "initialize": canned.initialize(),
                    "tools/list": canned.small_list(modern=False),
                    "tools/call": canned.small_call(modern=False),
                }
            )
        body = answers.get(message["method"], unknown)
        sink.write(body.replace(canned.ID, json.dumps(message["id"]).encode(), 1) + b"\n")
        sink.flush()


if __name__ == "__main__":
    if sys.argv[1:]:
        os.sched_setaffinity(0, {int(sys.argv[1])})
    main()

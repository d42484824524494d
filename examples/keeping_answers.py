"""Keep in a file what a server says of its tools: while that is fresh, the next run does not ask.

python examples/keeping_answers.py https://example.com/mcp answers.sqlite
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from mcp_sync import CacheOptions, Client


class SQLiteStore:
    """A store in a file, for all threads and processes of this machine."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._run("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, value BLOB, ends REAL)")

    def _run(self, statement: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(self.path, timeout=5)) as database, database:
            return database.execute(statement, values).fetchall()

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        marks = ", ".join("?" * len(keys))
        wanted = f"SELECT key, value FROM answers WHERE key IN ({marks}) AND ends > ?"
        return dict(self._run(wanted, *keys, time.time()))

    def put(self, key: str, value: bytes, seconds: int) -> None:
        self._run("REPLACE INTO answers VALUES (?, ?, ?)", key, value, time.time() + seconds)

    def delete(self, key: str) -> None:
        self._run("DELETE FROM answers WHERE key = ? OR ends < ?", key, time.time())


def main(url: str, path: str) -> None:
    # The answers are yours, whatever your token is just now.
    options = CacheOptions(store=SQLiteStore(path), principal="me", stale_on_error=3600)
    with Client(url, cache=options) as client:
        print("Tools:", ", ".join(tool.name for tool in client.tools()))
        print("Asked the server." if client.cache.stats.misses else "Did not ask the server.")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])

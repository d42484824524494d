"""Keep grants in a store of your own; here with a dict in the place of a database table.

MCP_CLIENT_ID=... MCP_CLIENT_SECRET=... python examples/grant_store.py https://example.com/mcp

A key is a tuple of strings, and a value holds what JSON can. Both hold for all processes that share the
store, and so has the lock.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from mcp_sync import CallTimeout, Client, ClientCredentials
from mcp_sync.auth import Deadline, Key, Stored


class TableStore:
    def __init__(self) -> None:
        self.rows: dict[Key, Stored] = {}
        self.locks: dict[Key, threading.Lock] = {}
        # Guards `rows`.
        self.guard = threading.Lock()

    def get(self, key: Key) -> Optional[Stored]:
        return self.rows.get(key)  # SELECT value, version ... WHERE key = :key

    def put(self, key: Key, value: Optional[Mapping[str, Any]], expected: Optional[str]) -> bool:
        with self.guard:  # UPDATE ... WHERE key = :key AND version = :expected
            row = self.rows.get(key)
            if (row.version if row else None) != expected:
                return False  # somebody else was faster
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = Stored(dict(value), secrets.token_hex(8))
            return True

    @contextlib.contextmanager
    def lock(self, key: Key, deadline: Deadline) -> Iterator[None]:
        lock, left = self.locks.setdefault(key, threading.Lock()), deadline.remaining()
        if not lock.acquire(timeout=-1 if left is None else left):
            raise CallTimeout(f"somebody else holds {key.kind}")
        try:
            yield
        finally:
            lock.release()


def main(url: str) -> None:
    store = TableStore()
    for _ in range(2):  # The second client finds the token of the first one.
        auth = ClientCredentials(os.environ["MCP_CLIENT_ID"], os.environ["MCP_CLIENT_SECRET"], store=store)
        with Client(url, auth=auth) as client:
            print(client.call_tool("add", {"a": 2, "b": 3}).text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

"""A process that shares a grant with others: `grant_worker STORE URL SECONDS` calls until time is over.

On a busy machine it calls longer: at least twelve times.
"""

from __future__ import annotations

import sys
import time

import requests

from mcp_sync import OAuth
from mcp_sync.auth import FileStore


def main(path: str, url: str, seconds: str) -> None:
    auth = OAuth(store=FileStore(path), interactive=False)
    end = time.monotonic() + float(seconds)
    calls = 0
    with requests.Session() as session:
        session.trust_env = False
        while time.monotonic() < end or calls < 12:
            response = session.post(url, data=b"{}", auth=auth, timeout=30)
            assert response.status_code == 200, response.status_code
            calls += 1
    print(calls)


if __name__ == "__main__":
    main(*sys.argv[1:])

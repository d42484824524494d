"""One client of a web application, and a view of it for each of its users.

    python examples/users.py URL TOKEN...

Each token is that of one user. All calls share connections; no token, cookie or kept answer is shared.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from mcp_sync import BearerToken, Client


def main(url: str, tokens: list[str]) -> None:
    # One for the process. It has no credentials, and needs none: it makes no call itself.
    mcp = Client(url, timeout=30)

    def handle_request(user: int) -> str:
        with mcp.for_principal(f"user {user}", auth=BearerToken(tokens[user])) as client:
            return client.call_tool("add", {"a": user, "b": 1}).text

    with ThreadPoolExecutor(4) as pool:
        for user, text in enumerate(pool.map(handle_request, range(len(tokens)))):
            print(f"user {user}: {text}")
    mcp.close()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])

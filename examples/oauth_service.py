"""Have a service log in by its own credentials, and call a tool from many threads.

MCP_CLIENT_ID=... MCP_CLIENT_SECRET=... python examples/oauth_service.py https://example.com/mcp
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from mcp_sync import Client, ClientCredentials, TokenRequestFailed


def main(url: str) -> int:
    # The secret is looked up when it is needed, so that it can be changed while the service runs.
    auth = ClientCredentials(os.environ["MCP_CLIENT_ID"], lambda: os.environ["MCP_CLIENT_SECRET"])
    try:
        with Client(url, auth=auth) as client, ThreadPoolExecutor(4) as pool:
            results = pool.map(lambda n: client.call_tool("add", {"a": n, "b": n}), range(10))
            print("Sum:", sum(result.structured_content["sum"] for result in results))
    except TokenRequestFailed as error:
        print("No token:", error)
        return 1
    print("Scope:", auth.status().scope)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))

"""Have a service log in by its own credentials, and call a tool from many threads.

MCP_CLIENT_ID=... MCP_CLIENT_SECRET=... python examples/oauth_service.py https://example.com/mcp

With --issuer only that authorization server gets to see the secret; without it, the one that the MCP server
names.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Optional

from mcp_sync import AuthError, Client, ClientCredentials, MCPError


def main(url: str, issuer: Optional[str]) -> int:
    if not {"MCP_CLIENT_ID", "MCP_CLIENT_SECRET"} <= set(os.environ):
        print("Set MCP_CLIENT_ID and MCP_CLIENT_SECRET", file=sys.stderr)
        return 2
    try:
        # The secret is looked up when it is needed, so that it can be changed while the service runs.
        auth = ClientCredentials(
            os.environ["MCP_CLIENT_ID"], lambda: os.environ["MCP_CLIENT_SECRET"], issuer=issuer
        )
        with Client(url, auth=auth) as client, ThreadPoolExecutor(4) as pool:
            results = pool.map(lambda n: client.call_tool("add", {"a": n, "b": n}), range(10))
            print("Sum:", sum(result.structured_content["sum"] for result in results))
    except AuthError as error:
        print("No token:", error)
        return 1
    except MCPError as error:
        print("It failed:", error)
        return 1
    print("Scope:", auth.status().scope)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", help="the MCP server")
    parser.add_argument("--issuer", help="the authorization server that the client is registered with")
    sys.exit(main(**vars(parser.parse_args())))

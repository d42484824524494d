"""Call a server over HTTP with a token, bounds on time, and an answer to every kind of failure.

MCP_TOKEN=... python examples/http_headers_and_timeouts.py https://example.com/mcp
"""

from __future__ import annotations

import os
import sys

from mcp_sync import CallTimeout, Client, HTTPStatusError, MCPError, Timeouts, ToolFailed, TransportError


def main(url: str) -> int:
    headers = {"Authorization": f"Bearer {os.environ.get('MCP_TOKEN', '')}"}
    client = Client(url, headers=headers, timeout=20, timeouts=Timeouts(connect=5))
    try:
        with client:
            print("Speaking", client.protocol_version)
            # A header of one request alone, and a bound of its own.
            result = client.call_tool(
                "add", {"a": 2, "b": 3}, headers={"X-Request-Id": "example"}, timeout=5, raise_on_error=True
            )
            print("Sum:", result.structured_content["sum"])
            client.call_tool("countdown", {"steps": 1000}, timeout=0.5)
    except ToolFailed as error:
        print("The tool failed:", error.result.text)
    except CallTimeout as error:
        print("Too slow; could the server have acted?", error.request_sent)
    except HTTPStatusError as error:
        print("HTTP status", error.status, error.headers.get("www-authenticate", ""))
        return 1
    except TransportError as error:
        print("No connection:", error)
        return 1
    except MCPError as error:
        print("Refused:", error)
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))

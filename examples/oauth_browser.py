"""Log in with a browser, list the tools of a server, and stay logged in for the next time.

python examples/oauth_browser.py https://example.com/mcp [FOLDER]

The grant is kept in FOLDER. On a machine without a browser add --paste; --logout forgets the grant.
"""

from __future__ import annotations

import argparse
import sys

from mcp_sync import AuthError, Client, MCPError, OAuth
from mcp_sync.auth import FileStore, PasteBack


def main(url: str, folder: str, paste: bool, logout: bool) -> int:
    interaction = PasteBack() if paste else None
    try:
        oauth = OAuth(store=FileStore(folder), server_url=url, interaction=interaction)
        if logout:
            print("Revoked:", oauth.logout())
            return 0
        print("Before:", oauth.status().state)
        with Client(url, auth=oauth) as client:
            print("Tools:", ", ".join(tool.name for tool in client.tools()))
    except AuthError as error:
        print("Not logged in:", error)
        return 1
    except MCPError as error:
        print("It failed:", error)
        return 1
    print("After:", oauth.status().state)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", help="the MCP server")
    parser.add_argument("folder", nargs="?", default="grants", help="where the grant is kept")
    parser.add_argument(
        "--paste", action="store_true", help="have the address pasted at which a browser ends"
    )
    parser.add_argument("--logout", action="store_true", help="revoke and forget the grant")
    sys.exit(main(**vars(parser.parse_args())))

"""Log in with a browser, list the tools of a server, and stay logged in for the next time.

python examples/oauth_browser.py https://example.com/mcp [FOLDER]

The grant is kept in FOLDER. On a machine without a browser add --paste; --logout forgets the grant.
"""

from __future__ import annotations

import sys

from mcp_sync import AuthError, Client, MCPError, OAuth
from mcp_sync.auth import FileStore, PasteBack


def main(url: str, folder: str = "grants", *flags: str) -> int:
    interaction = PasteBack() if "--paste" in flags else None
    oauth = OAuth(store=FileStore(folder), server_url=url, interaction=interaction)
    if "--logout" in flags:
        print("Revoked:", oauth.logout())
        return 0
    print("Before:", oauth.status().state)
    try:
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
    sys.exit(main(*sys.argv[1:]))

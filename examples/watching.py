"""Keep a copy of what a server offers up to date.

python examples/watching.py https://example.com/mcp demo://readme
"""

from __future__ import annotations

import sys

from mcp_sync import Client, ResourceUpdated, Resync, ToolsChanged


def main(url: str, uri: str) -> None:
    with Client(url) as client, client.listen(tools=True, resources=[uri]) as events:
        print("Watching", ", ".join(tool.name for tool in client.tools()), flush=True)
        for event in events:
            # After a Resync anything may have changed.
            if isinstance(event, (ToolsChanged, Resync)):
                print("Tools:", ", ".join(tool.name for tool in client.tools()))
            if isinstance(event, (ResourceUpdated, Resync)):
                print(client.read_resource(uri).text)
    print("The end:", events.ended)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])

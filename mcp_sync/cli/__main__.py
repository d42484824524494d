"""``python -m mcp_sync.cli`` is the same as ``mcp-sync``."""

from __future__ import annotations

from . import main

if __name__ == "__main__":
    main()

"""``manage.py mcp_verify``: see whether servers have the tools still that `mcp_lock` has noted.

For a deployment, or once a day: it fails if a tool has another description or schema, is new, or gone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp_sync.typed import PinMismatch

from ._pins import PinCommand


class Command(PinCommand):
    """See the module."""

    help = "Compare the tools of each server (or those that are named) with what mcp_lock has written."
    failure = "the tools are not as they were noted, or cannot be seen, of"

    def pinned(self, alias: str, view: Any, path: Path) -> bool:
        """See `PinCommand.pinned`."""
        if not path.exists():
            self.stdout.write(f"{alias}: there is no {path}: mcp_lock writes it")
            return False
        try:
            pins = view.pin_tools(path)
        except PinMismatch as error:
            for name, text in error.changes.items():
                self.stdout.write(f"{alias}: {name}: {text}")
            return False
        found = {**dict.fromkeys(pins.added, "is new"), **dict.fromkeys(pins.removed, "is gone")}
        for name, text in found.items():
            self.stdout.write(f"{alias}: {name}: {text}")
        if not found:
            self.stdout.write(f"{alias}: {len(pins.tools)} tools as before")
        return not found

"""``manage.py mcp_lock``: note which tools servers have, for `mcp_verify` and ``client.pin_tools``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ._pins import PinCommand


class Command(PinCommand):
    """See the module."""

    help = "Write a file for each server (or those that are named) that says which tools it has now."
    failure = "the tools were not noted of"

    def pinned(self, alias: str, view: Any, path: Path) -> bool:
        """See `PinCommand.pinned`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        pins = view.pin_tools(path, update=True)
        self.stdout.write(f"{alias}: {len(pins.tools)} tools written to {path}")
        return True

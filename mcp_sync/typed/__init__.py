"""Typed tools: functions for an interpreter, modules for a type checker, and pins against changes.

- ``client.tool.search(query="x")`` has the signature and the docstring of the tool (`ToolFunctions`).
- ``client.call_tool("search", {...}, result_type=Model)`` returns a checked value.
- `generate_stubs` (``mcp-sync stubs``) writes a module that ``mypy --strict`` understands.
- ``client.pin_tools("tools.lock")`` refuses tools that the server has changed (`Pins`, `PinMismatch`).
"""

from __future__ import annotations

from ._calling import OMITTED, Omitted, Returns, ToolCalls
from ._functions import ToolFunction, ToolFunctions
from ._pins import PinMismatch, Pins, fingerprint
from ._stubs import generate_stubs

__all__ = [
    "OMITTED",
    "Omitted",
    "PinMismatch",
    "Pins",
    "Returns",
    "ToolCalls",
    "ToolFunction",
    "ToolFunctions",
    "fingerprint",
    "generate_stubs",
]

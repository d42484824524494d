"""MCP tools in the formats of language models: plain dicts, without a vendor's library.

The formats: ``"anthropic"`` (Messages), ``"openai"`` (Responses), ``"openai-chat"`` (Chat Completions),
``"gemini"`` (generateContent) and ``"plain"`` (nobody's, and everybody's).

::

    tools = list(client.tools())
    response = vendor.create(tools=tool_definitions(tools, "anthropic"), ...)
    results = run_tool_calls(client, response, vendor="anthropic", tools=tools)

Everything but `run_tool_calls` is a pure function.
"""

from __future__ import annotations

from ._calls import ToolCall, tool_calls
from ._definitions import tool_definitions
from ._names import tool_name, vendor_name
from ._results import tool_result, tool_results
from ._running import run_tool_calls

__all__ = [
    "ToolCall",
    "run_tool_calls",
    "tool_calls",
    "tool_definitions",
    "tool_name",
    "tool_result",
    "tool_results",
    "vendor_name",
]

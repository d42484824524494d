"""What a client remembers of the tools that it listed: output schemas, and parameters sent as headers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Optional

from .._protocol.headers import InvalidParamHeader, compile_param_headers, param_headers
from .._protocol.schemas import OutputSchema
from ..types import ListToolsResult, Tool

logger = logging.getLogger("mcp_sync.tools")


class ToolIndex:
    """Filled by each ``tools/list`` that the user makes; never lists by itself.

    Safe from any thread: entries are replaced as a whole.
    """

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._schemas: dict[str, Optional[OutputSchema]] = {}

    def learn(self, result: ListToolsResult, check_headers: bool) -> None:
        """Take over a page of tools.

        Args:
            result: The page. With ``check_headers``, tools whose ``x-mcp-header`` annotations are
                invalid are taken out of it, with a warning: the specification has them rejected.
            check_headers: Whether annotations count, which they do on Streamable HTTP alone.
        """
        if check_headers:
            result.tools = [tool for tool in result.tools if self._headers_valid(tool)]
        for tool in result.tools:
            self._tools[tool.name] = tool
            self._schemas.pop(tool.name, None)

    def _headers_valid(self, tool: Tool) -> bool:
        try:
            compile_param_headers(tool.input_schema)
        except InvalidParamHeader as error:
            logger.warning("Left out tool %s: its x-mcp-header is invalid: %s", tool.name, error)
            self._tools.pop(tool.name, None)
            return False
        return True

    def headers(self, name: str, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Return the ``Mcp-Param-*`` headers of a call."""
        tool = self._tools.get(name)
        return param_headers(compile_param_headers(tool.input_schema), arguments) if tool is not None else {}

    def output_fault(self, name: str, output: Any) -> Optional[str]:
        """Return why an output does not match the tool's schema; ``None`` if it does, or none is known."""
        schema = self._schema(name)
        if schema is None:
            return None
        if output is None:
            return "the tool declares structured output but returned none"
        return schema.check(output)

    def _schema(self, name: str) -> Optional[OutputSchema]:
        if name not in self._schemas:
            tool = self._tools.get(name)
            declared = tool.output_schema if tool is not None else None
            self._schemas[name] = OutputSchema(declared) if isinstance(declared, dict) else None
        return self._schemas[name]

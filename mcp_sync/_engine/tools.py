"""What a client remembers of the tools that it listed: output schemas, and parameters sent as headers."""

from __future__ import annotations

import logging
import marshal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from .._concurrency.deadline import Deadline
from .._concurrency.fork import no_fork
from .._protocol.param_headers import InvalidParamHeader, ParamHeader, compile_param_headers, param_headers

# Models, and what checks schemas, load when they are used: a program that only calls needs neither.
if TYPE_CHECKING:
    from .._protocol.schemas import Schema
    from ..types import ListToolsResult, Tool

logger = logging.getLogger("mcp_sync.tools")

_ANNOTATION = b"x-mcp-header"


class ToolIndex:
    """Filled by each ``tools/list`` that the user makes; never lists by itself.

    Safe from any thread: entries are replaced as a whole.

    Attributes:
        mirrored: The parameters that are sent as headers, by the names of the tools that have some.
        schemas: The schemas of outputs, by the names of the tools that declare one.
        only_as_tasks: The tools that can only be called as tasks (2025-11-25).
    """

    def __init__(self) -> None:
        self.mirrored: dict[str, tuple[ParamHeader, ...]] = {}
        self.schemas: dict[str, Schema] = {}
        self._names: set[str] = set()
        self._admits_tasks: set[str] = set()
        self.only_as_tasks: set[str] = set()

    def learn(self, result: ListToolsResult, check_headers: bool) -> None:
        """Take over a page of tools.

        Args:
            result: The page. With ``check_headers``, tools whose ``x-mcp-header`` annotations are
                invalid are taken out of it, with a warning: the specification has them rejected.
            check_headers: Whether annotations count, which they do on Streamable HTTP alone.
        """
        # Hardly any tool has annotations, and looking for them in each schema would take longer than all
        # the rest of a large page.
        if check_headers and _is_annotated(result.tools):
            result.tools = [tool for tool in result.tools if self._learn_headers(tool)]
        elif self.mirrored:
            for tool in result.tools:
                self.mirrored.pop(tool.name, None)
        self._names.update([tool.name for tool in result.tools])
        if self.schemas or any(tool.output_schema is not None for tool in result.tools):
            self._learn_schemas(result.tools)
        if self._admits_tasks or any(tool.execution is not None for tool in result.tools):
            for tool in result.tools:
                self._learn_task_support(tool)

    def _learn_schemas(self, tools: list[Tool]) -> None:
        with no_fork():
            from .._protocol.schemas import Schema
        for tool in tools:
            if isinstance(tool.output_schema, dict):
                self.schemas[tool.name] = Schema(tool.output_schema)
            else:
                self.schemas.pop(tool.name, None)

    def _learn_task_support(self, tool: Tool) -> None:
        support = tool.execution.task_support if tool.execution is not None else None
        for known, is_one in (
            (self._admits_tasks, support in ("optional", "required")),
            (self.only_as_tasks, support == "required"),
        ):
            if is_one:
                known.add(tool.name)
            else:
                known.discard(tool.name)

    def admits_tasks(self, name: str) -> Optional[bool]:
        """Return whether a tool can be called as a task (2025-11-25), ``None`` if it was never listed."""
        return name in self._admits_tasks if name in self._names else None

    def _learn_headers(self, tool: Tool) -> bool:
        self.mirrored.pop(tool.name, None)
        try:
            compiled = compile_param_headers(tool.input_schema)
        except InvalidParamHeader as error:
            logger.warning("Left out tool %s: its x-mcp-header is invalid: %s", tool.name, error)
            return False
        if compiled:
            self.mirrored[tool.name] = compiled
        return True

    def headers(self, params: Mapping[str, Any]) -> dict[str, str]:
        """Return the ``Mcp-Param-*`` headers of a call."""
        compiled = self.mirrored.get(params["name"])
        return param_headers(compiled, params["arguments"]) if compiled else {}

    def output_fault(self, name: str, output: Any, deadline: Deadline) -> Optional[str]:
        """Return why an output does not match the tool's schema; ``None`` if it does, or none is known.

        A schema that takes longer to check than the deadline leaves counts as a fault.
        """
        schema = self.schemas.get(name)
        if schema is None:
            return None
        if output is None:
            return "the tool declares structured output but returned none"
        return schema.check(output, expired=lambda: deadline.expired)


def _is_annotated(tools: list[Tool]) -> bool:
    # The quickest way to look at all keys, at any depth.
    return _ANNOTATION in marshal.dumps([tool.input_schema for tool in tools])

"""The methods of the protocol, as the fake server answers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from . import _catalog, _extensions, _functions, _pages, _results, _task_methods
from ._context import ToolContext
from ._rpc import (
    INVALID_PARAMS,
    LOG_LEVELS,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_VERSION,
    Message,
    RpcError,
)

if TYPE_CHECKING:
    from ._exchange import Exchange


def initialize(exchange: Exchange) -> Message:
    """Agree on a revision with a client that begins with the handshake."""
    server = exchange.connection.server
    requested = exchange.params.get("protocolVersion")
    if not server.handshake_versions:
        data = {"supported": list(server.versions), "requested": str(requested)}
        raise RpcError(UNSUPPORTED_VERSION, f"This server speaks only {', '.join(server.versions)}", data)
    exchange.connection.begin(exchange.params.get("capabilities"))
    version = str(requested) if requested in server.handshake_versions else server.handshake_versions[0]
    return _with_instructions(
        exchange,
        {
            "protocolVersion": version,
            "capabilities": _extensions.capabilities(server, version, modern=False),
            "serverInfo": dict(server.server_info),
        },
    )


def discover(exchange: Exchange) -> Message:
    """Name the revisions and capabilities."""
    server = exchange.connection.server
    declared = _extensions.capabilities(server, exchange.version, modern=True)
    return _with_instructions(
        exchange, {"supportedVersions": list(server.modern_versions), "capabilities": declared}
    )


def _with_instructions(exchange: Exchange, result: Message) -> Message:
    instructions = exchange.connection.server.instructions
    return result if instructions is None else {**result, "instructions": instructions}


def empty(exchange: Exchange) -> Message:
    """Answer without any content."""
    return {}


def set_level(exchange: Exchange) -> Message:
    """Set the least level of log messages for the connection."""
    level = exchange.params.get("level")
    if level not in LOG_LEVELS:
        raise RpcError(INVALID_PARAMS, f"Unknown log level: {level!r}")
    exchange.connection.log_level = level
    return {}


def subscribe(exchange: Exchange) -> Message:
    """Have updates of a resource sent."""
    exchange.connection.subscribed.add(str(exchange.params.get("uri")))
    return {}


def unsubscribe(exchange: Exchange) -> Message:
    """Have updates of a resource no longer sent."""
    exchange.connection.subscribed.discard(str(exchange.params.get("uri")))
    return {}


# --- lists -----------------------------------------------------------------------------------------------


def list_tools(exchange: Exchange) -> Message:
    """List the tools."""
    tools = exchange.connection.server.tools.values()
    apps = _extensions.shows_apps(exchange)
    shown = [tool.wire(_task_methods.task_support(exchange, tool), apps) for tool in tools]
    return _pages.page(exchange, "tools", shown)


def list_prompts(exchange: Exchange) -> Message:
    """List the prompts."""
    return _pages.page(
        exchange, "prompts", [prompt.wire() for prompt in exchange.connection.server.prompts.values()]
    )


def list_resources(exchange: Exchange) -> Message:
    """List the resources."""
    return _pages.page(exchange, "resources", _resources(exchange, templates=False))


def list_templates(exchange: Exchange) -> Message:
    """List the templates of resources."""
    return _pages.page(exchange, "resourceTemplates", _resources(exchange, templates=True))


def _resources(exchange: Exchange, *, templates: bool) -> list[Message]:
    resources = exchange.connection.server.resources
    return [item.wire(uri) for uri, item in resources.items() if _catalog.is_template(uri) is templates]


# --- use -------------------------------------------------------------------------------------------------


def call_tool(exchange: Exchange) -> Message:
    """Call a tool. Whatever it raises becomes a result with ``isError``, except `RpcError`."""
    name = exchange.params.get("name")
    tool = exchange.connection.server.tools.get(str(name))
    if tool is None:
        raise RpcError(INVALID_PARAMS, f"Unknown tool: {name}")
    arguments = _arguments(exchange)
    fault = _functions.arguments_fault(tool.function, arguments)
    if fault is not None:
        return _results.tool_failure(f"Invalid arguments for {name}: {fault}")

    def work(context: ToolContext) -> Message:
        return _results.guarded(_functions.call, tool.function, context, arguments)

    if _task_methods.is_due(exchange, tool):
        return _task_methods.start(exchange, work)
    _check_state(exchange)
    return work(ToolContext(exchange))


def get_prompt(exchange: Exchange) -> Message:
    """Fill in a prompt."""
    name = exchange.params.get("name")
    prompt = exchange.connection.server.prompts.get(str(name))
    if prompt is None:
        raise RpcError(INVALID_PARAMS, f"Unknown prompt: {name}")
    arguments = _arguments(exchange)
    fault = _functions.arguments_fault(prompt.function, arguments)
    if fault is not None:
        raise RpcError(INVALID_PARAMS, f"Invalid arguments for {name}: {fault}")
    _check_state(exchange)
    value = _functions.call(prompt.function, ToolContext(exchange), arguments)
    return _results.prompt_result(value, prompt.description)


def read_resource(exchange: Exchange) -> Message:
    """Read a resource, directly or through a template."""
    uri = str(exchange.params.get("uri"))
    _check_state(exchange)
    for known, resource in exchange.connection.server.resources.items():
        variables = _catalog.match_template(known, uri)
        if variables is not None:
            content = resource.content
            if callable(content):
                content = _functions.call(content, ToolContext(exchange), variables)
            return _results.read_result(uri, content, resource.mime_type)
    code = INVALID_PARAMS if exchange.modern else RESOURCE_NOT_FOUND
    raise RpcError(code, f"Resource not found: {uri}", {"uri": uri})


def complete(exchange: Exchange) -> Message:
    """Suggest values for an argument."""
    function = exchange.connection.server.complete
    if function is None:
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {exchange.method}")
    context = exchange.params.get("context") or {}
    values = list(
        function(exchange.params["ref"], exchange.params["argument"], context.get("arguments") or {})
    )
    return {"completion": {"values": values[:100], "total": len(values), "hasMore": len(values) > 100}}


def _arguments(exchange: Exchange) -> Message:
    arguments = exchange.params.get("arguments")
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, "The arguments must be an object")
    return arguments


def _check_state(exchange: Exchange) -> None:
    # Reading the answers verifies the state: also that of a function which does not ask any more.
    if exchange.modern:
        _ = exchange.answers


def listen(exchange: Exchange) -> Optional[Message]:
    """Send notifications until the client or the server ends it."""
    _task_methods.require_known(exchange, exchange.params.get("notifications"))
    return exchange.connection.server.subscriptions.serve(exchange)

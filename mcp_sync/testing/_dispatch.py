"""How a request finds its method, and by which revision's rules it is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, cast

from . import _caching, _methods, _skills, _task_methods
from ._context import ToolContext
from ._functions import call_override
from ._rpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    LOG_LEVELS,
    META_CAPABILITIES,
    META_LOG_LEVEL,
    META_SERVER_INFO,
    META_VERSION,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    Message,
    RpcError,
)

if TYPE_CHECKING:
    from ._exchange import Exchange


class _Method(NamedTuple):
    run: Callable[[Exchange], Optional[Message]]
    handshake: bool = True
    stateless: bool = True
    cacheable: bool = False


_METHODS = {
    "initialize": _Method(_methods.initialize, stateless=False),
    "ping": _Method(_methods.empty, stateless=False),
    "server/discover": _Method(_methods.discover, handshake=False, cacheable=True),
    "tools/list": _Method(_methods.list_tools, cacheable=True),
    "tools/call": _Method(_methods.call_tool),
    "resources/list": _Method(_methods.list_resources, cacheable=True),
    "resources/templates/list": _Method(_methods.list_templates, cacheable=True),
    "resources/read": _Method(_methods.read_resource, cacheable=True),
    "resources/subscribe": _Method(_methods.subscribe, stateless=False),
    "resources/unsubscribe": _Method(_methods.unsubscribe, stateless=False),
    "prompts/list": _Method(_methods.list_prompts, cacheable=True),
    "prompts/get": _Method(_methods.get_prompt),
    "completion/complete": _Method(_methods.complete),
    "logging/setLevel": _Method(_methods.set_level, stateless=False),
    "subscriptions/listen": _Method(_methods.listen, handshake=False),
    "skills/list": _Method(_skills.list_skills, handshake=False, cacheable=True),
    "skills/get": _Method(_skills.get_skill, handshake=False, cacheable=True),
    "resources/directory/read": _Method(_skills.read_directory, handshake=False),
    "tasks/get": _Method(_task_methods.get),
    "tasks/update": _Method(_task_methods.update, handshake=False),
    "tasks/cancel": _Method(_task_methods.cancel),
    "tasks/result": _Method(_task_methods.result, stateless=False),
    "tasks/list": _Method(_task_methods.list_tasks, stateless=False),
}


def is_modern(exchange: Exchange) -> bool:
    """Whether a request is served by the rules of the revisions without a handshake."""
    server = exchange.connection.server
    if not server.modern_versions:
        return False
    if META_VERSION in exchange.meta:
        return True
    if exchange.connection.version:
        return False
    method = _METHODS.get(exchange.method)
    if method is not None and method.handshake != method.stateless:
        return method.stateless
    return not server.handshake_versions


def answer(exchange: Exchange) -> Optional[Message]:
    """Answer a request: by its override, else as the specification has it.

    Returns:
        The result, ``None`` if there is to be no answer.

    Raises:
        RpcError: The answer is an error.
    """
    override = exchange.connection.server.overrides.get(exchange.method)
    if override is not None:
        result: Any = call_override(override.function, exchange.message, ToolContext(exchange))
        if result is None or override.raw:
            return cast("Optional[Message]", result)
        if result is not NotImplemented:
            return completed(exchange, result)
    usual = _method(exchange).run(exchange)
    return None if usual is None else completed(exchange, usual)


def _method(exchange: Exchange) -> _Method:
    if exchange.modern:
        _check_meta(exchange)
    method = _METHODS.get(exchange.method)
    if method is None or not (method.stateless if exchange.modern else method.handshake):
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {exchange.method}")
    if (
        not exchange.modern
        and not exchange.connection.version
        and exchange.method not in ("initialize", "ping")
    ):
        raise RpcError(INVALID_REQUEST, f"{exchange.method} came before initialize")
    return method


def _check_meta(exchange: Exchange) -> None:
    server = exchange.connection.server
    version = exchange.meta.get(META_VERSION)
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f"_meta lacks {META_VERSION}")
    if version not in server.modern_versions:
        raise unsupported_version(server.versions, version)
    if not isinstance(exchange.meta.get(META_CAPABILITIES), dict):
        raise RpcError(INVALID_PARAMS, f"_meta lacks {META_CAPABILITIES}")
    level = exchange.meta.get(META_LOG_LEVEL)
    if level is not None and level not in LOG_LEVELS:
        raise RpcError(INVALID_PARAMS, f"Unknown log level: {level!r}")


def unsupported_version(supported: tuple[str, ...], requested: str) -> RpcError:
    """Build the error that names the revisions a server speaks."""
    data = {"supported": list(supported), "requested": requested}
    return RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def completed(exchange: Exchange, result: Message) -> Message:
    """Add what the revision asks of every result, where it is not there."""
    if exchange.method == "initialize":
        exchange.connection.version = str(result.get("protocolVersion", ""))
    if not exchange.modern:
        return result
    server = exchange.connection.server
    completed = {"resultType": "complete", **result}
    completed["_meta"] = {META_SERVER_INFO: dict(server.server_info), **completed.get("_meta", {})}
    method = _METHODS.get(exchange.method)
    if method is not None and method.cacheable and completed["resultType"] == "complete":
        completed = {**_caching.hints(exchange), **completed}
    return completed

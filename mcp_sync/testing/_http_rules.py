"""What the fake server demands of an HTTP request before it looks at what it asks for."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Optional
from urllib.parse import urlsplit

from ._rpc import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    META_VERSION,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Message,
    RpcError,
    meta_of,
    params_of,
)

if TYPE_CHECKING:
    from ._server import FakeServer

Headers = Mapping[str, str]
"""Header fields, their names in lower case."""


def method_of(body: bytes) -> Optional[str]:
    """Return the method of the message in a body, ``None`` if there is none."""
    try:
        message = json.loads(body)
    except ValueError:
        return None
    method = message.get("method") if isinstance(message, dict) else None
    return method if isinstance(method, str) else None


_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
_NAMES = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
_LOCAL = ("localhost", "127.0.0.1", "::1")


def status_of(reply: Message) -> int:
    """Return the HTTP status that goes with a response on a stateless revision."""
    error = reply.get("error")
    return _STATUS.get(error["code"], 200) if isinstance(error, dict) else 200


def belongs_to_modern(server: FakeServer, message: Any, headers: Headers) -> bool:
    """Whether a POST belongs to a revision without sessions."""
    if not server.modern_versions:
        return False
    if not server.handshake_versions or headers.get("mcp-protocol-version") in server.modern_versions:
        return True
    return isinstance(message, dict) and META_VERSION in meta_of(message)


def origin_is_local(headers: Headers) -> bool:
    """Whether the request comes from no web page, or from one on this machine."""
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).hostname in _LOCAL


def accepts(headers: Headers, *kinds: str) -> bool:
    """Whether ``Accept`` lists all of these media types."""
    listed = [part.split(";")[0].strip() for part in headers.get("accept", "").split(",")]
    return "*/*" in listed or all(kind in listed for kind in kinds)


def check_headers(server: FakeServer, message: Message, headers: Headers) -> None:
    """Compare the headers of a request on a stateless revision with its body.

    Raises:
        RpcError: They differ, or one is missing.
    """
    version = meta_of(message).get(META_VERSION)
    if not isinstance(version, str):
        return  # a fault of the body, which is told apart from one of the headers
    _compare("MCP-Protocol-Version", headers.get("mcp-protocol-version"), version)
    if version not in server.modern_versions:
        return  # a server cannot know the rules of that revision
    method = message["method"]
    params = params_of(message)
    _compare("Mcp-Method", headers.get("mcp-method"), method)
    if method in _NAMES:
        _compare("Mcp-Name", _decoded("Mcp-Name", headers.get("mcp-name")), params.get(_NAMES[method]))
    tool = server.tools.get(str(params.get("name"))) if method == "tools/call" else None
    if tool is not None:
        for path, name in _mirrored(tool.input_schema):
            _check_argument(headers, f"Mcp-Param-{name}", _value_at(params.get("arguments"), path))


def _check_argument(headers: Headers, name: str, value: Any) -> None:
    given = _decoded(name, headers.get(name.lower()))
    if value is None:
        if given is not None:
            raise RpcError(HEADER_MISMATCH, f"{name} is there, but the argument is not")
    elif isinstance(value, bool):
        _compare(name, given, "true" if value else "false")
    elif isinstance(value, (int, float)):
        if given is None or _number(given) != value:
            _compare(name, given, str(value))
    else:
        _compare(name, given, value)


def _compare(name: str, given: Optional[str], wanted: Any) -> None:
    if given is None:
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {name} is missing")
    if given != wanted:
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {name} is {given!r}, the body has {wanted!r}")


def _decoded(name: str, value: Optional[str]) -> Optional[str]:
    if value is None:
        return None
    if any(not (" " <= char <= "~" or char == "\t") for char in value):
        raise RpcError(HEADER_MISMATCH, f"{name} holds invalid characters")
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[len("=?base64?") : -len("?=")], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise RpcError(HEADER_MISMATCH, f"{name} is not valid Base64 of UTF-8 text") from None


def _number(text: str) -> Optional[float]:
    try:
        return float(text)
    except ValueError:
        return None


def _mirrored(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path and the header name of each argument that has to be mirrored."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    for key, described in properties.items() if isinstance(properties, dict) else ():
        if isinstance(described, dict):
            if "x-mcp-header" in described:
                yield (*path, key), described["x-mcp-header"]
            yield from _mirrored(described, (*path, key))


def _value_at(arguments: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        arguments = arguments.get(key) if isinstance(arguments, dict) else None
    return arguments

"""Words that every part of the fake server uses: errors, keys of ``_meta``, messages."""

from __future__ import annotations

import json
from typing import Any, Callable, Optional

Message = dict[str, Any]
Send = Callable[[Message], object]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
RESOURCE_NOT_FOUND = -32002
URL_ELICITATION_REQUIRED = -32042

_PREFIX = "io.modelcontextprotocol/"
META_VERSION = f"{_PREFIX}protocolVersion"
META_CAPABILITIES = f"{_PREFIX}clientCapabilities"
META_LOG_LEVEL = f"{_PREFIX}logLevel"
META_SERVER_INFO = f"{_PREFIX}serverInfo"
META_SUBSCRIPTION = f"{_PREFIX}subscriptionId"
META_RELATED_TASK = f"{_PREFIX}related-task"

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Raw(dict[str, Any]):
    """Bytes that go out in the place of a message."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data


class RpcError(Exception):
    """Raise it in an override or a tool to answer with a JSON-RPC error.

    Attributes:
        code: The error code.
        message: The words that go with it.
        data: Further information, ``None`` for none.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


def request_message(number: int, method: str, params: Message) -> Message:
    """Build a request of the server."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def notification(method: str, params: Optional[Message] = None) -> Message:
    """Build a notification."""
    message: Message = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return message


def error_response(request_id: Any, code: int, message: str, data: Any = None) -> Message:
    """Build an error response."""
    error: Message = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def params_of(message: Message) -> Message:
    """Return the params of a message, empty if there are none or they are no object."""
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def meta_of(message: Message) -> Message:
    """Return the ``_meta`` of a message, empty if there is none or it is no object."""
    meta = params_of(message).get("_meta")
    return meta if isinstance(meta, dict) else {}


def encode(message: Message) -> bytes:
    """Write a message as one line of JSON, without the line end.

    A response whose result is not JSON becomes an error response, as no server could send it.

    Raises:
        TypeError, ValueError: Any other message that is not JSON.
    """
    if isinstance(message, Raw):
        return message.data
    try:
        text = json.dumps(message, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError) as error:
        if "method" in message or "error" in message:
            raise
        return encode(error_response(message.get("id"), INTERNAL_ERROR, f"The result is not JSON: {error}"))
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(message, separators=(",", ":")).encode()

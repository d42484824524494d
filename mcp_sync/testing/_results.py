"""What tools, prompts and resources return, as results of the protocol."""

from __future__ import annotations

import base64
import json
from typing import Any, Callable, Optional

from ._context import ClientError
from ._rpc import RpcError

_CONTENT_TYPES = ("text", "image", "audio", "resource", "resource_link")


def text_content(text: str) -> dict[str, Any]:
    """Build a block of text."""
    return {"type": "text", "text": text}


def tool_result(value: Any) -> dict[str, Any]:
    """Make the result of ``tools/call`` from what a tool returned.

    A result (a dict with ``content``, or one that begins a task) and content blocks (a dict with a known
    ``type``, or a list of them) are taken as they are; any other dict becomes structured content and its
    JSON text; a string becomes text; ``None`` becomes no content; everything else becomes its JSON text.
    Models of ``mcp_sync.types``, and other models of pydantic, count as the dicts that they become.
    """
    value = _plain(value)
    if isinstance(value, dict):
        if isinstance(value.get("content"), list) or value.get("resultType") == "task":
            return dict(value)
        if value.get("type") in _CONTENT_TYPES:
            return {"content": [value]}
        return {"content": [text_content(json.dumps(value))], "structuredContent": value}
    if isinstance(value, list) and value and all(_is_content(item) for item in value):
        return {"content": list(value)}
    if value is None:
        return {"content": []}
    return {"content": [text_content(value if isinstance(value, str) else json.dumps(value))]}


def _plain(value: Any) -> Any:
    """Return dicts instead of models, also in a list."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    to_wire = getattr(value, "to_wire", None)
    if callable(to_wire):
        return to_wire()
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else value


def guarded(function: Callable[..., Any], *args: Any) -> dict[str, Any]:
    """Run a tool: whatever it raises becomes a result with ``isError``, except `RpcError`."""
    try:
        return tool_result(function(*args))
    except ClientError as error:
        return tool_failure(str(error))
    except RpcError:
        raise
    except Exception as error:
        return tool_failure(str(error) or type(error).__name__)


def tool_failure(text: str) -> dict[str, Any]:
    """Make the result of a tool that failed."""
    return {"content": [text_content(text)], "isError": True}


def prompt_result(value: Any, description: Optional[str]) -> dict[str, Any]:
    """Make the result of ``prompts/get``: of a result, a list of messages, a message, or the user's words."""
    value = _plain(value)
    if isinstance(value, dict) and "messages" in value:
        return dict(value)
    messages = value if isinstance(value, list) else [value]
    result: dict[str, Any] = {"messages": [_prompt_message(message) for message in messages]}
    if description is not None:
        result["description"] = description
    return result


def _prompt_message(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and "role" in value:
        return value
    return {"role": "user", "content": value if _is_content(value) else text_content(str(value))}


def read_result(uri: str, value: Any, mime_type: Optional[str]) -> dict[str, Any]:
    """Make the result of ``resources/read``: of a result, a list of contents, one of them, text or bytes."""
    value = _plain(value)
    if isinstance(value, dict) and "contents" in value:
        return dict(value)
    parts = value if isinstance(value, list) else [value]
    return {"contents": [_contents(uri, part, mime_type) for part in parts]}


def _contents(uri: str, value: Any, mime_type: Optional[str]) -> dict[str, Any]:
    contents: dict[str, Any] = {"uri": uri}
    if mime_type is not None:
        contents["mimeType"] = mime_type
    if isinstance(value, dict):
        return {**contents, **value}
    if isinstance(value, (bytes, bytearray)):
        contents["blob"] = base64.b64encode(value).decode("ascii")
    else:
        contents["text"] = str(value)
    return contents


def _is_content(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in _CONTENT_TYPES

"""The answers of the canned servers, made once, with holes for what a request decides."""

from __future__ import annotations

import json
from typing import Any

VERSION = "2026-07-28"
HANDSHAKE_VERSION = "2025-11-25"
SERVER_INFO = {"name": "canned", "version": "1.0.0"}
CAPABILITIES = {"tools": {}, "logging": {}}
CACHE = {"ttlMs": 0, "cacheScope": "private"}

BIG_BYTES = 10_000_000
PAGE_COUNT = 10
PAGE_SIZE = 500
PROGRESS_COUNT = 5_000
SLOW_SECONDS = 0.020

ID = b'"@ID@"'
TOKEN = b'"@TOKEN@"'


def tool(name: str) -> dict[str, Any]:
    """Describe one tool the way real servers do: with prose and a small schema."""
    return {
        "name": name,
        "description": f"Adds two numbers and returns their sum; known to its friends as {name}.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "description": "The first number"},
                "b": {"type": "integer", "description": "The second number"},
            },
            "required": ["a", "b"],
        },
    }


def _encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def response(result: dict[str, Any]) -> bytes:
    """Encode a response with a hole where the request's id belongs."""
    return _encode({"jsonrpc": "2.0", "id": "@ID@", "result": result})


def error(code: int, message: str) -> bytes:
    """Encode an error response with a hole where the request's id belongs."""
    return _encode({"jsonrpc": "2.0", "id": "@ID@", "error": {"code": code, "message": message}})


def _result(modern: bool, **fields: Any) -> dict[str, Any]:
    return {"resultType": "complete", **fields} if modern else fields


def discover() -> bytes:
    """Answer `server/discover`."""
    result = _result(True, supportedVersions=[VERSION], capabilities=CAPABILITIES, **CACHE)
    result["_meta"] = {"io.modelcontextprotocol/serverInfo": SERVER_INFO}
    return response(result)


def initialize() -> bytes:
    """Answer `initialize`."""
    return response(
        {"protocolVersion": HANDSHAKE_VERSION, "capabilities": CAPABILITIES, "serverInfo": SERVER_INFO}
    )


def small_call(modern: bool = True) -> bytes:
    """Answer `tools/call` with one short text."""
    return response(_result(modern, content=[{"type": "text", "text": "3"}], isError=False))


def big_call() -> bytes:
    """Answer `tools/call` with one text of `BIG_BYTES`: prose with the escapes that prose has."""
    line = 'The quick brown fox said "jump" and \\ jumped over the lazy dog, twice.\n'
    text = (line * (BIG_BYTES // len(line) + 1))[:BIG_BYTES]
    return response(_result(True, content=[{"type": "text", "text": text}], isError=False))


def small_list(modern: bool = True, ttl_ms: int = 0) -> bytes:
    """Answer `tools/list` with one tool."""
    hints = {**CACHE, "ttlMs": ttl_ms} if modern else {}
    return response(_result(modern, tools=[tool("add")], **hints))


def pages() -> dict[str, bytes]:
    """Answer `tools/list` page by page: cursor ("" for the first) to answer."""
    made = {}
    for page in range(PAGE_COUNT):
        tools = [tool(f"tool_{page * PAGE_SIZE + index}") for index in range(PAGE_SIZE)]
        result = _result(True, tools=tools, **CACHE)
        if page + 1 < PAGE_COUNT:
            result["nextCursor"] = f"page-{page + 1}"
        made[f"page-{page}" if page else ""] = response(result)
    return made


def sse(message: bytes) -> bytes:
    """Wrap a message as one server-sent event."""
    return b"event: message\r\ndata: " + message + b"\r\n\r\n"


def progress_stream() -> bytes:
    """Encode `PROGRESS_COUNT` progress notifications and the result behind them, as events."""
    events = []
    for count in range(1, PROGRESS_COUNT + 1):
        params = {"progressToken": "@TOKEN@", "progress": count, "total": PROGRESS_COUNT}
        events.append(sse(_encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})))
    events.append(sse(small_call()))
    return b"".join(events)

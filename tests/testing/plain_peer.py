"""A peer that talks to a fake server in plain messages, and the official schemas."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any, Callable, Optional

from jsonschema import Draft7Validator, Draft202012Validator

from mcp_sync._protocol.versions import LATEST_MODERN, TRAITS
from mcp_sync.testing import FakeServer

SCHEMAS = Path(__file__).parent.parent / "schema"
PREFIX = "io.modelcontextprotocol/"
EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}

Message = dict[str, Any]


def modern_meta(capabilities: Optional[Message] = None, version: str = LATEST_MODERN) -> Message:
    """Return what `_meta` has to hold on a stateless revision."""
    return {
        f"{PREFIX}protocolVersion": version,
        f"{PREFIX}clientCapabilities": EVERYTHING if capabilities is None else capabilities,
    }


class Peer:
    """The client's side of a fake server, message by message.

    Attributes:
        sent: What the server sent by itself.
        on_send: Called with each of these.
    """

    def __init__(self, server: FakeServer, version: str, capabilities: Optional[Message] = None) -> None:
        self.server = server
        self.version = version
        self.modern = TRAITS[version].modern
        self.capabilities = EVERYTHING if capabilities is None else capabilities
        self.sent: list[Message] = []
        self.on_send: Callable[[Message], None] = lambda message: None
        self._ids = itertools.count(1)
        if not self.modern:
            self.result("initialize", protocolVersion=version, capabilities=self.capabilities, clientInfo={})
            self.tell("notifications/initialized")

    def message(self, method: str, /, _meta: Optional[Message] = None, **params: Any) -> Message:
        """Build a request."""
        meta = {**(modern_meta(self.capabilities, self.version) if self.modern else {}), **(_meta or {})}
        if meta:
            params["_meta"] = meta
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}

    def request(self, method: str, /, **params: Any) -> Any:
        """Send a request and return the response."""
        return self.deliver(self.message(method, **params))

    def result(self, method: str, /, **params: Any) -> Any:
        """Send a request and return its result."""
        response = self.request(method, **params)
        assert "result" in response, response
        return response["result"]

    def error(self, method: str, /, **params: Any) -> Any:
        """Send a request and return the error that answers it."""
        response = self.request(method, **params)
        assert "error" in response, response
        return response["error"]

    def call(self, name: str, /, _meta: Optional[Message] = None, **arguments: Any) -> Any:
        """Call a tool and return its result."""
        return self.result("tools/call", _meta=_meta, name=name, arguments=arguments)

    def tell(self, method: str, /, **params: Any) -> None:
        """Send a notification."""
        assert self.deliver({"jsonrpc": "2.0", "method": method, "params": params}) is None

    def deliver(self, message: Message) -> Any:
        """Send any message."""
        return self.server.handle(json.loads(json.dumps(message)), self._take)

    def _take(self, message: Message) -> None:
        self.sent.append(message)
        self.on_send(message)


def validate(version: str, name: str, value: Any) -> None:
    """Hold a value against a definition of a revision's official schema."""
    schema = json.loads((SCHEMAS / version / "schema.json").read_text(encoding="utf-8"))
    key = "$defs" if "$defs" in schema else "definitions"
    validator = Draft202012Validator if key == "$defs" else Draft7Validator
    validator({**schema, "$ref": f"#/{key}/{name}"}).validate(value)


def text_of(result: Any) -> str:
    """Return the text of a tool's result."""
    return "".join(block["text"] for block in result["content"])

"""The floor: `requests` and `json` (or a pipe, or a WebSocket) with the same payloads, without a protocol."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import requests
import websocket

# What our client sends, so that the server has as much to read.
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "mcp-sync", "version": "0.1.0"},
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "add",
}


def _payload(request_id: int, method: str = "tools/call", params: Any = None) -> dict[str, Any]:
    params = {"name": "add", "arguments": {"a": 1, "b": 2}} if params is None else params
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**params, "_meta": META}}


class Contender:
    """Bare HTTP, a bare pipe or a bare WebSocket, whichever the target is."""

    def open(self, target: dict[str, Any]) -> None:
        """Keep what a call needs; the first call connects."""
        self.next_id = 0
        self.url = target.get("url")
        self.event_stream = target.get("event_stream", False)
        self.headers = HEADERS
        self.process: Any = None
        self.socket: Any = None
        if self.url is not None and self.url.startswith("ws:"):
            self.socket = websocket.create_connection(self.url, subprotocols=["mcp"])
        elif self.url is None:
            self.process = subprocess.Popen(target["command"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        else:
            self.session = requests.Session()
            if target.get("legacy"):
                self.headers = {**HEADERS, "Mcp-Session-Id": "canned-session"}

    def close(self) -> None:
        """End the connection or the process."""
        if self.process is not None:
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait(10)
        elif self.socket is not None:
            self.socket.close()
        else:
            self.session.close()

    def _post(self, payload: dict[str, Any]) -> Any:
        answer = self.session.post(self.url, json=payload, headers=self.headers).content
        if self.event_stream:
            start = answer.index(b"data: ") + 6
            answer = answer[start : answer.index(b"\r\n", start)]
        return json.loads(answer)["result"]

    def call(self) -> None:
        """Make one small call."""
        self.next_id += 1
        if self.socket is not None:
            self.socket.send(json.dumps(_payload(self.next_id)))
            result = json.loads(self.socket.recv())["result"]
        elif self.process is None:
            result = self._post(_payload(self.next_id))
        else:
            self.process.stdin.write(json.dumps(_payload(self.next_id)).encode() + b"\n")
            self.process.stdin.flush()
            result = json.loads(self.process.stdout.readline())["result"]
        assert result["content"][0]["text"] == "3"

    def big(self) -> int:
        """Make one call with a big result; return the text's length."""
        self.next_id += 1
        return len(self._post(_payload(self.next_id))["content"][0]["text"])

    def pages(self) -> int:
        """Fetch every page of tools; return how many tools there were."""
        count, cursor = 0, None
        while True:
            self.next_id += 1
            params = {} if cursor is None else {"cursor": cursor}
            result = self._post(_payload(self.next_id, "tools/list", params))
            count += len(result["tools"])
            cursor = result.get("nextCursor")
            if cursor is None:
                return count

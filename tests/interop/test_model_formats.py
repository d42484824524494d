"""The tools of other makers' servers in the formats of language models, and called from there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import Client, Stdio
from mcp_sync.llm import run_tool_calls, tool_definitions

from .servers_of_others import MAKERS, command, environment, folder_of

pytestmark = pytest.mark.interop


def _client(maker: str, parent: Path) -> Client:
    folder = folder_of(maker, parent)
    first, *rest = command(maker, folder)
    return Client(Stdio(first, rest, env=environment(folder)))


def _keys(value: Any) -> set[str]:
    """Return all keys at any depth."""
    if isinstance(value, dict):
        return set(value).union(*map(_keys, value.values()))
    return set().union(*map(_keys, value)) if isinstance(value, list) else set()


@pytest.mark.parametrize("maker", MAKERS)
def test_the_tools_of_each_server_are_described_to_models(maker: str, tmp_path: Path) -> None:
    with _client(maker, tmp_path) as client:
        tools = list(client.tools())
        for strict in (False, True):
            for made in tool_definitions(tools, "openai", strict=strict):
                assert made["parameters"]["type"] == "object"
        for made in tool_definitions(tools, "anthropic"):
            assert not {"anyOf", "oneOf", "allOf", "$ref"} & made["input_schema"].keys()
        (gemini,) = tool_definitions(tools, "gemini")
        assert not {"$ref", "$defs", "additionalProperties", "const"} & _keys(gemini)
        calls = [{"type": "function_call", "call_id": "1", "name": tools[0].name, "arguments": "{}"}]
        assert run_tool_calls(client, calls, vendor="openai", tools=tools, timeout=20)[0]["call_id"] == "1"


def test_images_of_a_server_reach_a_model(tmp_path: Path) -> None:
    with _client("everything", tmp_path) as client:
        call = {"type": "tool_use", "id": "1", "name": "get-tiny-image", "input": {}}
        (result,) = run_tool_calls(client, [call], vendor="anthropic", timeout=20)
        saved = client.call_tool("get-tiny-image").save(tmp_path / "images")
    assert "image" in [block["type"] for block in result["content"]], json.dumps(result)[:500]
    assert [path.name for path in saved] == ["image-1.png"]
    assert saved[0].read_bytes().startswith(b"\x89PNG")

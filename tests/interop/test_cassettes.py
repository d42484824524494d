"""Sessions with servers on the official SDK, recorded and replayed without them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import Client, RemoteError, Timeouts, types
from mcp_sync.testing import Recorder, Replay

from .harness import Harness
from .test_python_sdks import among, text

pytestmark = pytest.mark.interop
CANARY = "canary-91ab"


def agree(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Anna", "age": 5})


def work(target: Any, mode: str) -> list[Any]:
    """Do what brings every kind of message about."""
    reports: list[float] = []
    logged: list[Any] = []
    with Client(
        target,
        mode=mode,
        # On a busy machine a server takes longer to start than the probe waits; it would get both openings.
        timeouts=Timeouts(probe=20),
        elicitation_callback=agree,
        logging_callback=lambda params: logged.append(params.data),
        list_roots_callback=lambda context: types.ListRootsResult(roots=[]),
    ) as client:
        found = [
            client.protocol_version,
            [tool.name for tool in client.tools()],
            client.call_tool("add", {"a": 1, "b": 2}).structured_content,
            text(
                client.call_tool(
                    "slow", {"steps": 3}, progress_callback=lambda done, *_: reports.append(done)
                )
            ),
            text(client.call_tool("talk", {"text": "a word"})),
            text(client.call_tool("ask_user")),
            text(client.call_tool("ask_roots")),
            client.call_tool("fail", {"reason": f"password={CANARY}"}).is_error,
            client.read_resource("note://hello").contents[0].text,
            client.get_prompt("greet", {"name": "Anna"}).messages[0].content.text,
        ]
        with pytest.raises(RemoteError) as caught:
            client.read_resource("note://nowhere")
        found += [caught.value.code, caught.value.message]
    return [*found, reports, logged]


@among("sdk2", "sdk1", "fastmcp4")
def test_a_session_is_the_same_without_the_server(harness: Harness, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    recorded = work(Recorder(harness.target, path), harness.endpoint.mode)
    assert recorded[-2] == sorted(recorded[-2]) != []
    replay = Replay(path)
    assert work(replay, harness.endpoint.mode) == recorded
    assert replay.unused == []
    content = path.read_text()
    assert CANARY not in content
    assert json.loads(content.splitlines()[0])["mcp_sync_cassette"] == 1

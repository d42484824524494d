"""An application and its tests. Run them with ``pytest examples/tests_with_pytest``.

The fixtures come with the package; ``test_recorded`` makes a recording at the first run, and needs no server
at the next ones.
"""

from __future__ import annotations

import pytest

from mcp_sync import CallTimeout, Client, InMemory
from mcp_sync.testing import Fault, FaultPlan


def first_hit(client: Client, query: str) -> str:
    """What is tested: a function of the application."""
    try:
        result = client.call_tool("search", {"query": query, "limit": 1}, timeout=1)
    except CallTimeout:
        return "nothing found in time"
    return str(result.structured_content["hits"][0])


@pytest.mark.mcp(eras=["modern", "legacy"], transports=["memory", "http", "websocket"])
def test_the_first_hit_is_found_on_every_revision(mcp_client):
    assert first_hit(mcp_client, "tea") == "tea 0"


def test_the_server_was_asked_for_one_hit(mcp_client, mcp_server):
    first_hit(mcp_client, "tea")
    assert mcp_server.received("tools/call")[0]["params"]["arguments"] == {"query": "tea", "limit": 1}


def test_what_the_server_logs_arrives(mcp_client, mcp_notifications):
    first_hit(mcp_client, "tea")
    assert mcp_notifications.wait_for("message").params.data == "searching tea"


def test_a_silent_server_is_not_waited_for(mcp_server):
    plan = FaultPlan({"tools/call": [Fault.stall("answer")]})
    with mcp_server.serve_http(faults=plan) as endpoint, Client(endpoint.url) as client:
        assert first_hit(client, "tea") == "nothing found in time"
        plan.release()


def test_recorded(mcp_cassette, mcp_server, tmp_path):
    for _ in range(2):  # a real project has a URL here, and no path
        with Client(mcp_cassette(InMemory(mcp_server), tmp_path / "search.jsonl")) as client:
            assert first_hit(client, "tea") == "tea 0"
    assert mcp_server.count("tools/call") == 1

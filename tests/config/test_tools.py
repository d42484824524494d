"""Tools that a configuration allows or denies: for lists and for calls, and however the call is made."""

from __future__ import annotations

import pytest

from mcp_sync import Client, UsageError
from mcp_sync.config import load_config
from mcp_sync.testing import FakeServer


def search(query: str) -> str:
    """Search."""
    return f"found {query}"


def delete(query: str) -> str:
    """Delete."""
    return f"deleted {query}"


def test_denied_tools_are_neither_listed_nor_called_not_even_by_a_view() -> None:
    server = FakeServer([search, delete], page_size=1)
    with server.serve_http() as endpoint:
        config = load_config({"here": {"url": endpoint.url, "excludeTools": ["del*"]}})
        with config["here"].client() as client, client.for_principal("ada") as view:
            for each in (client, view):
                assert [tool.name for tool in each.tools()] == ["search"]
                assert each.call_tool("search", {"query": "x"}).text == "found x"
                for way in (
                    lambda each=each: each.call_tool("delete", {"query": "x"}),
                    lambda each=each: each.start_task("delete", {"query": "x"}),
                    lambda each=each: each.request("tools/call", {"name": "delete"}),
                    lambda each=each: each.submit(each.call_tool, "delete").result(5),
                ):
                    with pytest.raises(
                        UsageError, match="'delete' of here is not among those that may be used"
                    ):
                        way()
    assert {message["params"]["name"] for message in server.received("tools/call")} == {"search"}


def test_only_allowed_tools_exist_and_a_denial_counts_more() -> None:
    server = FakeServer([search, delete])
    with server.serve_http() as endpoint:
        entry = {"url": endpoint.url, "includeTools": ["search", "delete"], "excludeTools": ["delete"]}
        with load_config({"here": entry})["here"].client() as client:
            assert [tool.name for tool in client.tools()] == ["search"]


def test_without_a_filter_it_is_an_ordinary_client() -> None:
    assert type(load_config({"here": {"command": "x"}})["here"].client()) is Client

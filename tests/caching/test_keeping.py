"""What is kept, for how long, and what leaves the cache aside."""

from __future__ import annotations

import pytest
from engine.scripted import DuplexTarget, PostTarget, legacy, modern, refusal, text

from mcp_sync import (
    BearerToken,
    CacheOptions,
    CallCancelled,
    CancelToken,
    Client,
    ClientClosed,
    ConnectionLost,
    InMemory,
    InvalidParams,
    MethodNotFound,
    UsageError,
    types,
)
from mcp_sync.apps import Apps
from mcp_sync.cache import CacheStats, MemoryCache
from mcp_sync.testing import FakeServer, FakeTool, RpcError

from .places import URI, add, keeping, make_server

LISTS = {
    "tools/list": lambda client, **how: client.list_tools(**how),
    "prompts/list": lambda client, **how: client.list_prompts(**how),
    "resources/list": lambda client, **how: client.list_resources(**how),
    "resources/templates/list": lambda client, **how: client.list_resource_templates(**how),
    "resources/read": lambda client, **how: client.read_resource(URI, **how),
}
every_method = pytest.mark.parametrize("method", LISTS)


@every_method
def test_an_answer_is_given_again_while_it_is_fresh(method, clock):
    server = make_server()
    with keeping(server) as client:
        first = LISTS[method](client)
        clock.move(59.9)
        assert LISTS[method](client) == first
        assert server.count(method) == 1
        clock.move(0.1)
        LISTS[method](client)
        assert server.count(method) == 2


@every_method
def test_without_a_cache_every_call_is_made(method):
    server = make_server()
    with Client(InMemory(server)) as client:
        LISTS[method](client)
        LISTS[method](client, cache="use")
        LISTS[method](client, cache="refresh")
        assert server.count(method) == 3
        with pytest.raises(UsageError, match="CacheOptions"):
            _ = client.cache


@every_method
def test_a_call_can_refresh_what_is_kept_or_leave_it_aside(method):
    server = make_server()
    with keeping(server) as client:
        LISTS[method](client, cache="bypass")
        LISTS[method](client)
        assert server.count(method) == 2, "what a call brought that left the cache aside was kept"
        LISTS[method](client, cache="refresh")
        LISTS[method](client, cache="bypass")
        assert server.count(method) == 4
        LISTS[method](client)
        assert server.count(method) == 4
        assert client.cache.stats == CacheStats(hits=1, misses=1, refreshes=1, stores=2)
        with pytest.raises(UsageError, match="refresh"):
            LISTS[method](client, cache="never")


def test_a_refreshed_answer_replaces_the_one_that_was_kept():
    server = make_server()
    with keeping(server) as client:
        client.list_tools()
        server.tools["more"] = FakeTool(add, name="more")
        assert len(client.list_tools().tools) == 1
        assert len(client.list_tools(cache="refresh").tools) == 2
        assert len(client.list_tools().tools) == 2


def test_a_refreshed_answer_that_may_not_be_kept_takes_the_old_one_with_it():
    server = make_server()
    with keeping(server) as client:
        client.list_tools()
        server.ttl_ms = 0
        client.list_tools(cache="refresh")
        client.list_tools()
        assert server.count("tools/list") == 3


@pytest.mark.parametrize("scopes", [("private", "public"), ("public", "private")], ids="-".join)
def test_a_refreshed_answer_counts_whatever_the_scope_of_the_old_one(scopes):
    server = make_server(cache_scope=scopes[0])
    with keeping(server) as client:
        client.list_tools()
        server.cache_scope = scopes[1]
        server.tools["more"] = FakeTool(add, name="more")
        client.list_tools(cache="refresh")
        assert len(client.list_tools().tools) == 2


@pytest.mark.parametrize("ttl", [0, -1, -(10**400), None, "60000", True, [], float("nan")], ids=repr)
def test_an_answer_without_a_time_is_not_kept(ttl):
    server = make_server()
    server.on("tools/list", lambda message: {"resultType": "complete", "tools": [], "ttlMs": ttl}, raw=True)
    with keeping(server) as client:
        client.list_tools()
        client.list_tools()
        assert server.count("tools/list") == 2
        assert client.cache.stats.stores == 0


def test_no_answer_is_kept_for_longer_than_the_client_allows(clock):
    server = make_server(ttl_ms=10**400)
    with keeping(server, max_ttl=5) as client:
        client.list_tools()
        clock.move(4.9)
        client.list_tools()
        assert server.count("tools/list") == 1
        clock.move(0.2)
        client.list_tools()
        assert server.count("tools/list") == 2


@pytest.mark.parametrize("versions", ["modern", "legacy"])
def test_what_the_server_does_not_say_the_client_may_say(versions, clock):
    server = make_server(versions=versions, ttl_ms=None, cache_scope=None)
    with keeping(server, default_ttl=10) as client:
        client.list_tools()
        client.list_tools()
        assert server.count("tools/list") == 1
        clock.move(10)
        client.list_tools()
        assert server.count("tools/list") == 2
        server.ttl_ms = 0
        client.list_tools(cache="refresh")
        client.list_tools()
        assert server.count("tools/list") == (4 if versions == "modern" else 3)


def test_every_page_is_kept_by_itself(clock):
    tools = {name: FakeTool(add, name=name) for name in "abcd"}
    server = make_server(
        tools=tools, page_size=1, ttl_ms=lambda params: 60_000 if params.get("cursor") else 1_000
    )
    with keeping(server) as client:
        assert [tool.name for tool in client.tools()] == list("abcd")
        assert [tool.name for tool in client.tools()] == list("abcd")
        assert server.count("tools/list") == 4
        clock.move(2)
        assert [tool.name for tool in client.tools()] == list("abcd")
        assert server.count("tools/list") == 5
        assert [tool.name for tool in client.tools(cache="refresh")] == list("abcd")
        assert server.count("tools/list") == 9


def test_a_cursor_that_is_refused_takes_all_pages_with_it():
    server = make_server(tools={name: FakeTool(add, name=name) for name in "ab"}, page_size=1)
    with keeping(server) as client:
        client.list_tools()
        client.list_prompts()
        with pytest.raises(InvalidParams):
            client.list_tools("long gone")
        client.list_tools()
        client.list_prompts()
        assert (server.count("tools/list"), server.count("prompts/list")) == (3, 1)


def test_resources_are_kept_by_their_uri():
    server = make_server()
    with keeping(server) as client:
        assert [client.read_resource(f"demo://notes/{n}").contents[0].text for n in (2, 3, 2, 3)] == [
            "2",
            "3",
            "2",
            "3",
        ]
        assert server.count("resources/read") == 2


def test_what_has_something_of_its_own_leaves_the_cache_aside():
    server = make_server()
    with keeping(server) as client:
        client.list_tools()
        client.list_tools(meta={"com.example/tenant": "a"})
        client.read_resource(URI)
        client.read_resource(URI, on_input="raise")
        client.request("tools/list")
        client.request("tools/list", result_type=types.ListToolsResult)
        assert (server.count("tools/list"), server.count("resources/read")) == (4, 2)
    with server.serve_http() as endpoint, Client(endpoint.url, cache=CacheOptions()) as client:
        client.list_tools()
        before = server.count("tools/list")
        client.list_tools(headers={"X-Tenant": "a"})
        assert server.count("tools/list") == before + 1


def test_an_answer_that_took_input_is_not_kept():
    asked = []

    def note(context):
        asked.append(context.elicit("Which one?", {"type": "object", "properties": {}}))
        return "secret"

    server = make_server(resources={URI: note}, request_state=False)
    answer = types.ElicitResult(action="accept", content={})
    with Client(
        InMemory(server), cache=CacheOptions(), elicitation_callback=lambda context, params: answer
    ) as client:
        assert client.read_resource(URI).contents[0].text == "secret"
        assert client.read_resource(URI).contents[0].text == "secret"
        assert client.cache.stats.stores == 0
        assert server.count("resources/read") == 4


def test_errors_are_not_kept():
    server = make_server()
    server.on("tools/list", lambda message: _refuse())
    with keeping(server) as client:
        for _ in range(2):
            with pytest.raises(MethodNotFound):
                client.list_tools()
        del server.overrides["tools/list"]
        assert len(client.list_tools().tools) == 1


def _refuse():
    raise RpcError(-32601, "not now")


def test_every_caller_gets_a_copy_whose_list_is_its_own():
    server = make_server()
    with keeping(server) as client:
        first = client.list_tools()
        first.tools.clear()
        first.meta = {"mine": 1}
        second = client.list_tools()
        assert len(second.tools) == 1
        second.tools.append(second.tools[0])
        assert len(client.list_tools().tools) == 1
        assert client.list_tools().meta != {"mine": 1}
        read = client.read_resource(URI)
        read.contents.clear()
        assert client.read_resource(URI).contents[0].text == "one"


def test_what_one_client_does_to_an_answer_another_one_never_sees():
    server = make_server(cache_scope="public")
    with server.serve_http() as endpoint, Client(endpoint.url, cache=CacheOptions()) as client:
        ann, bob = (client.for_principal(name, auth=BearerToken(name)) for name in ("ann", "bob"))
        for _ in range(2):
            tool = ann.list_tools().tools[0]
            tool.description = "secret"
            tool.input_schema["properties"]["a"]["title"] = "secret"
            tool.input_schema["required"].append("secret")
            ann.read_resource(URI).contents[0].text = "secret"
            ann.list_resources().resources[0].title = "secret"
        for other in (bob, client):
            seen = (other.list_tools(), other.read_resource(URI), other.list_resources())
            assert not any("secret" in each.model_dump_json() for each in seen)
        assert (server.count("tools/list"), server.count("resources/read")) == (1, 1)


def test_a_client_knows_the_schemas_of_tools_that_it_listed_from_the_cache():
    server = make_server(tools=[FakeTool(add, output_schema={"type": "object", "required": ["total"]})])
    options = CacheOptions(store=MemoryCache(), principal="ann")
    with Client(InMemory(server), cache=options) as client:
        client.list_tools()
    target = client._engine.plan.target
    with Client(target, cache=options, validation="strict") as client:
        client.list_tools()
        assert client.cache.stats.hits == 1
        with pytest.raises(Exception, match="total"):
            client.call_tool("add", {"a": 1, "b": 2})


def test_tools_with_annotations_that_are_no_use_are_left_out_of_kept_lists_too():
    bad = {"type": "object", "properties": {"a": {"type": "object", "x-mcp-header": "A"}}}
    server = make_server(tools=[add, FakeTool(add, name="bad", input_schema=bad)])
    with server.serve_http() as endpoint, Client(endpoint.url, cache=CacheOptions()) as client:
        assert [tool.name for tool in client.list_tools().tools] == ["add"]
        assert [tool.name for tool in client.list_tools().tools] == ["add"]
        assert server.count("tools/list") == 1


def test_a_refused_call_of_a_tool_has_the_tools_listed_anew():
    server = make_server()
    with keeping(server) as client:
        client.list_tools()
        client.list_prompts()
        with pytest.raises(InvalidParams):
            client.call_tool("gone")
        client.list_tools()
        client.list_prompts()
        assert (server.count("tools/list"), server.count("prompts/list")) == (2, 1)
        client.call_tool("add", {"a": 1, "b": 2})
        client.list_tools()
        assert server.count("tools/list") == 2


@pytest.mark.parametrize("headers", [None, {"X-Trace": "1"}], ids=str)
def test_a_call_whose_headers_were_those_of_an_older_schema_has_the_tools_listed_anew(headers):
    def tools(request):
        region = {"type": "string", "x-mcp-header": next(names)}
        return {
            "tools": [{"name": "route", "inputSchema": {"type": "object", "properties": {"region": region}}}],
            "ttlMs": 60_000,
        }

    names = iter(["Old", "New"])
    outcomes = iter([refusal(-32020, "header mismatch"), text("done")])
    target = PostTarget(modern(tools_list=tools, tools_call=lambda request: next(outcomes)))
    with Client(target, cache=CacheOptions()) as client:
        client.list_tools()
        assert client.call_tool("route", {"region": "eu"}, headers=headers).text == "done"
        sent = [frame.headers for frame in target.now.frames if frame.method == "tools/call"]
        assert [("Mcp-Param-Old" in each, "Mcp-Param-New" in each) for each in sent] == [
            (True, False),
            (False, True),
        ]


@every_method
def test_clearing_forgets_one_method_or_all(method):
    server = make_server()
    with keeping(server) as client:
        for ask in LISTS.values():
            ask(client)
        client.cache.clear(method)
        for ask in LISTS.values():
            ask(client)
        assert {each: server.count(each) for each in LISTS} == {
            each: 2 if each == method else 1 for each in LISTS
        }
        client.cache.clear()
        for ask in LISTS.values():
            ask(client)
        assert {each: server.count(each) for each in LISTS} == {
            each: 3 if each == method else 2 for each in LISTS
        }
        with pytest.raises(UsageError, match="tools/list"):
            client.cache.clear("tools/call")


def test_what_is_kept_needs_no_connection_but_a_client_that_is_open():
    server = make_server()
    client = keeping(server)
    client.list_tools()
    token = CancelToken()
    token.cancel("no more")
    with pytest.raises(CallCancelled, match="no more"):
        client.list_tools(cancel=token)
    client.close()
    with pytest.raises(ClientClosed):
        client.list_tools()


@pytest.mark.parametrize("scope", ["public", "private"])
def test_an_answer_to_a_client_that_declares_something_else_is_not_given(scope):
    server = make_server(cache_scope=scope)
    store = MemoryCache()
    others = [{}, {"extensions": [Apps()]}, {"elicitation_callback": lambda context, params: None}, {}]
    for options in others:
        with Client(InMemory(server), cache=CacheOptions(store=store, principal="ann"), **options) as client:
            client._engine.plan.cache._keys._server = "the same one"
            client.list_tools()
    assert server.count("tools/list") == 3


@pytest.mark.parametrize("versions", [("modern", "legacy"), ("legacy", "modern")], ids="-".join)
def test_an_answer_of_one_revision_is_not_given_for_another(versions):
    server = make_server(ttl_ms=None)
    options = CacheOptions(store=MemoryCache(), principal="ann", default_ttl=60)
    target = InMemory(server)
    for count, mode in enumerate(versions, 1):
        mode = "2026-07-28" if mode == "modern" else mode
        with Client(target, mode=mode, cache=options) as client:
            client.list_tools()
            client.list_tools()
            assert server.count("tools/list") == count


def test_an_answer_in_another_revision_than_expected_is_not_kept():
    def tools(request):
        return {"tools": []}

    target = DuplexTarget(modern(tools_list=tools))
    with Client(target, cache=CacheOptions(default_ttl=60)) as client:
        client.open()
        target.now.lose(ConnectionLost("gone"))
        target.now.sync()
        target.scripts = legacy(tools_list=tools)
        client.list_tools()
        assert client.protocol_version == "2025-11-25"
        assert client.cache.stats.stores == 0
        client.list_tools()
        assert client.cache.stats.stores == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"store": {}},
        {"store": "redis"},
        {"principal": ""},
        {"principal": 7},
        {"secret": b""},
        {"secret": 7},
        {"default_ttl": -1},
        {"default_ttl": None},
        {"max_ttl": "day"},
        {"stale_on_error": float("nan")},
        {"share_public": None},
    ],
    ids=repr,
)
def test_options_that_cannot_work_are_refused_by_their_name(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        CacheOptions(**wrong)


def test_something_else_than_options_is_refused():
    with pytest.raises(UsageError, match="cache"):
        Client(InMemory(FakeServer()), cache=True)


def test_the_options_show_no_secret():
    assert "hidden" not in repr(CacheOptions(secret="hidden"))

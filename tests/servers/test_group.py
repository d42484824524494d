"""A group of servers: one list, each call to the right one, and none that is down harms another."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import (
    CallTimeout,
    Client,
    ClientClosed,
    ClientGroup,
    ConnectFailed,
    InMemory,
    UsageError,
)
from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.config import ConfigError
from mcp_sync.group import ServerStatus, StatusTable
from mcp_sync.testing import FakeServer, FakeTool

from .fakes import PATIENCE, named, over_http, process

# Nobody listens there.
DOWN = {"url": "http://127.0.0.1:9/mcp"}


def tool_names(group: ClientGroup, **options: Any) -> list[str]:
    return [tool.name for tool in group.tools(**options)]


def test_tools_of_all_are_listed_in_order_and_called_by_their_names() -> None:
    with over_http(named("web", "search", "fetch"), named("mail", "search")) as servers:
        servers["local"] = process("local")
        with ClientGroup(servers) as group:
            assert tool_names(group) == ["web_search", "web_fetch", "mail_search", "local_whoami"]
            assert group.call_tool("mail_search").text == "mail"
            assert group.call_tool("local_whoami", {}, timeout=PATIENCE).text == "local"
            assert group["web"].call_tool("search").text == "web"
            assert group.find_tool("web_fetch") == ("web", "fetch")
            assert (list(group), len(group), "mail" in group) == (["web", "mail", "local"], 3, True)


def test_a_call_by_an_unlisted_name_asks_only_its_server() -> None:
    web, mail = named("web", "search"), named("mail", "search")
    with over_http(web, mail) as servers, ClientGroup(servers) as group:
        assert group.call_tool("mail_search").text == "mail"

    assert not web.requests
    assert not mail.received("tools/list")


def test_one_that_is_down_is_left_out_and_the_table_says_why(caplog: pytest.LogCaptureFixture) -> None:
    bad = {"url": "https://h/${NOT_SET_AT_ALL}"}
    with over_http(named("web")) as servers:
        entries = {"down": DOWN, "bad": bad, "off": {"command": "x", "disabled": True}, **servers}
        with ClientGroup(entries) as group, caplog.at_level(logging.WARNING, "mcp_sync.group"):
            assert [each.state for each in group.status()] == ["idle", "idle", "disabled", "idle"]
            assert tool_names(group) == ["web_whoami"]
            assert group.call_tool("web_whoami").text == "web"
            table = group.status()
            assert [each.state for each in table] == ["failed", "failed", "disabled", "open"]
            assert isinstance(table[0].error, ConnectFailed)
            assert isinstance(table[1].error, ConfigError)
            assert (table[3].era, table[3].server) == (group["web"].protocol_version, "web 1.0")
            lines = str(table).splitlines()
            assert lines[0].split() == ["NAME", "STATE", "ERA", "SERVER", "ERROR"]
            assert "NOT_SET_AT_ALL is not set" in lines[2]
            with pytest.raises(ConnectFailed):
                group.call_tool("down_anything")
            with pytest.raises(ConfigError, match="'off' is disabled"):
                group["off"]
    assert [text.split(":")[0] for text in caplog.messages] == [
        "Server down is left out",
        "Server bad is left out",
    ]


def test_an_entry_that_cannot_be_is_left_out_and_the_table_says_why_at_once() -> None:
    with over_http(named("web")) as servers:
        entry = servers["web"]
        source = {"mcpServers": {"typo": {"comand": "x"}, "web": entry}}
        with ClientGroup(source) as group:
            (typo, web) = group.status()
            assert (typo.state, web.state) == ("failed", "idle")
            assert "did you mean 'command' by 'comand'?" in str(typo.error)
            assert tool_names(group) == ["web_whoami"]
            with pytest.raises(ConfigError, match="did you mean 'command'"):
                group.call_tool("typo_anything")
            group.reload({"mcpServers": {"typo": entry, "web": entry}})
            assert group.status()[0].state == "idle"
            assert tool_names(group) == ["typo_whoami", "web_whoami"]


def test_with_raise_the_first_error_is_raised() -> None:
    with over_http(named("web")) as servers:
        servers["down"] = DOWN
        with ClientGroup(servers, on_error="raise") as group:
            with pytest.raises(ConnectFailed):
                group.tools()
            with pytest.raises(ConnectFailed):
                group.open()


def test_what_the_caller_got_wrong_is_raised_and_not_taken_for_a_server_that_is_down() -> None:
    with over_http(named("web")) as servers, ClientGroup(servers) as group:
        with pytest.raises(UsageError, match="cache must be"):
            group.tools(cache="maybe")
        with pytest.raises(UsageError, match="timeout must be"):
            group.tools(timeout=-1)


class Gate:
    """Answers ``server/discover`` only when all servers have been asked."""

    def __init__(self, count: int) -> None:
        self.barrier = threading.Barrier(count)

    def server(self, name: str) -> FakeServer:
        made = named(name)
        made.on("server/discover", self.pass_on)
        return made

    def pass_on(self, message: Any) -> Any:
        self.barrier.wait(PATIENCE)
        return NotImplemented


def test_all_are_opened_at_the_same_time() -> None:
    gate = Gate(20)
    with (
        over_http(*[gate.server(f"s{number}") for number in range(20)]) as servers,
        ClientGroup(servers) as group,
    ):
        assert {each.state for each in group.open(timeout=PATIENCE)} == {"open"}
        assert len(group.tools()) == 20


def test_no_more_are_asked_at_a_time_than_there_may_be_threads() -> None:
    at_once = threading.Semaphore(2)
    servers = [named(f"s{number}") for number in range(6)]
    too_many = []

    def count(message: Any) -> Any:
        if not at_once.acquire(blocking=False):
            too_many.append(message)
        try:
            threading.Event().wait(0.01)
        finally:
            at_once.release()
        return NotImplemented

    for server in servers:
        server.on("tools/list", count)
    with over_http(*servers) as entries, ClientGroup(entries, threads=2) as group:
        assert len(group.tools()) == 6
    assert not too_many


def test_one_that_is_silent_is_left_out_when_the_time_is_over() -> None:
    slow, released = named("slow"), threading.Event()

    def hang(message: Any) -> Any:
        released.wait(PATIENCE)
        return NotImplemented

    slow.on("tools/list", hang)
    with over_http(named("web"), slow) as servers, ClientGroup(servers) as group:
        group.open()
        try:
            assert tool_names(group, timeout=0.5) == ["web_whoami"]
            assert isinstance(group.status()[1].error, CallTimeout)
        finally:
            released.set()


def test_a_server_without_tools_has_none() -> None:
    bare = FakeServer(capabilities={})
    with ClientGroup({"bare": InMemory(bare), "one": InMemory(named("one"))}) as group:
        assert tool_names(group) == ["one_whoami"]
        assert {each.error for each in group.status()} == {None}


# --- names and filters --------------------------------------------------------------------------------


def test_names_that_could_mean_two_are_told_apart_whoever_is_listed_first() -> None:
    with over_http(named("a", "b_c"), named("a_b", "c")) as servers:
        with ClientGroup(servers) as group:
            first, second = tool_names(group)
            assert second == "a_b_c"
            assert (group.call_tool(first).text, group.call_tool(second).text) == ("a", "a_b")
        with ClientGroup(servers) as group:
            # In another process, say: nothing was listed there.
            assert group.call_tool(first).text == "a"


def test_without_prefix_two_of_one_name_are_an_error_or_the_first_is_shown() -> None:
    with over_http(named("a", "x", "y"), named("b", "x")) as servers:
        refused = pytest.raises(UsageError, match="both 'a' and 'b' have a tool 'x'")
        with ClientGroup(servers, names="error") as group, refused:
            group.tools()
        with ClientGroup(servers, names="first") as group:
            assert tool_names(group) == ["x", "y"]
            assert group.call_tool("x").text == "a"
            assert group["b"].call_tool("x").text == "b"


def test_names_for_models() -> None:
    tools = ["a/b", "x" * 70]
    with ClientGroup({"my server": InMemory(named("s", *tools))}, for_models=True) as group:
        listed = tool_names(group)
        assert all(len(name) <= 64 and name.replace("_", "").isalnum() for name in listed)
        assert [group.find_tool(name) for name in listed] == [("my server", tool) for tool in tools]
        assert group.call_tool(listed[0]).text == "s"


def test_an_unknown_tool_is_an_error_with_a_hint() -> None:
    with (
        ClientGroup({"web": InMemory(named("web", "search"))}) as group,
        pytest.raises(UsageError, match=r"no server of the group has a tool 'wib_search'; .* 'web_search'"),
    ):
        group.call_tool("wib_search")


@pytest.mark.parametrize(
    "rules",
    [
        {"deny": ["del*", "mail/send"]},
        {"allow": ["read", "web/send"]},
        {"allow": lambda server, tool: tool == "read" or (server, tool) == ("web", "send")},
        {"deny": lambda server, tool: tool == "delete" or (server, tool) == ("mail", "send")},
    ],
)
def test_filters_hold_for_lists_and_calls_by_the_group_and_by_its_clients(rules: dict[str, Any]) -> None:
    web, mail = named("web", "read", "send", "delete"), named("mail", "read", "send")
    own = Client(InMemory(named("own", "read", "delete")))
    with over_http(web, mail) as servers, ClientGroup({**servers, "own": own}, **rules) as group:
        assert tool_names(group) == ["web_read", "web_send", "mail_read", "own_read"]
        assert [tool.name for tool in group["mail"].tools()] == ["read"]
        for name in ("web_delete", "mail_send", "own_delete"):
            with pytest.raises(UsageError, match="not among those that may be used"):
                group.call_tool(name)
        with pytest.raises(UsageError, match="not among those that may be used"):
            group["mail"].call_tool("send")
        with pytest.raises(UsageError, match="not among those that may be used"):
            group["web"].for_principal("ada").call_tool("delete")
        assert group.call_tool("web_send").text == "web"
    assert not mail.received("tools/call")
    own.close()


def test_a_tool_with_a_slash_in_its_name_is_denied_by_it_and_allowed_only_with_its_server() -> None:
    servers = {"web": InMemory(named("web", "admin/delete", "read"))}
    with ClientGroup(servers, deny=["admin/*"]) as group:
        assert tool_names(group) == ["web_read"]
        with pytest.raises(UsageError, match="not among those that may be used"):
            group.call_tool("web_admin/delete")
    with ClientGroup(servers, allow=["admin/delete"]) as group:
        assert tool_names(group) == []
    with ClientGroup(servers, allow=["web/admin/*"]) as group:
        assert tool_names(group) == ["web_admin/delete"]


# --- prompts and resources ----------------------------------------------------------------------------


def offering(name: str) -> InMemory:
    def greet() -> str:
        return f"Hello from {name}"

    resources = {f"demo://{name}": name, "demo://shared": name}
    return InMemory(FakeServer(prompts=[greet], resources=resources))


def test_prompts_and_resources_of_all() -> None:
    with ClientGroup({"a": offering("a"), "b": offering("b")}) as group:
        assert [prompt.name for prompt in group.prompts()] == ["a_greet", "b_greet"]
        assert group.get_prompt("b_greet").messages[0].content.text == "Hello from b"
        listed = [(server, str(resource.uri)) for server, resource in group.resources()]
        assert listed == [(name, uri) for name in "ab" for uri in (f"demo://{name}", "demo://shared")]
        assert group.read_resource("demo://b").contents[0].text == "b"
        assert group.read_resource("demo://shared", "a").contents[0].text == "a"
        with pytest.raises(UsageError, match="a and b have the resource demo://shared"):
            group.read_resource("demo://shared")
        with pytest.raises(UsageError, match="no server lists the resource demo://c"):
            group.read_resource("demo://c")


# --- changes ------------------------------------------------------------------------------------------


def test_servers_are_added_removed_and_connected_anew() -> None:
    with over_http(named("web"), named("mail", versions="legacy")) as servers:
        later = servers.pop("mail")
        with ClientGroup(servers) as group:
            web = group["web"]
            group.add("mail", later)
            assert tool_names(group) == ["web_whoami", "mail_whoami"]
            with pytest.raises(UsageError, match="a server 'mail' already"):
                group.add("mail", DOWN)
            mail = group["mail"]
            session = mail.session_id
            renewed = group.reconnect("mail")
            assert renewed is group["mail"]
            assert renewed is not mail
            assert (mail.closed, renewed.session_id != session) == (True, True)
            group.remove("web")
            assert web.closed
            assert tool_names(group) == ["mail_whoami"]
            for use in (lambda: group["web"], lambda: group.remove("web"), lambda: group.reconnect("web")):
                with pytest.raises(ConfigError, match=r"there is no server 'web'\. Known: mail"):
                    use()


def test_a_changed_configuration_replaces_what_has_changed_and_nothing_else(tmp_path: Path) -> None:
    with over_http(named("a"), named("b"), named("c")) as servers:
        added = servers.pop("c")
        with ClientGroup(servers) as group:
            group.open()
            a, b = group["a"], group["b"]
            changed = {**servers["b"], "timeout": 7}
            group.reload({"c": added, "a": servers["a"], "b": changed})
            assert group["a"] is a
            assert not a.closed
            assert b.closed
            assert tool_names(group) == ["c_whoami", "a_whoami", "b_whoami"]
            with pytest.raises(ConfigError):
                group.reload(tmp_path / "nothing.json")
            assert len(group) == 3


def test_closing_ends_all_but_the_users_own_and_every_later_use_fails() -> None:
    own = Client(InMemory(named("own")))
    with over_http(named("web")) as servers:
        group = ClientGroup({**servers, "local": process("local"), "own": own})
        group.open()
        clients = [group["web"], group["local"]]
        group.close()
        group.close()
    assert [client.closed for client in clients] == [True, True]
    assert not own.closed
    with pytest.raises(ClientClosed):
        group["web"]
    with pytest.raises(ClientClosed):
        group.tools()
    own.close()


def test_all_are_closed_at_the_same_time() -> None:
    barrier = threading.Barrier(5)
    servers = [named(f"s{number}", versions="legacy") for number in range(5)]

    def wait_for_all(request: Any) -> None:
        if request.method == "DELETE":
            barrier.wait(PATIENCE)

    endpoints = [server.serve_http(intercept=wait_for_all) for server in servers]
    try:
        group = ClientGroup({f"s{number}": each.url for number, each in enumerate(endpoints)})
        group.open()
        group.close(PATIENCE)
        assert not barrier.broken
        assert sum(server.count("initialize") for server in servers) == 5
    finally:
        for endpoint in endpoints:
            endpoint.close()


@pytest.mark.parametrize(
    "options",
    [
        {"names": "suffix"},
        {"on_error": "ignore"},
        {"threads": 0},
        {"separator": ""},
        {"allow": "read_*"},
        {"deny": 5},
        {"auth": ("a", "b")},
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ClientGroup({}, **options)
    with pytest.raises(UsageError):
        ClientGroup({5: "http://h"})  # type: ignore[dict-item]


@pytest.fixture
def quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_that_list_add_and_remove_at_once_do_no_harm(quick_switches: None) -> None:
    failures: list[BaseException] = []
    with ClientGroup({"base": InMemory(named("base"))}) as group:
        barrier = threading.Barrier(6)

        def change(number: int) -> None:
            barrier.wait(PATIENCE)
            for _ in range(10):
                group.add(f"s{number}", InMemory(named(f"s{number}")))
                group.tools()
                group.remove(f"s{number}")

        def read() -> None:
            barrier.wait(PATIENCE)
            for _ in range(20):
                assert "base_whoami" in tool_names(group)
                assert group.call_tool("base_whoami").text == "base"

        def guarded(work: Any, *args: Any) -> None:
            try:
                work(*args)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=guarded, args=(change, number)) for number in range(3)]
        threads += [threading.Thread(target=guarded, args=(read,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert not failures
        assert list(group) == ["base"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_a_group_of_its_own() -> None:
    with over_http(named("web", versions="legacy"), named("mail")) as servers, ClientGroup(servers) as group:
        before = tool_names(group)
        session = group["web"].session_id
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            code = 1
            try:
                same = tool_names(group) == before and group["web"].session_id != session
                os.write(write, b"well" if same else b"not the same")
                code = 0
            finally:
                os._exit(code)
        os.close(write)
        _, status = os.waitpid(pid, 0)
        with os.fdopen(read, "rb") as pipe:
            assert (status, pipe.read()) == (0, b"well")
        assert (tool_names(group), group["web"].session_id) == (before, session)


def test_a_tool_that_runs_as_a_task_is_started_by_its_own_name() -> None:
    server = FakeServer([FakeTool(lambda: "built", name="build", task=True)])
    with ClientGroup({"reports": InMemory(server)}) as group:
        owner, tool = group.find_tool("reports_build")
        assert group[owner].start_task(tool).result(timeout=PATIENCE).text == "built"


def test_the_table_has_one_line_for_each_server_whatever_the_error_says() -> None:
    table = StatusTable(
        [
            ServerStatus("a", "failed", ConnectFailed("first\nsecond")),
            ServerStatus("b\x1b[2J", "failed", ConnectFailed("x" * 500)),
            ServerStatus("c", "open", era="some", server="it\n1.0"),
        ]
    )

    assert str(table).splitlines() == [
        "NAME      STATE   ERA   SERVER  ERROR",
        "a         failed  -     -       first",
        f"b\\x1b[2J  failed  -     -       {'x' * 117}...",
        "c         open    some  it 1.0",
    ]


def test_the_time_is_that_of_all_pages_of_all_servers_and_of_one_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = named("one", *(f"t{number}" for number in range(5)), page_size=1)
    with ClientGroup({"one": InMemory(server)}) as group:
        group.open()
        spent = iter([30.0, 20.0, 10.0, 5.0, 0.0, 0.0, 0.0])
        monkeypatch.setattr(Deadline, "remaining", lambda self: next(spent) if self.timeout == 30.0 else None)
        seen = []
        one = group["one"]
        ask = one.list_tools

        def note(*args: Any, **options: Any) -> Any:
            seen.append(options.pop("timeout"))
            return ask(*args, **options)

        monkeypatch.setattr(one, "list_tools", note)
        group.tools(timeout=30.0)

    assert seen == [30.0, 20.0, 10.0, 5.0, 0.0]

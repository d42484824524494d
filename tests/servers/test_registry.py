"""The registry: one client for each alias, in every thread and process, and fakes in its place."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import Client, ClientClosed, ConnectFailed, InMemory, UsageError
from mcp_sync.config import ConfigError, load_config
from mcp_sync.registry import Registry
from mcp_sync.testing import FakeServer

from .fakes import PATIENCE, TESTS, named, over_http, process


@pytest.fixture
def quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_it_has_one_client_for_each_server_over_http_and_as_a_process() -> None:
    with over_http(named("web")) as servers, Registry({**servers, "local": process("local")}) as registry:
        assert registry["web"] is registry["web"]
        assert [registry[alias].call_tool("whoami").text for alias in registry] == ["web", "local"]
        assert len(registry) == 2
        assert "web" in registry
        assert "nobody" not in registry


def test_nothing_is_read_or_opened_before_a_client_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    registry = Registry(path, timeout=20)
    path.write_text('{"mcpServers": {"here": {"command": "${MISSING_HERE:-no-such-program}"}}}')

    with registry:
        assert str(registry.status()).splitlines()[1].split() == ["here", "idle", "-", "-"]
        client = registry["here"]
        assert not client.closed
        with pytest.raises(ConnectFailed, match="no-such-program"):
            client.send_ping()


def test_a_wrong_alias_lists_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(
        '{"mcpServers": {"weather": {"command": "x"}, "off": {"command": "x", "disabled": true}}}'
    )
    with Registry(path) as registry:
        said = r"mcp\.json: there is no server 'wether'; did you mean 'weather'\? Known: weather, off"
        with pytest.raises(ConfigError, match=said):
            registry["wether"]
        with pytest.raises(ConfigError, match="the server 'off' is disabled"):
            registry["off"]
        assert [each.state for each in registry.status()] == ["idle", "disabled"]


def test_one_more_client_has_options_of_its_own_and_ends_with_its_block() -> None:
    with Client(InMemory(named("own"))) as own, Registry({"a": InMemory(named("a")), "own": own}) as registry:
        with registry.another("a", name="mine", timeout=3) as client, registry.another("own") as theirs:
            assert (client.name, client.call_tool("whoami").text) == ("mine", "a")
            assert (registry["a"] is not client, theirs is own) == (True, True)
        assert (client.closed, own.closed, registry["a"].closed) == (True, False, False)
        with registry.override({"a": InMemory(named("fake"))}), registry.another("a") as client:
            assert client.call_tool("whoami").text == "fake"
        with pytest.raises(ConfigError, match="there is no server 'b'"), registry.another("b"):
            pass


def test_a_source_may_be_a_function_or_a_configuration_and_hold_any_target() -> None:
    own = Client(InMemory(named("own")))
    asked = []

    def servers() -> dict[str, Any]:
        asked.append(1)
        return {"memory": InMemory(named("memory")), "own": own}

    with Registry(servers) as registry:
        assert not asked
        assert registry["own"] is own
        assert registry["memory"].call_tool("whoami").text == "memory"
    assert asked == [1]
    assert own.call_tool("whoami").text == "own"
    own.close()
    with Registry(load_config({"here": {"command": "x"}})) as registry:
        assert list(registry) == ["here"]


def test_options_hold_where_the_configuration_says_nothing() -> None:
    servers = {"a": {"command": "x", "timeout": 3}, "b": {"command": "x"}, "c": ["x"]}
    with Registry(servers, timeout=20) as registry:
        assert [registry[alias]._timeout for alias in servers] == [3, 20, 20]
    with pytest.raises(UsageError, match="auth is for one server"):
        Registry(servers, auth=("a", "b"))
    with pytest.raises(UsageError, match="timeout must be a number"):
        Registry(servers, timeout="soon")


def test_a_missing_variable_is_an_error_of_its_server_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with over_http(named("good")) as servers:
        bad = {"url": "https://h", "headers": {"X": "${LATER}"}}
        with Registry({**servers, "bad": bad}) as registry:
            with pytest.raises(ConfigError, match=r"server 'bad', key 'headers\.X': .* LATER is not set"):
                registry["bad"]
            status = registry.status()
            assert (status[1].state, "LATER" in str(status)) == ("failed", True)
            assert registry["good"].call_tool("whoami").text == "good"
            monkeypatch.setenv("LATER", "x")
            assert registry["bad"] is registry["bad"]


def test_the_status_tells_why_a_server_could_not_be_opened_and_until_when() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}/mcp?key=hunter2"
    with Registry({"own": {"url": url}, "of users": {"url": url}}, timeout=10) as registry:
        views = [registry["own"], registry["of users"].for_principal("ada", headers={})]
        for view in views:
            with pytest.raises(ConnectFailed):
                view.call_tool("whoami")
        for status in registry.status():
            assert (status.state, type(status.error)) == ("failed", ConnectFailed)
            assert status.error.__cause__ is None
        assert "hunter2" not in str(registry.status())
        with named("back").serve_http(port):
            assert {view.call_tool("whoami").text for view in views} == {"back"}
            assert [(each.state, each.error) for each in registry.status()] == [
                ("open", None),
                ("idle", None),
            ]


def test_a_hundred_threads_that_ask_at_once_get_one_client(quick_switches: None) -> None:
    fake = named("web")
    with over_http(fake) as servers:
        for _ in range(5):
            barrier = threading.Barrier(100)
            found: list[Client] = []
            with Registry(servers) as registry:

                def ask(registry: Registry = registry, barrier: Any = barrier, found: Any = found) -> None:
                    barrier.wait(PATIENCE)
                    found.append(registry["web"])

                threads = [threading.Thread(target=ask) for _ in range(100)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(PATIENCE)
                assert len(found) == 100
                assert len(set(found)) == 1
                assert found[0].call_tool("whoami").text == "web"


def test_a_client_that_somebody_closed_is_replaced() -> None:
    with Registry({"here": InMemory(named("here"))}) as registry:
        with registry["here"] as client:
            client.send_ping()
        assert registry["here"] is not client
        assert registry["here"].call_tool("whoami").text == "here"


def test_after_closing_every_look_up_fails() -> None:
    with over_http(named("web")) as servers:
        registry = Registry(servers)
        client = registry["web"]
        client.send_ping()
        registry.close()
        registry.close()
        assert client.closed
        with pytest.raises(ClientClosed, match="the registry is closed"):
            registry["web"]


def test_closing_races_with_look_ups_and_leaves_no_client_open(quick_switches: None) -> None:
    for _ in range(50):
        registry = Registry({"here": InMemory(named("here"))})
        barrier = threading.Barrier(5)
        found: list[Client] = []

        def ask(registry: Registry = registry, barrier: Any = barrier, found: Any = found) -> None:
            barrier.wait(PATIENCE)
            try:
                found.append(registry["here"])
            except ClientClosed:
                pass

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        barrier.wait(PATIENCE)
        registry.close()
        for thread in threads:
            thread.join(PATIENCE)
        assert all(client.closed for client in found)


def test_a_view_for_a_user_shares_the_client_and_the_filter() -> None:
    with over_http(named("web", "whoami", "delete")) as servers:
        servers["web"]["excludeTools"] = ["delete"]
        with Registry(servers) as registry:
            for view in (registry.for_principal("web", "ada"), registry["web"].for_principal("bob")):
                assert view.call_tool("whoami").text == "web"
                with pytest.raises(UsageError, match="not among those"):
                    view.call_tool("delete")


# --- overriding -----------------------------------------------------------------------------------------


def test_overrides_are_nested_seen_by_all_threads_and_restored() -> None:
    seen = []

    def look() -> None:
        seen.append(registry["a"].call_tool("whoami").text)

    with Registry({"a": InMemory(named("real")), "b": InMemory(named("b"))}) as registry:
        real = registry["a"]
        with registry.override({"a": named("outer"), "new": named("new")}):
            outer = registry["a"]
            with registry.override({"a": named("inner")}) as same:
                assert same is registry
                thread = threading.Thread(target=look)
                thread.start()
                thread.join(PATIENCE)
                look()
                assert registry["new"].call_tool("whoami").text == "new"
                assert registry["b"].call_tool("whoami").text == "b"
            assert registry["a"] is outer
            assert list(registry) == ["a", "b", "new"]
            look()
        assert seen == ["inner", "inner", "outer"]
        assert outer.closed
        assert registry["a"] is real
        assert not real.closed
        assert "new" not in registry


def test_overrides_of_two_threads_may_be_left_in_any_order() -> None:
    with Registry({}) as registry:
        first, second = registry.override({"a": named("1")}), registry.override({"b": named("2")})
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert list(registry) == ["b"]
        assert registry["b"].call_tool("whoami").text == "2"
        second.__exit__(None, None, None)
        assert list(registry) == []


def test_an_override_ends_with_an_exception_and_leaves_the_users_client_open() -> None:
    own = Client(InMemory(named("own")))
    with Registry({}) as registry:
        with pytest.raises(ZeroDivisionError), registry.override({"a": own}):
            assert registry["a"] is own
            raise ZeroDivisionError
        assert not own.closed
        with pytest.raises(ConfigError):
            registry["a"]
    own.close()


def test_an_entry_that_cannot_be_harms_no_other() -> None:
    with Registry({"fake": FakeServer(), "bad": {"command": 5}}) as registry:
        registry["fake"].send_ping()
        assert [each.state for each in registry.status()] == ["open", "failed"]
        with pytest.raises(ConfigError, match="server 'bad', key 'command': this must be a string"):
            registry["bad"]


def test_a_broken_source_can_be_overridden(tmp_path: Path) -> None:
    with Registry(tmp_path / "missing.json") as registry:
        with registry.override({"a": FakeServer()}):
            registry["a"].send_ping()
        with pytest.raises(ConfigError, match="No such file"):
            registry["a"]


# --- processes ------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_opens_its_own_and_the_parent_notices_nothing() -> None:
    fake = named("web", versions="legacy")
    script = f"""
import os, sys
sys.path.insert(0, {str(TESTS.parent)!r})
from mcp_sync.registry import Registry
registry = Registry({{"web": {{"url": sys.argv[1]}}}})
client = registry["web"]
before = client.session_id
read, write = os.pipe()
pid = os.fork()
if not pid:
    same = registry["web"] is client
    os.write(write, f"{{same}} {{registry['web'].call_tool('whoami').text}} {{client.session_id}}".encode())
    os._exit(0)
os.waitpid(pid, 0)
same, name, session = os.read(read, 1000).decode().split()
assert (same, name) == ("True", "web"), (same, name)
assert session != before
assert client.call_tool("whoami").text == "web"
assert client.session_id == before
print("well")
"""
    with over_http(fake) as servers:
        done = run(script, servers["web"]["url"])
    assert done == (0, "well\n", "")


@pytest.mark.parametrize("kind", ["http", "stdio"])
def test_at_the_end_of_the_program_all_are_closed(kind: str) -> None:
    script = f"""
import sys
sys.path.insert(0, {str(TESTS.parent)!r})
from mcp_sync.registry import Registry
entry = {process("x")!r} if sys.argv[1] == "stdio" else {{"url": sys.argv[1]}}
registry = Registry({{"a": entry, "b": entry}})
for alias in registry:
    registry[alias].call_tool("whoami")
print("well")
"""
    ended = []
    fake = named("web", versions="legacy")
    with fake.serve_http(intercept=lambda request: ended.append(request.method)) as endpoint:
        done = run(script, endpoint.url if kind == "http" else "stdio")
    assert done == (0, "well\n", "")
    assert ended.count("DELETE") == (2 if kind == "http" else 0)


def test_importing_and_making_it_loads_nothing_heavy() -> None:
    script = f"""
import sys, threading
sys.path.insert(0, {str(TESTS.parent)!r})
from mcp_sync.registry import Registry
Registry("nowhere.json")
heavy = ("pydantic", "requests", "urllib3", "json", "mcp_sync.client", "mcp_sync.config")
print([name for name in heavy if name in sys.modules], threading.active_count())
"""
    assert run(script, "") == (0, "[] 1\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forks_amid_first_look_ups_of_other_threads_leave_children_that_work() -> None:
    script = f"""
import os, sys, threading
sys.path.insert(0, {str(TESTS.parent)!r})
sys.setswitchinterval(1e-5)
from mcp_sync.registry import Registry

def work(registry):
    for alias in registry:
        assert registry[alias].call_tool("whoami", timeout=20).text == "web"

for _ in range(4):
    with Registry({{f"s{{number}}": {{"url": sys.argv[1]}} for number in range(4)}}) as registry:
        threads = [threading.Thread(target=work, args=(registry,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        pid = os.fork()
        if not pid:
            try:
                work(registry)
            finally:
                os._exit(0 if sys.exc_info()[0] is None else 1)
        assert os.waitpid(pid, 0)[1] == 0
        for thread in threads:
            thread.join()
print("well")
"""
    with over_http(named("web")) as servers:
        # From Python 3.12 on there is a warning of forks beside threads.
        done = run(script, servers["web"]["url"], "ignore")
    assert done == (0, "well\n", "")


def run(script: str, argument: str, warnings: str = "error") -> tuple[int, str, str]:
    command = [sys.executable, "-W", warnings, "-c", script, argument]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    return done.returncode, done.stdout, done.stderr

"""The fixtures for pytest, in test runs of their own."""

from __future__ import annotations

import importlib
import json
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mcp_sync

pytest_plugins = "pytester"

PLUGIN = "mcp_sync.testing.pytest_plugin"


@pytest.fixture(scope="module", autouse=True)
def everything_is_loaded() -> None:
    """Load what loads late: what a test run in this process loads is gone after it, and half of it is not."""
    for module in pkgutil.walk_packages(mcp_sync.__path__, "mcp_sync."):
        if module.name.split(".")[1] not in ("cli", "contrib", "otel"):
            importlib.import_module(module.name)


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Run tests with the plugin, whether it is installed here or not."""
    monkeypatch.setenv("PYTHONPATH", str(Path(mcp_sync.__file__).parents[1]))

    def run(code: str, *arguments: str, apart: bool = False) -> pytest.RunResult:
        pytester.makepyfile(code)
        start = pytester.runpytest_subprocess if apart else pytester.runpytest
        return start("-p", PLUGIN, "-p", "no:cacheprovider", "--strict-markers", *arguments)

    return run


SERVER = """
import pytest
from mcp_sync.testing import FakeServer

def greet(context) -> str:
    context.log("info", "greeting")
    return "Hello"

@pytest.fixture
def mcp_server():
    return FakeServer(tools=[greet])
"""


def test_a_client_of_the_own_server_runs_on_every_revision_and_transport(run):
    result = run(
        SERVER
        + """
@pytest.mark.mcp(
    eras=["modern", "legacy", "2025-03-26"], transports=["memory", "http", "events", "websocket"]
)
def test_greeting(mcp_client, mcp_server):
    assert mcp_client.call_tool("greet").text == "Hello"
    assert mcp_server.count("tools/call") == 1

@pytest.mark.mcp(eras="2024-11-05", transports="sse")
def test_old(mcp_client):
    assert mcp_client.protocol_version == "2024-11-05"
""",
        "-v",
    )
    result.assert_outcomes(passed=13)
    result.stdout.fnmatch_lines(["*test_greeting[[]2025-03-26-websocket]*PASSED*"])


def test_without_a_marker_there_is_one_client_in_memory_with_the_own_options(run):
    result = run(
        SERVER
        + """
@pytest.fixture
def mcp_client_options():
    return {"mode": "2025-11-25", "name": "mine"}

def test_it(mcp_client):
    assert (mcp_client.protocol_version, mcp_client.name) == ("2025-11-25", "mine")
"""
    )
    result.assert_outcomes(passed=1)


def test_notifications_of_the_client_are_collected_where_a_test_wants_them(run):
    result = run(
        SERVER
        + """
@pytest.fixture
def mcp_client_options():
    return {"log_level": "debug"}

def test_it(mcp_notifications, mcp_client):
    mcp_client.call_tool("greet")
    assert mcp_notifications.wait_for("message").params.data == "greeting"

def test_other(mcp_client):
    assert mcp_client.call_tool("greet").text == "Hello"
"""
    )
    result.assert_outcomes(passed=2)


def test_the_server_is_empty_where_nobody_says_otherwise(run):
    result = run("def test_it(mcp_client):\n    assert not mcp_client.list_tools().tools\n")
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("marker", ["eras='modern', transports='pigeon'", "colour='red'", "'modern'"])
def test_a_marker_that_means_nothing_is_an_error(run, marker):
    result = run(f"import pytest\n\n@pytest.mark.mcp({marker})\ndef test_it(mcp_client):\n    pass\n")
    assert result.ret != 0
    assert "in the marker mcp" in result.stdout.str() + result.stderr.str()


def test_the_example_of_tests_passes(run, pytester):
    example = Path(__file__).parents[2] / "examples" / "tests_with_pytest"
    shutil.copytree(example, pytester.path, dirs_exist_ok=True)
    run("").assert_outcomes(passed=10)


CASSETTE = """
import os
from mcp_sync import Client, InMemory
from mcp_sync.testing import FakeServer

def test_sum(mcp_cassette):
    fake = FakeServer(tools={"add": lambda a, b: a + b}) if "LIVE" in os.environ else FakeServer()
    with Client(mcp_cassette(InMemory(fake))) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
"""


def test_a_cassette_is_recorded_beside_the_test_and_replayed(run, pytester, monkeypatch):
    monkeypatch.setenv("LIVE", "1")
    run(CASSETTE).assert_outcomes(passed=1)
    (file,) = pytester.path.glob("cassettes/*/test_sum.jsonl")
    assert json.loads(file.read_text().split("\n")[0])["mcp_sync_cassette"] == 1
    monkeypatch.delenv("LIVE")
    run(CASSETTE).assert_outcomes(passed=1)
    run(CASSETTE, "--mcp-cassettes=none").assert_outcomes(passed=1)
    run(CASSETTE, "--mcp-cassettes=all").assert_outcomes(failed=1)


LEAK = (
    SERVER
    + """
from mcp_sync import Client

clients = []

endpoint = FakeServer(tools=[greet]).serve_http()

def test_tidy(mcp_client):
    mcp_client.call_tool("greet")

def test_untidy():
    client = Client(endpoint.url, mode="legacy", message_handler=print, name="forgotten")
    clients.append(client.open())

def teardown_module():
    if CLOSES:
        clients.pop().close()
        endpoint.close()
"""
)


def forget(code: str, closes: bool) -> str:
    return code.replace("CLOSES", repr(closes))


CASSETTES = """
from mcp_sync import Client, InMemory
from mcp_sync.testing import FakeServer


def say(mcp_cassette, word):
    with Client(mcp_cassette(InMemory(FakeServer(tools={"say": lambda: word})))) as client:
        assert client.call_tool("say").text == word


def test_it(mcp_cassette):
    say(mcp_cassette, "one")
    say(mcp_cassette, "two")


class TestIt:
    def test_it(self, mcp_cassette):
        say(mcp_cassette, "three")


class TestOther:
    def test_it(self, mcp_cassette):
        say(mcp_cassette, "four")
"""


def test_no_two_cassettes_share_a_file(run, pytester):
    for _ in range(2):
        run(CASSETTES).assert_outcomes(passed=3)
    files = sorted(file.stem for file in pytester.path.glob("cassettes/*/*"))
    assert files == ["TestIt.test_it", "TestOther.test_it", "test_it", "test_it-2"]


def test_a_test_that_fails_leaves_no_half_recording_behind(run, pytester):
    run(CASSETTE).assert_outcomes(failed=1)
    assert not list(pytester.path.glob("cassettes/*/*"))


def test_a_client_that_is_never_closed_is_listed_with_its_test(run):
    result = run(forget(LEAK, False), apart=True)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*not closed*", "*::test_untidy: thread mcp_sync-forgotten-*"])
    result.stdout.no_fnmatch_line("*::test_tidy: thread*")


def test_a_client_that_a_wider_fixture_closes_is_not_listed(run):
    result = run(forget(LEAK, True), apart=True)
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*not closed*")


def test_a_leak_can_be_an_error_of_its_test(run):
    result = run(forget(LEAK, False), "-o", "mcp_leaks=error", apart=True)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*was not closed: *mcp_sync-forgotten-*"])


STARTING = """
import threading

in_the_list, may_run, may_end = threading.Event(), threading.Event(), threading.Event()


class Starting(threading.Thread):
    # In `_bootstrap` it stands among the threads already, and does not count as started yet.
    def _bootstrap(self):
        in_the_list.set()
        may_run.wait()
        super()._bootstrap()

    def join(self, timeout=None):
        try:
            super().join(timeout)
        except RuntimeError:
            may_run.set()
            raise


def test_untidy():
    import mcp_sync._concurrency.threads

    thread = Starting(target=may_end.wait, name="mcp_sync-starting-reader", daemon=True)
    threading.Thread(target=thread.start, daemon=True).start()
    in_the_list.wait()
    assert thread in threading.enumerate()
    ENDING
"""


def test_a_thread_that_is_about_to_start_is_waited_for(run):
    options = ("-o", "mcp_leaks=error")
    result = run(STARTING.replace("ENDING", ""), *options, apart=True)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*was not closed: mcp_sync-starting-reader*"])

    run(STARTING.replace("ENDING", "may_end.set()"), *options, apart=True).assert_outcomes(passed=1)


def test_an_unknown_choice_for_leaks_is_refused(run):
    assert run("", "-o", "mcp_leaks=perhaps").ret == pytest.ExitCode.USAGE_ERROR


def test_the_plugin_loads_next_to_nothing():
    code = (
        f"import sys, pytest, {PLUGIN}\n"
        "print([name for name in sys.modules if name.startswith('mcp_sync')])\n"
        "print([name for name in ('pydantic', 'requests', 'http.server') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True
    )
    names, libraries = done.stdout.splitlines()
    small = ("", "._version", "._concurrency", "._concurrency.lazy", ".testing")
    assert set(eval(names)) <= {PLUGIN, *(f"mcp_sync{name}" for name in small)}
    assert libraries == "[]"

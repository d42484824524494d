"""Tasks of other makers' servers: those of the extension, and those of 2025-11-25."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import CallCancelled, CallTimeout, Client, InputRequired, MissingClientCapability, Stdio, types
from mcp_sync.tasks import TaskGone, as_completed

from .harness import HANDSHAKE, MODERN, HttpServer
from .install import venv_python

HERE = Path(__file__).parent
VENVS = {"fastmcp4tasks": "fastmcp4tasks", "fastmcp2tasks": "fastmcp2tasks", "sdk1tasks": "sdk1"}
VERSIONS = {"fastmcp4tasks": MODERN, "fastmcp2tasks": HANDSHAKE, "sdk1tasks": HANDSHAKE}
pytestmark = pytest.mark.interop


def command(maker: str, transport: str) -> list[str]:
    script = HERE / "servers" / f"{maker}_server.py"
    return [str(venv_python(VENVS[maker])), "-W", "ignore", str(script), transport]


@pytest.fixture(
    scope="module", params=[(maker, way) for maker in VENVS for way in ("stdio", "http")], ids="-".join
)
def peer(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give the maker and the target of a server."""
    maker, transport = request.param
    if transport == "stdio":
        program, *arguments = command(maker, "stdio")
        yield maker, Stdio(program, arguments)
        return
    server = HttpServer.printing_its_port(command(maker, "http"))
    yield maker, server.url()
    server.end()


def adas(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


@pytest.fixture(scope="module")
def client(peer: Any) -> Iterator[Client]:
    maker, target = peer
    with Client(target, elicitation_callback=adas, timeout=30) as connected:
        assert connected.protocol_version == VERSIONS[maker]
        list(connected.tools())
        yield connected


@pytest.fixture
def key() -> str:
    return uuid.uuid4().hex


def test_a_call_that_becomes_a_task_returns_its_result(client: Client) -> None:
    assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}


def test_a_handle_shows_the_task_and_gives_its_result(client: Client, key: str) -> None:
    handle = client.start_task("work", {"key": key}, ttl=600)
    assert handle.id
    assert handle.status().status == "working"
    client.call_tool("go_on", {"key": key})
    assert handle.result().text == f"done {key}"
    assert handle.status().status == "completed"


def test_waiting_that_is_out_of_time_leaves_the_task_alone(client: Client, key: str) -> None:
    handle = client.start_task("work", {"key": key})
    with pytest.raises(CallTimeout):
        handle.result(timeout=0.3)
    client.call_tool("go_on", {"key": key})
    assert handle.result().text == f"done {key}"


def test_a_cancelled_task_is_over_for_who_waits(client: Client, key: str) -> None:
    handle = client.start_task("work", {"key": key})
    handle.cancel()
    with pytest.raises(CallCancelled):
        handle.result()
    handle.cancel()


def test_an_error_of_the_tool_is_its_result(client: Client) -> None:
    result = client.start_task("fail", {"reason": "no luck"}).result()
    assert (result.is_error, result.text) == (True, "no luck")


def test_an_unknown_task_is_gone(client: Client) -> None:
    for attempt in (
        client.task("unknown").status,
        client.task("unknown").result,
        client.task("unknown").cancel,
    ):
        with pytest.raises(TaskGone):
            attempt()


def test_many_are_waited_for_on_one_thread(client: Client) -> None:
    keys = [uuid.uuid4().hex for _ in range(20)]
    handles = [client.start_task("work", {"key": each}) for each in keys]
    for each in keys:
        client.call_tool("go_on", {"key": each})
    threads = threading.active_count()
    ended = {handle.result().text for handle in as_completed(handles, timeout=30)}
    assert ended == {f"done {each}" for each in keys}
    assert threading.active_count() <= threads + 1


def asks(peer: Any) -> bool:
    return peer[0] != "fastmcp2tasks"


def test_what_a_task_asks_is_answered(peer: Any, client: Client) -> None:
    if asks(peer):
        assert client.start_task("ask_user").result().text == "Hello Ada"


def test_what_a_task_asks_may_wait_for_the_application(peer: Any, client: Client) -> None:
    if VERSIONS[peer[0]] != MODERN:
        return
    handle = client.start_task("ask_user", on_input="raise")
    with pytest.raises(InputRequired):
        handle.result()
    handle.update({name: {"action": "accept", "content": {"name": "Bob"}} for name in handle.requests})
    assert handle.result().text == "Hello Bob"


def test_a_call_that_has_become_a_task_may_be_resumed(peer: Any, client: Client) -> None:
    if VERSIONS[peer[0]] != MODERN:
        return
    with pytest.raises(InputRequired) as caught:
        client.call_tool("ask_user", on_input="raise")
    envelope = json.dumps(caught.value.to_json())
    answers = {name: {"action": "accept", "content": {"name": "Eve"}} for name in caught.value.requests}
    assert client.resume(envelope, answers).text == "Hello Eve"


def test_a_tool_that_needs_tasks_says_so_to_who_offers_none(peer: Any) -> None:
    maker, target = peer
    if VERSIONS[maker] == MODERN:
        with Client(target, extensions=(), timeout=30) as plain, pytest.raises(MissingClientCapability):
            plain.call_tool("add", {"a": 1, "b": 2})


def test_a_handle_is_finished_by_another_process(peer: Any, client: Client) -> None:
    maker, url = peer
    if not isinstance(url, str):
        return
    handle = client.start_task("work", {"key": "elsewhere"})
    # Servers of 2025-11-25 keep a task for the session that began it.
    modern = VERSIONS[maker] == MODERN
    where = [url, "auto", ""] if modern else [url, HANDSHAKE, client.session_id or ""]
    done = subprocess.run(
        [sys.executable, str(HERE / "finish_task.py"), *where],
        input=json.dumps(handle.to_json()),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.stdout, done.returncode) == ("work done elsewhere\n", 0), done.stderr

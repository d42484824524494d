"""gevent and eventlet: everything is patched first, and greenlets take the place of threads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .spied import Spied, run, told_stdio

HEAD = """
from gevent import monkey
monkey.patch_all()
import gevent, json, os, sys, threading, time
from gevent.event import Event
import site_client
from mcp_sync import *

seen = []
client = Client(site_client.target, mode=os.environ["MCP_MODE"], timeout=20, message_handler=seen.append)

def echo(text):
    got = client.call_tool("echo", {"text": text}).text
    assert got == text, f"{text!r} became {got!r}"
    return got
"""


@pytest.fixture(params=["http-auto", "http-legacy", "stdio-auto", "stdio-legacy"])
def told(request: pytest.FixtureRequest, spied: Spied) -> dict[str, str]:
    """Return what tells a program its server and era."""
    kind, mode = request.param.split("-")
    return {"MCP_MODE": mode, **({"MCP_URL": spied.url} if kind == "http" else told_stdio())}


def program(script: str, told: dict[str, str]) -> Any:
    return json.loads(run(HEAD + script, **told))


def test_twenty_greenlets_call_side_by_side_and_a_heart_goes_on_beating(told: dict[str, str]) -> None:
    """Each call of the tool is answered only when all are in flight, one of them made by the heartbeat."""
    said = program(
        """
beats = []
def beat():
    while len(beats) < 5:
        gevent.sleep(0.001)
        beats.append(client.call_tool("meet", {"text": "20 heart"}).text if not beats else "beat")

with client:
    heart = gevent.spawn(beat)
    others = [gevent.spawn(client.call_tool, "meet", {"text": f"20 {number}"}) for number in range(18)]
    # The main greenlet waits too.
    mine = client.call_tool("meet", {"text": "20 main"}).text
    gevent.joinall([heart, *others])
    texts = [other.value.text for other in others]
    for number in range(30):
        echo(f"after {number}")
print(json.dumps([mine, texts, beats]))
""",
        told,
    )
    assert said == ["20 main", [f"20 {n}" for n in range(18)], ["20 heart", *["beat"] * 4]]


def test_what_waits_can_be_ended_from_another_greenlet(told: dict[str, str]) -> None:
    """Timeout, cancel token, gevent.Timeout, a killed greenlet, and last of all close."""
    said = program(
        """
said = []
def note(function, *args, **options):
    try:
        said.append(function(*args, **options).text)
    except BaseException as error:
        said.append(type(error).__name__)

never = ["hang", {"text": "never"}]
with client:
    note(client.call_tool, *never, timeout=0.2)
    token = CancelToken()
    gevent.spawn_later(0.1, token.cancel)
    note(client.call_tool, *never, cancel=token)
    try:
        with gevent.Timeout(0.1):
            client.call_tool(*never)
    except gevent.Timeout:
        said.append("gevent.Timeout")
    killed = gevent.spawn(note, client.call_tool, *never)
    gevent.sleep(0.1)
    killed.kill()
    echo("still there")
    waiting = gevent.spawn(note, client.call_tool, *never)
    gevent.sleep(0.1)
    client.close()
    waiting.join(10)
    note(client.call_tool, "echo", {"text": "x"})
print(json.dumps(said))
""",
        told,
    )
    names = ["CallTimeout", "CallCancelled", "gevent.Timeout", "GreenletExit", "ClientClosed", "ClientClosed"]
    assert said == names


def test_notifications_come_and_idle_threads_hold_nothing_up(told: dict[str, str]) -> None:
    """The idle GET stream and the reader of a pipe are greenlets; nothing of the library runs natively."""
    said = program(
        """
from gevent import _threading, get_hub
with client:
    client.notify("notifications/roots/list_changed", {})
    echo("x")
    ticks = 0
    until = time.monotonic() + 0.2
    while time.monotonic() < until:
        gevent.sleep(0.001)
        ticks += 1
    for _ in range(200):
        if seen or not os.environ.get("MCP_URL") or os.environ["MCP_MODE"] != "legacy":
            break
        gevent.sleep(0.01)
    # A thread of its own has nobody but gevent's pool and its resolver.
    native = len(os.listdir("/proc/self/task"))
print(json.dumps([ticks, [type(message).__name__ for message in seen], native]))
""",
        told,
    )
    ticks, messages, native = said
    assert ticks > 20
    pushes = "MCP_URL" in told and told["MCP_MODE"] == "legacy"
    assert messages == (["ToolListChangedNotification"] if pushes else [])
    assert native <= 12


def test_in_native_threads_of_gevents_pool_http_works_and_stdio_says_what_to_do(
    told: dict[str, str],
) -> None:
    """The sockets of gevent belong to the thread that made them, so each such thread needs its own client."""
    said = program(
        """
def work():
    try:
        with client:
            return echo("in a thread")
    except ConnectFailed as error:
        return str(error)

text = gevent.get_hub().threadpool.spawn(work).get(timeout=20)
children = open("/proc/self/task/%d/children" % os.getpid()).read().split()
print(json.dumps([text, children]))
""",
        told,
    )
    text, children = said
    if "MCP_URL" in told:
        assert text == "in a thread"
    else:
        assert "gevent starts processes in the main thread only; open the client there" in text
    assert not children


def test_a_client_that_nobody_closes_does_not_hold_the_end_up(told: dict[str, str]) -> None:
    said = program("print(json.dumps(echo('x')))\n", told)
    assert said == "x"


def test_patching_late_works_too(told: dict[str, str]) -> None:
    """Applications patch after their imports, against all advice."""
    script = """
import os, json
import mcp_sync, mcp_sync.client, mcp_sync.transports._stdio.target
from mcp_sync.testing import FakeServer
from gevent import monkey
monkey.patch_all()
import site_client, gevent
with mcp_sync.Client(site_client.target, mode=os.environ["MCP_MODE"], timeout=20) as client:
    greenlets = [gevent.spawn(client.call_tool, "meet", {"text": f"10 {number}"}) for number in range(10)]
    gevent.joinall(greenlets)
    print(json.dumps([each.value.text for each in greenlets]))
"""
    assert json.loads(run(script, **told)) == [f"10 {number}" for number in range(10)]


def test_eventlet_works_alike(told: dict[str, str]) -> None:
    script = """
import eventlet
eventlet.monkey_patch()
import json, os, threading
import site_client, mcp_sync

with mcp_sync.Client(site_client.target, mode=os.environ["MCP_MODE"], timeout=20) as client:
    def call(number):
        return client.call_tool("meet", {"text": f"10 {number}"}).text
    texts = [each.wait() for each in [eventlet.spawn(call, number) for number in range(10)]]
    try:
        client.call_tool("hang", timeout=0.2)
    except mcp_sync.CallTimeout:
        texts.append(client.call_tool("echo", {"text": "goes on"}).text)
print(json.dumps(texts))
"""
    said = json.loads(run(script, PYTHONWARNINGS="ignore", **told))
    assert said == [*(f"10 {number}" for number in range(10)), "goes on"]

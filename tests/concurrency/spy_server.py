"""A server that notes which process sent what on which connection, and programs that are its clients."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections import defaultdict
from pathlib import Path
from typing import Any

from transports.http_server import ScriptedServer, Turn, event

TESTS = Path(__file__).parent.parent
MODERN_VERSION = "2026-07-28"
LEGACY_VERSION = "2025-11-25"
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

HEAD = """
import os, sys, threading, time
sys.path[:0] = {path!r}
from mcp_sync import *
from mcp_sync.transports import StreamableHTTP, Stdio

def signed(request):
    request.headers["X-Sender"] = str(os.getpid())
    return request

def say(*words):
    # In one write, so that the lines of several processes do not mix.
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def in_child(function, *args):
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        function(*args)
        code = 0
    except BaseException as error:
        say("child failed:", type(error).__name__, error)
    finally:
        os._exit(code)

def await_children(*pids):
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
"""

# Of both eras, and without imports that take long. Calls of ``meet`` are answered when all are
# there, those of ``hang`` never.
STDIO_SERVER = f"""
import json, os, sys, time

def result(method, params):
    if method == "initialize":
        info = {{"name": "small", "version": "1"}}
        return {{"protocolVersion": {LEGACY_VERSION!r}, "capabilities": {{}}, "serverInfo": info}}
    if method == "server/discover":
        return {{
            "resultType": "complete", "supportedVersions": [{MODERN_VERSION!r}], "capabilities": {{}},
            "ttlMs": 0, "cacheScope": "private",
        }}
    text = params.get("arguments", {{}}).get("text", "")
    if params["name"] == "whoami":
        text = str(os.getpid())
    elif params["name"] == "grumble":
        sys.stderr.write(text * 100_000 + "\\n")
        sys.stderr.flush()
    elif params["name"] == "babble":
        sys.stdout.write(text + "\\n")
    elif params["name"] == "sleep":
        time.sleep(float(text))
    return {{"resultType": "complete", "content": [{{"type": "text", "text": text}}]}}

def answer(message):
    reply = result(message["method"], message.get("params", {{}}))
    print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": reply}}), flush=True)

together = []
for line in sys.stdin:
    message = json.loads(line)
    params = message.get("params", {{}})
    if params.get("name") == "meet":
        together.append(message)
        if len(together) == int(params["arguments"]["text"].split()[0]):
            while together:
                answer(together.pop())
    elif "id" in message and params.get("name") != "hang":
        answer(message)
"""


def run(script: str, *args: str, timeout: float = 50, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own that turns warnings into errors."""
    head = HEAD.format(path=[str(TESTS), str(TESTS.parent)])
    # Forking with threads is what these programs are about.
    command = [sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning"]
    return subprocess.run(
        [*command, "-c", head + textwrap.dedent(script), *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )


def is_alive(pid: int) -> bool:
    """Whether a process exists that has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def answer(turn: Turn) -> None:
    """Answer as an MCP server of both eras whose only tool is ``echo``."""
    if turn.method == "DELETE":
        turn.reply(200)
    elif turn.method == "GET":
        turn.stream(event(CHANGED))
        turn.wait_for_close()
    elif "id" not in turn.message:
        turn.accepted()
    elif turn.message["method"] == "initialize":
        info = {"name": "spy", "version": "1"}
        result = {"protocolVersion": LEGACY_VERSION, "capabilities": {"tools": {}}, "serverInfo": info}
        turn.result(result, {"Mcp-Session-Id": f"session-{turn.number}"})
    elif turn.message["method"] == "server/discover":
        turn.result(
            {
                "resultType": "complete",
                "supportedVersions": [MODERN_VERSION],
                "capabilities": {"tools": {}},
                "ttlMs": 0,
                "cacheScope": "private",
            }
        )
    else:
        text = turn.message["params"]["arguments"]["text"]
        turn.result({"resultType": "complete", "content": [{"type": "text", "text": text}]})


def senders(server: ScriptedServer, key: str) -> dict[Any, set[str]]:
    """Return which processes used what: the key is ``connection``, or the name of a header."""
    found: dict[Any, set[str]] = defaultdict(set)
    for turn in list(server.turns):
        value = turn.connection if key == "connection" else turn.headers.get(key)
        if value is not None:
            found[value].add(turn.headers.get("x-sender", "nobody"))
    return dict(found)


def deletions(server: ScriptedServer) -> dict[str, str]:
    """Return the sessions that were ended, and the processes that did it."""
    return {
        turn.headers["mcp-session-id"]: turn.headers["x-sender"]
        for turn in list(server.turns)
        if turn.method == "DELETE"
    }


def arguments(**values: Any) -> str:
    """Encode what a program is told on its command line."""
    return json.dumps({"server": [sys.executable, "-c", STDIO_SERVER], **values}, default=os.fspath)

"""A client that was opened before a fork: real servers see that parent and children share nothing."""

from __future__ import annotations

import json
import multiprocessing
import os
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import trustme
from transports.http_server import ScriptedServer, Turn

from .spy_server import answer, arguments, deletions, is_alive, run, senders

# On a machine with much else to do, some of these programs start slowly. What hangs in them hangs for ever.
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.timeout(150),
]


class Spied:
    """A server, and how a program reaches it."""

    def __init__(self, server: ScriptedServer, bundle: Any) -> None:
        self.server = server
        self.bundle = bundle

    def run(self, script: str, mode: str, **values: Any) -> dict[str, Any]:
        """Run a program, which must end well, and return what it said as JSON in its last line."""
        told = arguments(url=self.server.url, mode=mode, bundle=self.bundle, **values)
        done = run("import json\ntold = json.loads(sys.argv[1])\n" + script, told, timeout=120)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        *complaints, last = done.stdout.splitlines()
        assert not complaints
        return dict(json.loads(last))

    def check(self, parent: int) -> None:
        """See that each connection and each session served one process, and who ended which session."""
        for key in ("connection", "mcp-session-id"):
            shared = {name: pids for name, pids in senders(self.server, key).items() if len(pids) > 1}
            assert not shared, f"{key} used by several processes"
        for session_id, pid in deletions(self.server).items():
            assert senders(self.server, "mcp-session-id")[session_id] == {pid}
        assert str(parent) in {pid for pids in senders(self.server, "connection").values() for pid in pids}


@pytest.fixture(params=["http", "https"])
def spied(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Spied]:
    """Start a server that notes who sends what."""
    tls = bundle = None
    if request.param == "https":
        authority = trustme.CA()
        bundle = str(tmp_path / "ca.pem")
        authority.cert_pem.write_to_path(bundle)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(tls)
    with ScriptedServer(answer, tls=tls) as server:
        yield Spied(server, bundle)


CLIENT = """
client = Client(
    StreamableHTTP(told["url"], auth=signed, verify=told["bundle"] or True), mode=told["mode"], name="shared"
)

def many(who, count=40):
    for number in range(count):
        text = f"{who} {number}"
        got = client.call_tool("echo", {"text": text}, timeout=30).text
        assert got == text, f"{text!r} became {got!r}"

many("before", 3)
"""


@pytest.mark.parametrize(("spied", "mode"), [("http", "auto"), ("https", "legacy")], indirect=["spied"])
def test_parent_and_children_call_at_once_and_share_no_connection(spied: Spied, mode: str) -> None:
    said = spied.run(
        CLIENT
        + """
pids = [in_child(many, f"child {number}") for number in range(2)]
many("parent")
codes = await_children(*pids)
many("after", 3)
client.close()
say(json.dumps({"parent": os.getpid(), "children": pids, "codes": codes}))
""",
        mode,
    )
    assert said["codes"] == [0, 0]
    spied.check(said["parent"])
    everybody = {pid for pids in senders(spied.server, "connection").values() for pid in pids}
    assert everybody == {str(pid) for pid in (said["parent"], *said["children"])}
    # The parent has kept the connection that it had.
    assert list(senders(spied.server, "connection").values()).count({str(said["parent"])}) == 1
    assert set(deletions(spied.server).values()) == ({str(said["parent"])} if mode == "legacy" else set())


@pytest.mark.parametrize(
    ("spied", "ending"),
    [
        # TLS has one more way to say something on a connection of the parent.
        ("https", "client.close()"),
        ("https", "del client; gc.collect()"),
        ("https", "sys.exit(0)"),
        ("http", "sys.exit(0)"),
    ],
    indirect=["spied"],
)
def test_however_a_child_ends_the_parents_session_and_connection_live_on(spied: Spied, ending: str) -> None:
    said = spied.run(
        f"""
import gc
{CLIENT}
def child():
    global client
    {ending}

pid = os.fork()
if pid == 0:
    child()
    sys.exit(0)  # as programs end, with all that runs at the exit
codes = await_children(pid)
many("after", 3)
client.close()
say(json.dumps({{"parent": os.getpid(), "codes": codes}}))
""",
        "legacy",
    )
    assert said["codes"] == [0]
    spied.check(said["parent"])
    assert set(deletions(spied.server).values()) == {str(said["parent"])}
    assert list(senders(spied.server, "connection").values()) == [{str(said["parent"])}]


def test_a_child_that_was_forked_during_a_call_closes_no_session_and_calls_by_itself(spied: Spied) -> None:
    """Also with an idle stream of the server, whose thread does not exist in the child."""
    said = spied.run(
        """
changed = threading.Event()
client = Client(
    StreamableHTTP(told["url"], auth=signed, verify=told["bundle"] or True),
    mode="legacy",
    message_handler=lambda message: changed.set(),
)
client.open()
assert changed.wait(30)

def child():
    changed.clear()
    assert client.call_tool("echo", {"text": "x"}, timeout=30).text == "x"
    # The callback thread and the one that reads the stream are new.
    assert changed.wait(30), "no notification in the child"
    names = sorted(thread.name for thread in threading.enumerate())
    assert any("get-stream" in name for name in names), names

stop = threading.Event()
connected = threading.Barrier(4)
def busy():
    client.call_tool("echo", {"text": "y"}, timeout=30)
    connected.wait(30)
    while not stop.is_set():
        assert client.call_tool("echo", {"text": "y"}, timeout=30).text == "y"

threads = [threading.Thread(target=busy) for _ in range(3)]
for thread in threads: thread.start()
connected.wait(30)
codes = [await_children(in_child(child))[0] for _ in range(4)]
stop.set()
for thread in threads: thread.join(30)
client.close()
say(json.dumps({"parent": os.getpid(), "codes": codes}))
""",
        "legacy",
    )
    assert said["codes"] == [0] * 4
    spied.check(said["parent"])
    assert set(deletions(spied.server).values()) == {str(said["parent"])}


@pytest.mark.parametrize(
    ("spied", "mode", "session"),
    [
        ("http", "auto", "None"),
        ("http", "legacy", "requests.Session()"),
        ("https", "auto", "requests.Session()"),
        ("https", "legacy", "None"),
    ],
    indirect=["spied"],
)
def test_whatever_is_imported_after_the_opening_began_holds_forks_off(
    spied: Spied, mode: str, session: str
) -> None:
    """A child in which another thread's import is half done would wait for it for ever."""
    said = spied.run(
        f"""
import requests
from mcp_sync._concurrency import fork

caught = []
class Watch:
    def find_spec(self, name, path=None, target=None):
        if not fork._busy:
            caught.append(name)
sys.meta_path.insert(0, Watch())

session = {session}
target = StreamableHTTP(told["url"], session=session, verify=told["bundle"] or True)
with Client(target, mode=told["mode"]) as client:
    assert client.call_tool("echo", {{"text": "x"}}, timeout=30).text == "x"
if session is not None:
    session.close()
say(json.dumps({{"caught": caught}}))
""",
        mode,
    )
    assert said["caught"] == []


START_METHODS = multiprocessing.get_all_start_methods()


@pytest.mark.parametrize("spied", ["http"], indirect=True)
@pytest.mark.parametrize("method", START_METHODS)
def test_processes_of_multiprocessing_use_a_client_of_their_module(
    spied: Spied, method: str, tmp_path: Any
) -> None:
    """A module-level client; what is started by fork inherits it, the others import the module anew."""
    (tmp_path / "module.py").write_text(
        f"""
import json, os, sys, threading
told = json.loads(os.environ["TOLD"])
from mcp_sync import *
from mcp_sync.transports import StreamableHTTP

def signed(request):
    request.headers["X-Sender"] = str(os.getpid())
    return request
{CLIENT}
def work(number):
    many(f"worker {{number}}", 10)
    return os.getpid()
"""
    )
    said = spied.run(
        """
os.environ["TOLD"] = sys.argv[1]
sys.path.insert(0, told["folder"])
import module, multiprocessing
context = multiprocessing.get_context(told["method"])
with context.Pool(2) as pool:
    pids = pool.map(module.work, range(4), chunksize=1)
    module.many("parent")
    pool.close()
    pool.join()
module.many("after", 3)
module.client.close()
say(json.dumps({"parent": os.getpid(), "workers": pids}))
""",
        "legacy",
        method=method,
        folder=tmp_path,
    )
    assert said["parent"] not in said["workers"]
    spied.check(said["parent"])
    assert deletions(spied.server)
    assert set(deletions(spied.server).values()) == {str(said["parent"])}


# --- stdio -----------------------------------------------------------------------------------------------


def run_stdio(script: str, mode: str = "auto") -> dict[str, Any]:
    head = """
import json
told = json.loads(sys.argv[1])
client = Client(told["server"], mode=told["mode"])

def many(who, count=40):
    for number in range(count):
        text = f"{who} {number}"
        got = client.call_tool("echo", {"text": text}, timeout=30).text
        assert got == text, f"{text!r} became {got!r}"

def server():
    return int(client.call_tool("whoami", timeout=30).text)
"""
    done = run(head + script, arguments(mode=mode))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {key: value for line in lines for key, value in line.items()}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_each_process_has_a_server_process_of_its_own(mode: str) -> None:
    said = run_stdio(
        """
def child(name):
    many(name)
    say(json.dumps({name: server()}))

first = server()
pids = [in_child(child, f"child {number}") for number in range(2)]
many("parent")
codes = await_children(*pids)
many("after", 3)
say(json.dumps({"codes": codes, "before": first, "after": server()}))
client.close()
""",
        mode,
    )
    assert said["codes"] == [0, 0]
    assert said["before"] == said["after"]
    servers = {said["before"], said["child 0"], said["child 1"]}
    assert len(servers) == 3
    # Those of the children have ended with them, although nobody closed anything.
    deadline = threading.Event()
    for pid in servers:
        for _ in range(200):
            if not is_alive(pid):
                break
            deadline.wait(0.02)
        assert not is_alive(pid)


@pytest.mark.parametrize("ending", ["client.close()", "del client; gc.collect()", "sys.exit(0)", "pass"])
def test_however_a_child_ends_the_parents_server_lives_on(ending: str) -> None:
    said = run_stdio(
        f"""
import gc
first = server()
def child():
    global client
    {ending}

pid = os.fork()
if pid == 0:
    child()
    sys.exit(0)
codes = await_children(pid)
say(json.dumps({{"codes": codes, "before": first, "after": server()}}))
client.close()
"""
    )
    assert said["codes"] == [0]
    assert said["before"] == said["after"]


def test_forks_in_the_midst_of_calls_leave_children_that_can_call() -> None:
    """Locks that other threads hold at the time of the fork are not held in the child."""
    said = run_stdio(
        """
sys.setswitchinterval(1e-5)
client.open()
stop = threading.Event()
def busy():
    while not stop.is_set():
        assert client.call_tool("echo", {"text": "x" * 2000}, timeout=30).text == "x" * 2000

def child():
    many("child", 3)
    client.close()

threads = [threading.Thread(target=busy) for _ in range(4)]
for thread in threads: thread.start()
codes = [await_children(in_child(child))[0] for _ in range(8)]
stop.set()
for thread in threads: thread.join(30)
client.close()
say(json.dumps({"codes": codes}))
"""
    )
    assert said["codes"] == [0] * 8


def test_a_parent_that_closes_does_not_wait_for_children_that_live_on() -> None:
    """A child keeps no end of the pipes: the parent's server sees the end of its input at once."""
    said = run_stdio(
        """
first = server()
here, there = os.pipe()
def child():
    many("child", 2)
    os.read(here, 1)  # until the parent has closed its client
    os.close(here)

pid = in_child(child)
started = time.monotonic()
client.close(20)
took = time.monotonic() - started
os.write(there, b"x")
say(json.dumps({"codes": await_children(pid), "took": took}))
"""
    )
    assert said["codes"] == [0]
    assert said["took"] < 8  # Where the child kept the pipe open, the server would be terminated after ten.


def test_a_spied_turn_names_its_sender() -> None:
    """The checks above rest on this."""
    with ScriptedServer(answer) as server:
        done = run(
            "client = Client(StreamableHTTP(sys.argv[1], auth=signed), mode='legacy')\n"
            "with client: client.call_tool('echo', {'text': 'x'})\n"
            "say(os.getpid())",
            server.url,
        )
        turns: list[Turn] = list(server.turns)
    assert {turn.headers["x-sender"] for turn in turns} == {done.stdout.strip()}
    assert [turn.method for turn in turns][-1] == "DELETE"

"""Programs that end without closing their client: soon, with their own exit code, quietly, cleanly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from transports.http_server import ScriptedServer

from .spy_server import TESTS, answer, arguments, is_alive, run

pytestmark = pytest.mark.heavy

HEAD = """
import json, atexit
told = json.loads(sys.argv[1])
target = told["url"] or told["server"]

def make(**options):
    return Client(target, mode=told["mode"], message_handler=lambda message: None, **options)

def use(client):
    if told["url"]:
        client.call_tool("echo", {"text": "x"}, timeout=20)
    else:
        say(client.call_tool("whoami", timeout=20).text)
"""


@pytest.fixture(params=["http", "stdio"])
def target(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Return what a program is told: a server that it starts, or one that runs, with its idle stream."""
    if request.param == "stdio":
        yield {"url": "", "mode": "auto"}
        return
    with ScriptedServer(answer) as server:
        yield {"url": server.url, "mode": "legacy"}


def end(script: str, target: dict[str, Any]) -> tuple[int, str, str]:
    """Run a program to its end; return its exit code, what it said and its complaints.

    What keeps it from ending keeps this from returning: there is a bound of a few seconds.
    """
    done = run(HEAD + script, arguments(**target), timeout=15)
    for line in done.stdout.splitlines():
        if line.isdigit():
            assert gone(int(line)), "the server has outlived the program"
    return done.returncode, done.stdout, done.stderr


def run_alone(script: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a program that imports for itself."""
    return subprocess.run(
        [sys.executable, "-c", script.format(path=[str(TESTS.parent)]), *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )


def gone(pid: int) -> bool:
    pause = threading.Event()
    for _ in range(150):
        if not is_alive(pid):
            return True
        pause.wait(0.02)
    return False


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("def work():\n    client = make()\n    use(client)\nwork()", 0),
        ("client = make()\nuse(client)", 0),
        ("client = make()\nclient.open()\nuse(client)\nsys.exit(7)", 7),
        ("client = make()\nuse(client)\nraise SystemExit('words')", 1),
        ("clients = [make() for _ in range(3)]\nfor client in clients: use(client)", 0),
        ("import gc\ngc.disable()\nclient = make()\nclient.itself = client\nuse(client)", 0),
    ],
)
def test_a_forgotten_client_does_not_hold_the_end_up(ending: str, code: int, target: dict[str, Any]) -> None:
    returncode, _, complaints = end(ending, target)
    assert (returncode, complaints.strip()) == (code, "words" if "words" in ending else "")


def test_an_exception_inside_with_is_the_only_traceback(target: dict[str, Any]) -> None:
    code, _, complaints = end(
        "with make() as client:\n    use(client)\n    raise RuntimeError('of the program')", target
    )
    assert code == 1
    assert complaints.count("Traceback") == 1
    assert complaints.rstrip().endswith("RuntimeError: of the program")


@pytest.mark.parametrize("is_daemon", [False, True])
def test_a_thread_that_exits_ends_nothing_but_itself(is_daemon: bool, target: dict[str, Any]) -> None:
    code, said, complaints = end(
        f"""
client = make()
def work():
    use(client)
    sys.exit(5)

thread = threading.Thread(target=work, daemon={is_daemon})
thread.start()
thread.join()
use(client)
say("main ends")
""",
        target,
    )
    assert (code, complaints) == (0, "")
    assert "main ends" in said


def test_daemon_threads_in_the_midst_of_calls_do_not_hold_the_end_up(target: dict[str, Any]) -> None:
    """They are stopped wherever they are: waiting, reading, writing."""
    code, _, complaints = end(
        """
clients = [make(), make()]
use(clients[0])
begun = threading.Barrier(9)
def work(number):
    begun.wait(10)
    while True:
        clients[number % 2].call_tool("echo", {"text": "x"}, timeout=20)

for number in range(8):
    threading.Thread(target=work, args=(number,), daemon=True).start()
begun.wait(10)
use(clients[1])
""",
        target,
    )
    assert (code, complaints) == (0, "")


def test_functions_at_the_exit_may_still_call_and_close(target: dict[str, Any]) -> None:
    """Whether they were registered before the first call or after it."""
    code, said, complaints = end(
        """
client = make()
def late(words):
    client.call_tool("echo", {"text": words}, timeout=10)
    say(words)

atexit.register(lambda: (client.close(), say("closed")))
atexit.register(late, "registered before")
use(client)
atexit.register(late, "registered after")
""",
        target,
    )
    assert (code, complaints) == (0, "")
    assert [line for line in said.splitlines() if not line.isdigit()] == [
        "registered after",
        "registered before",
        "closed",
    ]


def test_a_finaliser_may_still_close_when_the_interpreter_has_begun_to_end(target: dict[str, Any]) -> None:
    code, said, complaints = end(
        """
class Owner:
    def __init__(self):
        self.client = make()
        use(self.client)

    def __del__(self):
        self.client.close()
        say("closed")

owner = Owner()
""",
        target,
    )
    assert (code, complaints) == (0, "")
    # Python 3.9 may end without calling it, as long as a thread knows a function of the program.
    if sys.version_info >= (3, 10):
        assert said.split()[-1:] == ["closed"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_that_exits_at_once_takes_nothing_with_it(target: dict[str, Any]) -> None:
    code, said, complaints = end(
        """
client = make()
use(client)
pid = os.fork()
if pid == 0:
    os._exit(3)
say("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
use(client)
os._exit(4)
""",
        target,
    )
    assert (code, complaints) == (4, "")
    assert "child 3" in said


def stubborn() -> str:
    """Tell a program of a server that neither minds the end of its input nor a request to end."""
    told = json.loads(arguments(url="", mode="auto"))
    head = "import signal, sys, json\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    told["server"][2] = head + told["server"][2] + "\nwhile True:\n    time.sleep(60)\n"
    return json.dumps(told)


def test_a_stubborn_server_is_killed_within_seconds() -> None:
    done = run(HEAD + "client = make()\nuse(client)\n", stubborn(), timeout=15)
    assert (done.returncode, done.stderr) == (0, "")
    assert gone(int(done.stdout))


def test_daemon_threads_that_write_to_a_server_while_it_is_ended_say_nothing() -> None:
    done = run(
        HEAD
        + """
client = make()
use(client)
begun = threading.Barrier(3)
def work(write):
    write()
    begun.wait(40)
    while True:
        write()

for write in (lambda: client.notify("notifications/x"), lambda: client.call_tool("echo", {"text": "x"})):
    threading.Thread(target=work, args=(write,), daemon=True).start()
begun.wait(40)
""",
        stubborn(),
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_function_at_the_exit_that_comes_too_late_for_the_server_is_told_so() -> None:
    """Registered before the library was loaded, it runs when the servers have been ended."""
    told = json.loads(arguments(url="", mode="auto"))
    script = """
import atexit, json, sys, time
sys.path[:0] = {path!r}

def late():
    started = time.monotonic()
    try:
        client.notify("notifications/x")
    except TransportError as error:
        print(type(error).__name__, time.monotonic() - started < 5)

atexit.register(late)
from mcp_sync import Client
from mcp_sync.errors import TransportError
client = Client(json.loads(sys.argv[1])["server"])
client.open()
"""
    done = run_alone(script, json.dumps(told))
    assert (done.returncode, done.stdout, done.stderr) == (0, "ConnectionLost True\n", "")


def test_a_running_call_ends_with_the_program_that_is_told_to_end() -> None:
    """SIGTERM without a handler ends the program at once; its server sees the end of its input."""
    done = run(
        HEAD
        + """
import signal
client = make()
use(client)
threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGTERM]).start()
client.call_tool("hang", timeout=20)
""",
        arguments(url="", mode="auto"),
        timeout=15,
    )
    assert (done.returncode, done.stderr) == (-15, "")
    assert gone(int(done.stdout))

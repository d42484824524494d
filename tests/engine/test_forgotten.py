"""Clients that nobody closed: collected, ended with the interpreter, left alone in a forked child."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import weakref
from pathlib import Path

import pytest

from mcp_sync import Client, ClientSession, InMemory
from mcp_sync.errors import CallTimeout, ConnectionLost, RemoteError
from mcp_sync.testing import FakeServer

from .background import collected, wait_until
from .scripted import DuplexTarget, PostTarget, legacy, modern, refusal, text

TESTS = Path(__file__).parent.parent


@pytest.fixture
def no_collector():
    """Switch the collector of garbage off: only counting references frees anything."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def run(script, timeout=30):
    """Run a script in an interpreter of its own; return its exit code, output and errors."""
    head = f"import sys; sys.path[:0] = [{str(TESTS)!r}, {str(TESTS.parent)!r}]\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", head + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    return done.returncode, done.stdout.strip(), done.stderr.strip()


# --- collected -------------------------------------------------------------------------------------------


def succeed(client):
    client.call_tool("fine")


def be_refused(client):
    with pytest.raises(RemoteError):
        client.call_tool("refused")


def time_out(client):
    with pytest.raises(CallTimeout):
        client.call_tool("silent", timeout=0.01)


def be_malformed(client):
    with pytest.raises(Exception, match="content"):
        client.call_tool("malformed")


def report_progress(client):
    client.call_tool("fine", progress_callback=lambda *values: None)


def iterate(client):
    assert list(client.tools()) == []


ANSWERS = {"fine": text("done"), "refused": refusal(-32602), "silent": None, "malformed": {"content": 3}}
SCRIPTS = {
    "tools_call": lambda request: ANSWERS[request["params"]["name"]],
    "tools_list": lambda request: {"tools": []},
}


@pytest.mark.parametrize("kind", [DuplexTarget, PostTarget])
@pytest.mark.parametrize(
    "use", [succeed, be_refused, time_out, be_malformed, report_progress, iterate], ids=lambda f: f.__name__
)
def test_a_forgotten_client_is_gone_at_once_and_its_channel_closed(kind, use, no_collector):
    target = kind(modern(**SCRIPTS))
    client = Client(target).open()
    use(client)
    reference = weakref.ref(client)
    del client
    wait_until(lambda: reference() is None, 2)
    wait_until(target.now.closed.is_set, 2)


def test_a_client_whose_opening_failed_is_gone_at_once(no_collector):
    target = DuplexTarget(legacy(initialize=lambda request: refusal(-32603)))
    client = Client(target, mode="legacy")
    with pytest.raises(RemoteError):
        client.open()
    reference = weakref.ref(client)
    del client
    wait_until(lambda: reference() is None, 2)


def test_a_client_that_lost_its_connection_is_gone_at_once(no_collector):
    target = DuplexTarget(modern(tools_call=lambda request: ConnectionLost("gone")))
    client = Client(target)
    for _ in range(2):
        with pytest.raises(ConnectionLost):
            client.call_tool("x")
    reference = weakref.ref(client)
    del client
    wait_until(lambda: reference() is None, 2)


CALLBACKS = ["message_handler", "logging_callback", "list_roots_callback"]
CALLBACKS += ["sampling_callback", "elicitation_callback"]


@pytest.mark.parametrize("callback", CALLBACKS)
def test_a_client_that_its_own_callbacks_refer_to_is_collected_and_its_channel_closed(callback):
    class Application:
        def __init__(self, target):
            self.client = Client(target, mode="legacy", **{callback: self.callback}).open()

        def callback(self, *args):
            self.client.send_ping()

    target = DuplexTarget(legacy())
    application = Application(target)
    reference = weakref.ref(application.client)
    del application
    assert collected(reference, 2)
    wait_until(target.now.closed.is_set, 2)


def test_a_forgotten_session_closes_its_channel_too():
    target = DuplexTarget(legacy())
    session = ClientSession(target)
    session.initialize()
    del session
    gc.collect()
    wait_until(target.now.closed.is_set, 2)


def test_a_forgotten_client_leaves_no_thread():
    target = DuplexTarget(legacy())
    seen = threading.Event()
    client = Client(target, mode="legacy", message_handler=lambda message: seen.set()).open()
    target.now.notify("notifications/tools/list_changed")
    assert seen.wait(10)
    name = client.name
    del client
    gc.collect()
    wait_until(lambda: not any(name in thread.name for thread in threading.enumerate()), 5)


def test_many_clients_leave_nothing_behind():
    server = FakeServer([print])
    before = len(gc.get_objects())
    for _ in range(50):
        with Client(InMemory(server)) as client:
            client.list_tools()
    server._received.clear()
    del client
    gc.collect()
    assert len(gc.get_objects()) - before < 1000


# --- the end of the interpreter --------------------------------------------------------------------------


def test_a_client_that_was_never_closed_does_not_hold_the_interpreter_up_and_says_nothing():
    code, out, err = run("""
        from engine.scripted import DuplexTarget, legacy, text
        from mcp_sync import Client
        import threading

        def handler(message):
            heard.set()
            threading.Event().wait()  # for ever

        heard = threading.Event()
        target = DuplexTarget(legacy(tools_call=lambda request: text("done")))
        client = Client(target, mode="legacy", message_handler=handler)
        print(client.call_tool("x").text)
        target.now.notify("notifications/tools/list_changed")
        assert heard.wait(10)
    """)
    assert (code, out, err) == (0, "done", "")


def test_the_end_of_the_interpreter_fails_no_call_of_a_thread_that_ends_with_it():
    code, out, err = run("""
        from engine.scripted import DuplexTarget, modern
        from mcp_sync import Client
        import atexit, threading

        target = DuplexTarget(modern())
        # Registered first, so that it runs last.
        atexit.register(lambda: print("closed", target.now.closed.is_set()))
        client = Client(target).open()
        threading.Thread(target=client.call_tool, args=("x",), daemon=True).start()
        target.now.expect("tools/call")
    """)
    assert (code, out, err) == (0, "closed False", "")


def test_a_call_that_hangs_in_a_daemon_thread_does_not_hold_the_interpreter_up():
    code, out, err = run("""
        from engine.scripted import DuplexTarget, modern
        from mcp_sync import Client
        import threading

        target = DuplexTarget(modern())
        client = Client(target).open()
        threading.Thread(target=client.call_tool, args=("x",), daemon=True).start()
        target.now.expect("tools/call")
        print("end")
    """)
    assert (code, out, err) == (0, "end", "")


def test_an_exception_that_nobody_catches_within_the_with_block_ends_the_program():
    code, _, err = run("""
        from engine.scripted import DuplexTarget, modern
        from mcp_sync import Client

        target = DuplexTarget(modern())
        with Client(target) as client:
            raise ZeroDivisionError
    """)
    assert code == 1
    assert err.endswith("ZeroDivisionError")
    assert err.count("Traceback") == 1


# --- Ctrl-C ----------------------------------------------------------------------------------------------

INTERRUPTED = """
    from engine.scripted import {kind}, {scripts}, text
    from mcp_sync import Client
    from mcp_sync._concurrency import locks
    import os, signal, threading, time

    locks._SLICE = 40  # what would wake the wait in any case
    target = {kind}({scripts}())
    client = Client(target).open()

    def interrupt():
        target.now.expect("tools/call")
        time.sleep(0.2)  # until the main thread sleeps in its wait
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    started = time.monotonic()
    try:
        client.call_tool("x")
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - started < 20)
"""


@pytest.mark.skipif(os.name == "nt", reason="no such signals")
@pytest.mark.parametrize("scripts", ["modern", "legacy"])
@pytest.mark.parametrize("kind", ["DuplexTarget", "PostTarget"])
def test_ctrl_c_ends_the_wait_at_once_and_the_client_can_be_used_again(kind, scripts):
    tail = """
    target.now.scripts["tools/call"] = lambda request: text("done")
    print(client.call_tool("x").text)
    print(len(target.now.received("notifications/cancelled")))
    client.close()
    """
    code, out, err = run(
        textwrap.dedent(INTERRUPTED.format(kind=kind, scripts=scripts)) + textwrap.dedent(tail)
    )
    told = 0 if (kind, scripts) == ("PostTarget", "modern") else 1
    assert (code, out, err) == (0, f"interrupted True\ndone\n{told}", "")


@pytest.mark.skipif(os.name == "nt", reason="no such signals")
def test_ctrl_c_that_nobody_catches_ends_the_program_with_one_traceback():
    script = INTERRUPTED.format(kind="DuplexTarget", scripts="modern")
    script = script.replace("except KeyboardInterrupt", "except ZeroDivisionError")
    code, _, err = run(script)
    assert code != 0
    assert err.endswith("KeyboardInterrupt")
    assert err.count("Traceback") == 1


# --- a forked child --------------------------------------------------------------------------------------

forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

FORK = """
    from engine.scripted import DuplexTarget, {scripts}, text
    from mcp_sync import *
    import os, sys, threading

    def in_child(function):
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            try:
                print("child:", function())
                sys.stdout.flush()
            except BaseException as error:
                print("child raised", type(error).__name__, error)
                sys.stdout.flush()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)

    target = DuplexTarget({scripts}(tools_call=lambda request: text("from " + str(len(target.channels)))))
"""


@forking
def test_a_client_opens_anew_in_a_forked_child_and_the_parent_notices_nothing():
    code, out, err = run(
        textwrap.dedent(FORK.format(scripts="modern"))
        + textwrap.dedent("""
        client = Client(target)
        print("parent:", client.call_tool("x").text)
        def child():
            inherited = target.channels[0]
            sent = len(inherited.sent)
            said = client.call_tool("x").text
            return said, inherited.abandoned, len(inherited.sent) == sent, inherited.closed.is_set()
        in_child(child)
        in_child(child)
        print("parent:", client.call_tool("x").text, target.channels[0].abandoned)
        client.close()
    """)
    )
    lines = ["parent: from 1", *["child: ('from 2', True, True, False)"] * 2, "parent: from 1 False"]
    assert (code, out.splitlines(), err) == (0, lines, "")


@forking
def test_a_session_of_the_parent_is_refused_in_a_forked_child_and_goes_on_in_the_parent():
    code, out, err = run(
        textwrap.dedent(FORK.format(scripts="legacy"))
        + textwrap.dedent("""
        session = ClientSession(target)
        session.initialize()
        in_child(lambda: session.call_tool("x").text)
        print("parent:", session.call_tool("x").text)
        session.close()
    """)
    )
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith("child raised Forked")
    assert out.splitlines()[1] == "parent: from 1"


@forking
def test_a_fork_while_other_threads_call_leaves_no_lock_taken():
    code, out, err = run(
        textwrap.dedent(FORK.format(scripts="legacy"))
        + textwrap.dedent("""
        import time
        sys.setswitchinterval(1e-5)
        token = CancelToken()
        client = Client(target, mode="legacy", message_handler=lambda message: None).open()
        client.call_tool("x")  # builds the models, which a child that is forked meanwhile could not
        stop = threading.Event()
        def busy():
            while not stop.is_set():
                client.call_tool("x", progress_callback=lambda *values: None)
                target.now.notify("notifications/tools/list_changed")
        threads = [threading.Thread(target=busy) for _ in range(4)]
        for thread in threads: thread.start()
        for _ in range(10):
            in_child(lambda: client.call_tool("x", timeout=10).text[:4])
        stop.set()
        for thread in threads: thread.join(10)
        print("parent:", client.call_tool("x").text)
        client.close()
    """)
    )
    assert (code, err) == (0, "")
    assert out.splitlines() == ["child: from"] * 10 + ["parent: from 1"]


@forking
def test_a_child_may_close_what_it_inherited_without_a_word_to_the_peer():
    code, out, err = run(
        textwrap.dedent(FORK.format(scripts="legacy"))
        + textwrap.dedent("""
        client = Client(target, mode="legacy").open()
        def child():
            client.close()
            return target.channels[0].closed.is_set(), len(target.channels)
        in_child(child)
        print("parent:", client.call_tool("x").text)
        client.close()
    """)
    )
    assert (code, out.splitlines(), err) == (0, ["child: (False, 1)", "parent: from 1"], "")


@forking
def test_a_fork_while_the_client_opens_does_not_leave_the_child_waiting_for_the_parents_thread():
    code, out, err = run(
        textwrap.dedent(FORK.format(scripts="modern"))
        + textwrap.dedent("""
        held, leave = threading.Event(), threading.Event()
        usual = target.scripts["server/discover"]
        def slow(request):
            held.set()
            assert leave.wait(10)
            return usual(request)
        target.scripts = {**target.scripts, "server/discover": slow}
        client = Client(target)
        opening = threading.Thread(target=client.open)
        opening.start()
        held.wait(10)
        def child():
            target.scripts["server/discover"] = usual
            return client.call_tool("x", timeout=5).text
        in_child(child)
        leave.set()
        opening.join(10)
        print("parent:", client.call_tool("x").text)
        client.close()
    """)
    )
    assert (code, out.splitlines(), err) == (0, ["child: from 2", "parent: from 1"], "")

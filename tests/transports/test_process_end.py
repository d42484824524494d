"""How a server's process is ended, with everything that it has started."""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import pytest
from http_server import in_thread
from stdio_support import PATIENCE, SLACK, Recorder, Running, is_gone, lives, poll, running, script, settings

from mcp_sync import Client
from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.options import Timeouts
from mcp_sync.transports._stdio import channel, pipes, process
from mcp_sync.transports._stdio.target import Stdio

HERE = Path(__file__).parent
STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
answer(receive(), {"pid": os.getpid()})
while True:
    time.sleep(60)
"""
DEAF = """
answer(receive(), {"pid": os.getpid()})
while True:
    time.sleep(60)
"""


def seconds_to_close(server, budget=20.0):
    started = time.monotonic()
    server.channel.close(Deadline(budget))
    return time.monotonic() - started


# --- escalation ------------------------------------------------------------------------------------------


def test_a_polite_server_gets_the_time_to_finish(tmp_path):
    done = tmp_path / "done"
    code = f"""
        answer(receive())
        stdin.read()
        raw(b"x" * 300_000 + b"\\n")
        time.sleep(1)
        open({str(done)!r}, "w").close()
    """
    with running(code) as server:
        server.call("initialize")
        assert 1 <= seconds_to_close(server) < 2.5 + SLACK
        assert done.exists()
        assert server.inbound.losses == []


@pytest.fixture
def short_wait(monkeypatch):
    """Leave a server little of the time of a close until it is terminated, and much until it is killed."""
    monkeypatch.setattr(process, "_SHARE_END_OF_INPUT", 0.01)


def test_a_server_that_ignores_the_end_of_its_input_is_terminated(tmp_path, short_wait):
    done = tmp_path / "terminated"
    code = f"""
        def terminated(number, frame):
            open({str(done)!r}, "w").close()
            sys.exit(0)
        signal.signal(signal.SIGTERM, terminated)
        answer(receive())
        while True:
            time.sleep(60)
    """
    with running(code) as server:
        server.call("initialize")
        assert seconds_to_close(server) < 0.8 + SLACK
        assert done.exists()


def test_a_server_that_ignores_that_too_is_killed_within_the_deadline():
    with running(STUBBORN) as server:
        pid = server.call("initialize")["pid"]
        assert seconds_to_close(server, 1.0) < 1.0 + SLACK
        assert is_gone(pid)
        assert server.channel._server.process.returncode == -signal.SIGKILL


def test_closing_without_any_time_kills_at_once():
    with running(STUBBORN) as server:
        server.call("initialize")
        assert seconds_to_close(server, 0.0) < 0.25 + SLACK
        assert server.channel._server.process.returncode == -signal.SIGKILL


def test_a_server_that_is_closed_while_it_starts_has_the_time_of_who_closes(monkeypatch):
    is_there, closed = threading.Event(), threading.Event()

    class Slow(channel.ServerProcess):
        def __init__(self, *args):
            super().__init__(*args)
            is_there.set()
            assert closed.wait(PATIENCE)

    monkeypatch.setattr(channel, "ServerProcess", Slow)
    starting = Stdio(sys.executable, ["-c", "import time; time.sleep(60)"]).channel(settings())
    with in_thread(starting.start, Recorder(), Deadline(60)):
        assert is_there.wait(PATIENCE)
        starting.close(Deadline(0.25))
        closed.set()
    assert is_gone(starting._server.process.pid)


def test_closing_twice_and_from_many_threads_at_once_is_fine():
    with running(STUBBORN) as server:
        pid = server.call("initialize")["pid"]
        start = threading.Barrier(5)

        def close():
            start.wait()
            server.channel.close(Deadline(1))

        threads = [threading.Thread(target=close) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2)
        assert is_gone(pid)
        assert seconds_to_close(server) < 0.1 + SLACK


def test_closing_what_was_not_started_does_nothing():
    channel = Stdio("no-such-command").channel(settings())
    channel.close(Deadline(5))


# --- whom the server has started -------------------------------------------------------------------------


def under_shell(shell_code: str, server_code: str) -> list[str]:
    """Have a shell run ``shell_code``, in which "$@" is the server and 3 its standard input."""
    # A shell gives a command in the background another standard input, unless told so.
    return ["/bin/sh", "-c", f"exec 3<&0; {shell_code}", "sh", *script(server_code)]


def test_the_server_behind_a_launcher_is_ended_with_it():
    with running("", command=under_shell('"$@" <&3 & wait', DEAF)) as server:
        pid = server.call("initialize")["pid"]
        assert pid != server.pid
        assert seconds_to_close(server, 1.0) < 1.0 + SLACK
        assert is_gone(pid)


def test_the_server_behind_a_launcher_is_ended_even_if_it_ignores_that():
    with running("", command=under_shell('trap "" TERM; "$@" <&3 & wait', STUBBORN)) as server:
        pid = server.call("initialize")["pid"]
        assert seconds_to_close(server, 1.0) < 1.0 + SLACK
        assert is_gone(pid)


@pytest.mark.usefixtures("either_way_to_notice")
def test_what_a_launcher_left_behind_is_ended_too(tmp_path):
    started = tmp_path / "started"
    wait = f'while [ ! -e "{started}" ]; do sleep 0.01; done'
    server_code = f"""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note("started", pid=os.getpid())
        open({str(started)!r}, "w").close()
        while True:
            time.sleep(60)
    """
    command = under_shell(f'"$@" <&3 & {wait}; exit 0', server_code)
    with running("", command=command, close=1) as server:
        assert server.inbound.loss().returncode == 0
        pid = server.inbound.messages[0]["params"]["pid"]
        for thread in server.channel._server.threads:
            thread.join(5)
        assert is_gone(pid)


DAEMON = """
    pid = os.fork()
    if pid == 0:
        os.setsid()
        time.sleep(600)
        os._exit(0)
    answer(receive(), {"pid": pid})
    stdin.read()
"""


@pytest.mark.usefixtures("either_way_to_notice")
def test_a_daemon_that_keeps_the_pipes_open_does_not_hold_up_the_close(caplog):
    with running(DAEMON) as server:
        daemon = server.call("initialize")["pid"]
        try:
            assert seconds_to_close(server) < 1.0 + SLACK
            assert lives(daemon)
        finally:
            os.kill(daemon, signal.SIGKILL)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_daemon_that_goes_on_writing_does_not_hold_up_the_close():
    code = """
        pid = os.fork()
        if pid == 0:
            os.setsid()
            while True:
                os.write(2, b"noise" * 10_000)
        answer(receive(), {"pid": pid})
        stdin.read()
    """

    class Slow:
        """A reader of it that is always behind, so that the pipe is never empty."""

        def write(self, text):
            time.sleep(0.002)

    with running(code, stderr=Slow()) as server:
        daemon = server.call("initialize")["pid"]
        try:
            assert seconds_to_close(server) < 3 + SLACK
            assert not any(thread.is_alive() for thread in server.channel._server.threads)
        finally:
            if lives(daemon):
                os.kill(daemon, signal.SIGKILL)


def test_dead_members_of_a_group_that_nobody_buries_are_not_waited_for(monkeypatch, short_wait):
    real = os.killpg
    signals = []

    def killpg(group, number):
        # As in a container whose first process buries nobody: the group has members for ever.
        signals.append(number)
        if number != 0:
            real(group, number)

    monkeypatch.setattr(os, "killpg", killpg)
    with running(DEAF) as server:
        server.call("initialize")
        assert seconds_to_close(server) < 0.8 + SLACK
    assert signal.SIGKILL not in signals


# --- forgotten -------------------------------------------------------------------------------------------


def is_collected_with(pid, seconds=PATIENCE):
    """Whether a process goes away with a client that nobody has but, at a moment, a thread of its own."""
    return poll(lambda: gc.collect() >= 0 and not lives(pid), seconds)


def test_a_server_whose_channel_is_forgotten_is_ended():
    inbound = Recorder()
    channel = Stdio(*_command(STUBBORN)).channel(settings(close=2))
    inbound.channel = channel  # a cycle, as between engine and channel
    channel.start(inbound, Deadline(5))
    Running(channel, inbound).call("initialize")
    threads, pid = channel._server.threads, channel._server.process.pid
    del channel, inbound
    gc.collect()
    # Whoever collected it has not waited for the end.
    assert lives(pid)
    assert is_gone(pid)
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()


SAY_PID = """
answer(receive(), {"pid": os.getpid()})
"""
IGNORANT = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""
TOOL = """
info = {"name": "x", "version": "1"}
answer(receive(), {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info})
receive()
answer(receive(), {"content": [], "structuredContent": {"pid": os.getpid()}})
"""
FLUSH = """
signal.signal(signal.SIGTERM, lambda *_: os._exit(1))
stdin.read()
raw(b"x" * 300_000 + b"\\n")
os.write(2, b"x" * 300_000)
while not os.path.exists({go_on!r}):
    time.sleep(0.01)
open({done!r}, "w").close()
"""


def test_the_server_of_a_discarded_channel_gets_the_time_to_finish(tmp_path):
    done, go_on = tmp_path / "done", tmp_path / "go on"
    code = SAY_PID + FLUSH.format(done=str(done), go_on=str(go_on))
    with running(code, close=20) as server:
        pid = server.call("initialize")["pid"]
        server.channel.discard()
        # Nobody has waited.
        assert lives(pid)
        go_on.touch()
        assert is_gone(pid)
        assert done.exists()
        assert server.inbound.losses == []
        for thread in server.channel._server.threads:
            thread.join(5)
            assert not thread.is_alive()


def test_a_server_that_writes_long_after_the_end_of_its_input_can_finish_even_so(tmp_path, monkeypatch):
    monkeypatch.setattr(pipes, "_READ_ON", 0.01)
    done, go_on = tmp_path / "done", tmp_path / "go on"
    wait = f"stdin.read()\nwhile not os.path.exists({str(go_on)!r}):\n    time.sleep(0.01)\n"
    flush = f'raw(b"x" * 300_000)\nopen({str(done)!r}, "w").close()'
    with running(SAY_PID + wait + flush, close=20) as server:
        pid = server.call("initialize")["pid"]
        server.channel.discard()
        stdout = server.channel._server.process.stdout
        assert poll(lambda: stdout._last is not None and time.monotonic() > stdout._last)
        go_on.touch()
        assert is_gone(pid)
        assert done.exists()


def test_the_server_of_a_forgotten_client_gets_the_time_to_finish(tmp_path):
    done, go_on = tmp_path / "done", tmp_path / "go on"
    command = script(TOOL + FLUSH.format(done=str(done), go_on=str(go_on)))
    client = Client(command, mode="legacy", timeouts=Timeouts(close=20)).open()
    pid = client.call_tool("pid").structured_content["pid"]
    del client
    go_on.touch()
    assert is_collected_with(pid)
    assert done.exists()


def test_a_stubborn_server_of_a_forgotten_client_is_killed_within_the_bound():
    command = script(IGNORANT + TOOL + "while True: time.sleep(60)")

    def ends_soon() -> bool:
        client = Client(command, mode="legacy", timeouts=Timeouts(close=1)).open()
        pid = client.call_tool("pid").structured_content["pid"]
        del client
        began = time.monotonic()
        assert is_collected_with(pid)
        return time.monotonic() - began < 3  # With the usual bound it would take four seconds.

    # A busy machine may hold one of three up; what is wrong holds up each.
    assert any(ends_soon() for _ in range(3))


def _command(code):
    program, *args = script(code)
    return program, args


PROGRAM = """
    import os, sys
    sys.path.insert(0, {here!r})
    from stdio_support import *
    server_code = {server!r}
    STUBBORN = {stubborn!r}

    def use():
        channel = Stdio(script("")[0], script(server_code)[1:]).channel(settings())
        inbound = Recorder()
        channel.start(inbound, Deadline(10))
        server = Running(channel, inbound)
        print(server.call("initialize")["pid"], server.pid, flush=True)
        return server

"""


def run_program(code, server=DEAF, **options):
    """Run a program that uses a server; return its exit code, its output, and how long it took to end."""
    program = textwrap.dedent(PROGRAM).format(
        here=str(HERE), server=server, stubborn=STUBBORN
    ) + textwrap.dedent(code)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE * 2,
        env=env,
        check=False,
        **options,
    )
    return done, time.monotonic() - started


@pytest.mark.parametrize(
    ("ending", "returncode"),
    [
        ("use()", 0),
        ("server = use()", 0),
        ("server_code = STUBBORN\nserver = use()", 0),
        ("server = use()\nraise RuntimeError('of the program')", 1),
        ("server = use()\nsys.exit(7)", 7),
        ("thread = threading.Thread(target=use)\nthread.start()\nthread.join()", 0),
    ],
)
def test_a_program_that_forgets_to_close_ends_and_its_server_with_it(ending, returncode):
    done, seconds = run_program(ending)
    assert done.returncode == returncode, done.stderr
    assert seconds < 6 + SLACK
    for pid in done.stdout.split():
        assert is_gone(int(pid))
    if returncode == 1:
        assert done.stderr.rstrip().endswith("RuntimeError: of the program")
        assert done.stderr.count("Traceback") == 1
    else:
        assert done.stderr == ""


def test_a_program_that_fails_inside_with_ends_and_its_server_with_it():
    code = """
        with running(server_code, close=1) as server:
            print(server.call("initialize")["pid"], flush=True)
            raise RuntimeError("of the program")
    """
    done, seconds = run_program(code)
    assert done.returncode == 1
    assert seconds < 5 + SLACK
    assert is_gone(int(done.stdout))
    assert done.stderr.count("Traceback") == 1


def test_the_grandchildren_of_a_program_that_forgets_to_close_are_ended():
    code = """
        command = ["/bin/sh", "-c", 'exec 3<&0; "$@" <&3 & wait', "sh", *script(server_code)]
        channel = Stdio(command[0], command[1:]).channel(settings())
        inbound = Recorder()
        channel.start(inbound, Deadline(10))
        print(Running(channel, inbound).call("initialize")["pid"], flush=True)
    """
    done, seconds = run_program(code)
    assert done.returncode == 0, done.stderr
    assert seconds < 6 + SLACK
    assert is_gone(int(done.stdout))


def test_an_interrupt_of_the_program_does_not_reach_the_server():
    code = """
        import signal
        server = use()
        try:
            os.killpg(0, signal.SIGINT)
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            print("again", server.call("again", {"n": 1})["n"])
        server.channel.close(Deadline(5))
    """
    server = 'message = receive()\nanswer(message, {"pid": os.getpid()})\nserve()'
    done, _ = run_program(code, server, start_new_session=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("again 1\n")
    assert done.stderr == ""


# --- forks -----------------------------------------------------------------------------------------------


def in_fork(action) -> int:
    """Run ``action`` in a forked child that then ends as programs end; return its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            warnings.simplefilter("error")
            sys.unraisablehook = lambda *_: os._exit(2)
            action()
            process._end_all()
            gc.collect()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("step", ["abandon", "close", "nothing"])
def test_a_forked_child_leaves_the_server_to_its_parent(step):
    with running("answer(receive())\nserve()") as server:
        server.call("initialize")
        channel = server.channel

        def in_child():
            nonlocal channel
            if step == "abandon":
                popen = channel._server.process._popen
                channel.abandon()
                channel.close(Deadline(1))
                # As when it is collected: without a warning, and without waiting for another's child.
                popen.__del__()
            elif step == "close":
                channel.close(Deadline(1))
            channel = None

        assert in_fork(in_child) == 0
        assert server.call("echo", {"n": 1}) == {"n": 1}
        assert not server.inbound.losses
        assert seconds_to_close(server) < 1.0 + SLACK


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_that_lives_on_does_not_keep_the_servers_input_open():
    with running("answer(receive())\nstdin.read()") as server:
        server.call("initialize")
        pid = os.fork()
        if pid == 0:
            try:
                server.channel.abandon()
                time.sleep(60)
            finally:
                os._exit(0)
        try:
            poll(lambda: len(os.listdir(f"/proc/{pid}/fd")) < len(os.listdir("/proc/self/fd")) - 4)
            assert seconds_to_close(server) < 1.0 + SLACK
            assert server.channel._server.process.returncode == 0
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

"""How a server's process is started: its environment, and what is said when it cannot be."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading

import pytest
from stdio_support import Recorder, poll, running, script, settings

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.errors import CallTimeout, ConnectFailed, ConnectionLost
from mcp_sync.transports._stdio import launch
from mcp_sync.transports._stdio.launch import child_environment
from mcp_sync.transports._stdio.target import Stdio

SHOW_ENVIRONMENT = """
    answer(receive(), dict(os.environ))
    stdin.read()
"""


def environment(**options):
    with running(SHOW_ENVIRONMENT, **options) as server:
        # Python itself may set these two.
        return {
            name: value
            for name, value in server.call("environment").items()
            if name not in ("LC_CTYPE", "__CF_USER_TEXT_ENCODING")
        }


@pytest.fixture
def surroundings(monkeypatch):
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("SECRET_OF_OURS", "hunter2")


# --- the environment -------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", [None, {}])
def test_a_server_gets_the_safe_part_of_the_environment(surroundings, env):
    got = environment(env=env)
    assert got["PATH"] == os.defpath
    assert got["HOME"] == "/home/somebody"
    assert got["LANG"] == "C.UTF-8"
    assert "SECRET_OF_OURS" not in got


def test_variables_of_the_user_come_on_top(surroundings):
    got = environment(env={"API_KEY": "x", "LANG": "de_DE.UTF-8"})
    assert got["API_KEY"] == "x"
    assert got["LANG"] == "de_DE.UTF-8"
    assert got["PATH"] == os.defpath
    assert got["HOME"] == "/home/somebody"


def test_everything_can_be_inherited(surroundings):
    got = environment(env={"API_KEY": "x"}, inherit_env="all")
    assert got["SECRET_OF_OURS"] == "hunter2"
    assert got["API_KEY"] == "x"


def test_nothing_can_be_inherited(surroundings):
    assert environment(env={"API_KEY": "x"}, inherit_env="none") == {"API_KEY": "x"}


def test_functions_exported_by_a_shell_are_left_out(monkeypatch):
    monkeypatch.setenv("TERM", "() { echo vulnerable; }")
    assert "TERM" not in child_environment(None, "base")


def test_on_windows_a_server_gets_what_programs_need_there_and_writes_utf_8(monkeypatch):
    monkeypatch.setattr(launch, "WINDOWS", True)
    for name in ("SYSTEMROOT", "COMSPEC", "WINDIR", "PROGRAMDATA", "PROGRAMFILES(X86)", "PATHEXT", "TEMP"):
        monkeypatch.setenv(name, name.lower())
    env = child_environment({"systemroot": "D:\\Windows"}, "base")
    assert env["COMSPEC"] == "comspec"
    assert env["PROGRAMFILES(X86)"] == "programfiles(x86)"
    assert env["PYTHONUTF8"] == "1"
    assert env["PYTHONIOENCODING"] == "utf-8"
    # Names of variables do not depend on case there.
    assert env["systemroot"] == "D:\\Windows"
    assert "SYSTEMROOT" not in env
    assert child_environment({"PythonUTF8": "0"}, "base")["PythonUTF8"] == "0"


def test_on_windows_a_command_is_found_by_its_shim(monkeypatch, tmp_path):
    monkeypatch.setattr(launch, "WINDOWS", True)
    shim = tmp_path / "npx"
    shim.write_text("")
    shim.chmod(0o755)
    assert launch.resolve(["npx", "-y", "server"], {"Path": str(tmp_path)}) == [
        str(shim),
        "-y",
        "server",
    ]
    assert launch.resolve(["npx"], {"Path": str(tmp_path / "elsewhere")}) is None


def test_the_working_directory_is_set(tmp_path):
    with running("answer(receive(), {'cwd': os.getcwd()})\nstdin.read()", cwd=tmp_path) as server:
        assert server.call("cwd") == {"cwd": str(tmp_path.resolve())}


def test_a_server_is_out_of_reach_of_the_terminals_interrupt():
    with running(
        "answer(receive(), {'group': os.getpgrp(), 'session': os.getsid(0)})\nstdin.read()"
    ) as server:
        pid = server.pid
        assert server.call("ids") == {"group": pid, "session": pid}


# --- what cannot be started ------------------------------------------------------------------------------


def start(*args, **options) -> ConnectFailed:
    channel = Stdio(*args, **options).channel(settings())
    inbound = Recorder()
    with pytest.raises(ConnectFailed) as caught:
        channel.start(inbound, Deadline(5))
    channel.close(Deadline(5))
    assert inbound.losses == []
    assert caught.value.request_sent is False
    return caught.value


def test_a_missing_command_is_named_with_the_path_that_was_searched():
    error = start("no-such-command", env={"PATH": "/nowhere:/also/nowhere"})
    assert str(error) == ("command not found: no-such-command (PATH searched: /nowhere:/also/nowhere)")
    assert isinstance(error.__cause__, FileNotFoundError)


def test_a_command_with_its_arguments_in_one_string_is_told_how_to_part_them():
    assert "arguments go into a list of their own" in str(start("python server.py"))


def test_a_missing_program_file_is_named(tmp_path):
    program = str(tmp_path / "server")
    assert str(start(program)) == f"command not found: {program} (no such file)"


def test_a_script_whose_interpreter_is_missing_is_told_from_a_missing_file(tmp_path):
    program = tmp_path / "server"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    assert "interpreter" in str(start(str(program)))


def test_a_missing_working_directory_is_named(tmp_path):
    missing = str(tmp_path / "missing")
    assert str(start(sys.executable, cwd=missing)) == (
        f"could not start {sys.executable}: no such directory: {missing}"
    )


def test_a_file_that_may_not_be_executed_is_named(tmp_path):
    program = tmp_path / "server"
    program.write_text("")
    assert str(start(str(program))) == f"could not start {program}: Permission denied"


def test_without_a_thread_nothing_is_left_of_the_process(monkeypatch):
    from mcp_sync.transports._stdio import channel

    real, roles = channel.spawn, []

    def spawn(owner, role, *args):
        roles.append(role)
        if role == "reader":
            raise RuntimeError("can't start new thread")
        return real(owner, role, *args)

    monkeypatch.setattr(channel, "spawn", spawn)
    assert "can't start new thread" in str(start(sys.executable, ["-c", "import sys; sys.stdin.read()"]))
    assert roles == ["stderr", "reader"]


# --- again and again -------------------------------------------------------------------------------------


def belongings():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        children = file.read().split()
    return len(os.listdir("/proc/self/fd")), threading.active_count(), children


def fail_to_find():
    start("no-such-command")


def fail_to_answer():
    with running("receive()\nreceive()", close=5) as server, pytest.raises(CallTimeout):
        call = server.begin("initialize", timeout=0.02)
        if not call.wait():
            raise CallTimeout("no answer", timeout=0.02)


def fail_to_agree():
    code = """
        message = receive()
        raw(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -1}}).encode() + b"\\n")
        stdin.read()
    """
    with running(code) as server:
        call = server.begin("initialize")
        assert call.wait()
        assert call.result()["error"] == {"code": -1}


def fail_to_live():
    with running("sys.exit(3)") as server:
        assert server.inbound.loss().returncode == 3


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")
@pytest.mark.parametrize("failure", [fail_to_find, fail_to_answer, fail_to_agree, fail_to_live])
def test_nothing_is_left_of_twenty_failures(failure):
    failure()
    before = belongings()
    for _ in range(20):
        failure()
    assert poll(lambda: belongings() == before, 5), (before, belongings())


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("free", range(1, 10))
def test_a_start_for_which_descriptors_run_out_gives_back_those_it_had(free):
    with scarce_descriptors(free):
        before = set(os.listdir("/proc/self/fd"))
        assert "Too many open files" in str(start(sys.executable, ["-c", "pass"]))
        assert set(os.listdir("/proc/self/fd")) == before


@contextlib.contextmanager
def scarce_descriptors(free):
    """Leave so many descriptors to the process."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 50, limits[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(free):
            os.close(held.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in held:
            os.close(fd)


def test_a_closed_channel_refuses_calls_and_says_so():
    with running("serve()") as server:
        assert server.call("echo", {"n": 1}) == {"n": 1}
        server.channel.close(Deadline(5))
        with pytest.raises(ConnectionLost, match="is closed") as caught:
            server.begin("echo")
        assert caught.value.request_sent is False
        assert json.dumps(script("")[0]).strip('"') in str(caught.value)

"""The command line as a process of its own, without a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from command_line import DEMO_SERVER, ROOT, child_environment, run

from mcp_sync.testing import FakeServer, ToolContext

README = ROOT / "README.md"


def test_the_demo_prints_what_the_readme_shows() -> None:
    shown = README.read_text(encoding="utf-8").split("```text\n", 1)[1].split("```", 1)[0]
    ran = run("demo", COLUMNS="40", FORCE_COLOR="1")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out == shown
    assert all(character == "\n" or character.isprintable() for character in ran.out)


def test_a_server_is_started_by_the_command_behind_the_double_dash() -> None:
    ran = run("call", "add", "a=1", "b=2", "--", *DEMO_SERVER)

    assert (ran.code, ran.out, ran.err) == (0, '{"sum": 3}\n', "")


def test_the_demo_server_completes_arguments_of_its_prompt_and_of_its_template() -> None:
    ran = run("complete", "review", "language=p", "--", *DEMO_SERVER)
    assert (ran.code, ran.out, ran.err) == (0, "PHP\nPerl\nPython\n", "")

    ran = run("complete", "demo://notes/{name}", "name=s", "--json", "--", *DEMO_SERVER)
    assert ran.json["completion"]["values"] == ["shopping", "standup"]


def test_progress_and_questions_leave_no_trace_without_a_terminal() -> None:
    ran = run("call", "countdown", "steps=2", "delay=0", "--", *DEMO_SERVER)
    assert (ran.code, ran.out, ran.err) == (0, "liftoff\n", "")

    ran = run("call", "greet", "--", *DEMO_SERVER)
    assert (ran.code, ran.out, ran.err) == (0, "Hello, whoever you are!\n", "")


def test_the_started_server_sees_the_environment_of_the_shell() -> None:
    script = "import os, sys; sys.exit(os.environ['MARK'])"
    ran = run("tools", "--", sys.executable, "-c", script, MARK="a mark")

    assert ran.code == 3
    assert "a mark" in ran.err


def test_a_server_that_dies_exits_with_3_and_its_last_words() -> None:
    ran = run("tools", "--json", "--", sys.executable, "-c", "import sys; sys.exit('oh no')")

    assert (ran.code, ran.out) == (3, "")
    assert ran.error["returncode"] == 1
    assert ran.error["stderr_tail"] == "oh no"


def test_a_command_that_does_not_exist_exits_with_3() -> None:
    ran = run("tools", "--", "no-such-command-anywhere")

    assert ran.code == 3
    assert "no-such-command-anywhere" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a POSIX signal here")
def test_ctrl_c_exits_with_130_and_without_a_traceback() -> None:
    words = ("call", "countdown", "steps=1000", "--json", "--", *DEMO_SERVER)
    process = subprocess.Popen(
        # The server says on its standard error when the call has come in; until then a signal means nothing.
        [sys.executable, "-c", _RUN_WITH_BELL, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=child_environment(),
        encoding="utf-8",
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "calling\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)

    assert (process.returncode, out) == (130, "")
    assert json.loads(err)["error"]["kind"] == "interrupted"


# Runs a command line; "calling" on standard output says that the call is under way.
_RUN_WITH_BELL = """
import sys
from mcp_sync.transports._stdio import channel
from mcp_sync.cli import main

request = channel.StdioChannel.request
def ring(self, frame, call):
    request(self, frame, call)
    if frame.method == "tools/call":
        print("calling", flush=True)
channel.StdioChannel.request = ring
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    # The reader is gone before anything is printed.
    script = '"$@" 2>"$FILE" | :; exit 0'
    command = ["sh", "-c", script, "sh", sys.executable, "-m", "mcp_sync.cli", "tools", "--", *DEMO_SERVER]
    subprocess.run(command, env=child_environment(FILE=str(tmp_path / "err")), check=True, timeout=50)

    assert (tmp_path / "err").read_text() == ""


def test_without_click_and_rich_it_says_what_to_install() -> None:
    script = "import sys; sys.modules['click'] = None; from mcp_sync.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=child_environment()
    )

    assert done.returncode == 2
    assert done.stderr == "mcp-sync needs click; install by: pip install 'mcp-sync-client[cli]'\n"
    assert done.stdout == ""


@pytest.mark.parametrize("module", ["mcp_sync.cli", "mcp_sync.cli.demo_server"])
def test_importing_it_loads_none_of_the_libraries(module: str) -> None:
    script = (
        f"import sys, {module}; "
        "print({'click', 'rich', 'pydantic', 'requests', 'jsonschema'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=child_environment(), check=True
    )

    assert done.stdout == "set()\n"


def test_what_the_encoding_lacks_is_escaped() -> None:
    ran = run("call", "fail", "message=\u20ac", "--", *DEMO_SERVER, PYTHONIOENCODING="latin-1")

    assert (ran.code, ran.err) == (1, "mcp-sync: tool fail failed: \\u20ac\n")


def test_json_is_json_in_any_encoding() -> None:
    ran = run("call", "--json", "fail", "message=\u20ac", "--", *DEMO_SERVER, PYTHONIOENCODING="latin-1")

    assert ran.json["content"][0]["text"] == "\u20ac"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("words", [["tools", "--", *DEMO_SERVER], ["--help"]])
def test_an_output_that_takes_nothing_is_no_bug(words: list[str]) -> None:
    for errors_too in (False, True):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [sys.executable, "-m", "mcp_sync.cli", *words],
                stdin=subprocess.DEVNULL,
                stdout=full,
                stderr=full if errors_too else subprocess.PIPE,
                env=child_environment(),
                timeout=50,
            )
        assert done.returncode == 74
        if not errors_too:
            assert done.stderr == b"mcp-sync: cannot write the output: No space left on device\n"


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX pipes")
def test_a_reader_that_goes_away_in_the_midst_ends_it_with_141() -> None:
    # More than a pipe and its buffers hold.
    words = ["call", "fail", f"message={'x' * 100_000}", "--json", "--", *DEMO_SERVER]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "mcp_sync.cli", *words],
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        env=child_environment(),
        timeout=50,
    )
    os.close(writing)

    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX pipes")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_a_reader_leaves_is_not_lost_without_a_word(unbuffered: str) -> None:
    words = ["call", "fail", "-", "--json", "--", *DEMO_SERVER]
    with subprocess.Popen(
        [sys.executable, "-m", "mcp_sync.cli", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=child_environment(PYTHONUNBUFFERED=unbuffered),
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        # More than a pipe holds, so that a part of it is written before the reader goes.
        child.stdin.write(json.dumps({"message": "x" * 1_000_000}).encode())
        child.stdin.close()
        assert child.stdout.read(1)
        child.stdout.close()

        assert (child.wait(50), child.stderr.read()) == (141, b"")


def test_a_result_goes_into_a_pipe_letter_by_letter() -> None:
    server = (
        "from mcp_sync.testing import FakeServer\n"
        "FakeServer(tools={'paint': lambda: 'a\\x1b[31mred\\x1b[0m'}).serve_stdio()"
    )

    assert run("call", "paint", "--", sys.executable, "-c", server).out == "a\x1b[31mred\x1b[0m\n"


# It does not end with its input, nor when it is asked to.
STUBBORN = """
import os, signal, sys, threading, time
from mcp_sync.testing import FakeServer

signal.signal(signal.SIGTERM, signal.SIG_IGN)

def stay():
    open(sys.argv[1], "w").write(str(os.getpid()))
    begun = time.monotonic()
    with open(sys.argv[2] if len(sys.argv) > 2 else os.devnull, "w", buffering=1) as life:
        while True:
            print(time.monotonic() - begun, file=life)
            time.sleep(0.02)

FakeServer(tools=[stay]).serve_stdio()
threading.Event().wait()
"""


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize(
    "name",
    [
        "SIGTERM",
        pytest.param(
            "SIGHUP",
            marks=pytest.mark.skipif(
                signal.getsignal(getattr(signal, "SIGHUP", signal.SIGTERM)) is signal.SIG_IGN,
                reason="who has started the tests ignores it, as nohup does",
            ),
        ),
    ],
)
def test_a_signal_that_ends_it_ends_the_server_that_it_has_started(name: str, tmp_path: Path) -> None:
    mark, number = tmp_path / "pid", getattr(signal, name)
    os.mkfifo(mark)
    server = ["--", sys.executable, "-c", STUBBORN, str(mark)]
    process = subprocess.Popen(
        [sys.executable, "-m", "mcp_sync.cli", "call", "stay", *server],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=child_environment(),
    )
    with process:
        # Waits until the tool has been called.
        pid = int(mark.read_text())
        process.send_signal(number)
        out, err = process.communicate(timeout=30)

    assert (process.returncode, out, err) == (-number, b"", b"")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_a_server_that_will_not_end_is_ended_soon_after_the_time_of_the_command(tmp_path: Path) -> None:
    mark, life = tmp_path / "pid", tmp_path / "life"
    server = ["--", sys.executable, "-c", STUBBORN, str(mark), str(life)]
    lives: list[float] = []
    # A busy machine may hold one of three up, or not come to the tool in time; what is wrong holds up each.
    for seconds in (2, 4, 8):
        mark.unlink(missing_ok=True)
        ran = run("call", "stay", "--timeout", str(seconds), "--json", *server)
        assert (ran.code, ran.error["timeout"]) == (4, seconds)
        if mark.exists():
            with pytest.raises(ProcessLookupError):
                os.kill(int(mark.read_text()), 0)
            # From when the tool was called on; there is a moment for a server that ends by itself.
            lives.append(max(map(float, life.read_text().split()), default=0.0))
            if 0 < lives[-1] < seconds + 2.5:
                return
    pytest.fail(f"it lived too long, or was not called in time: {lives}")


@pytest.mark.skipif(not os.path.exists("/dev/stdin"), reason="needs a name for standard input")
def test_a_configuration_can_come_through_a_pipe() -> None:
    config = {
        "mcpServers": {"demo": {"command": DEMO_SERVER[0], "args": DEMO_SERVER[1:], "inheritEnv": "all"}}
    }
    words = ("call", "demo", "add", "a=1", "b=2", "--config", "/dev/stdin")

    assert run(*words, stdin=json.dumps(config)).out == '{"sum": 3}\n'


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")
def test_a_pipe_that_nobody_writes_into_is_given_up_within_the_time_of_the_command(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mcp.json"
    os.mkfifo(path)
    ran = run("tools", "demo", "--config", str(path), "--timeout", "0.5")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"mcp-sync: {path}: nobody has written it to its end within 0.")

    ran = run("call", "fail", f"message=@{path}", "--timeout", "0.5", "--", *DEMO_SERVER)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"mcp-sync: message: cannot read {path}: nobody has written it to its end")


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a POSIX signal here")
@pytest.mark.parametrize("mode", ["2025-11-25", "2026-07-28"])
def test_ctrl_c_tells_the_server_over_http(mode: str) -> None:
    called, gone = threading.Event(), threading.Event()

    def wait(context: ToolContext) -> str:
        called.set()
        if context.cancelled.wait(30):
            gone.set()
        return "late"

    with FakeServer(tools=[wait]).serve_http() as endpoint:
        process = subprocess.Popen(
            [sys.executable, "-m", "mcp_sync.cli", "call", endpoint.url, "wait", "--mode", mode],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=child_environment(),
            encoding="utf-8",
        )
        with process:
            assert called.wait(30)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        assert gone.wait(30)

    assert (process.returncode, out, err) == (130, "", "mcp-sync: interrupted\n")


@pytest.mark.parametrize("words", [("--help",), ("call", "--help")])
def test_the_help_loads_neither_models_nor_transports(words: tuple[str, ...]) -> None:
    script = (
        "import atexit, sys; from mcp_sync.cli import main\n"
        "heavy = {'rich', 'pydantic', 'requests', 'jsonschema', 'mcp_sync.session'}\n"
        "atexit.register(lambda: print(heavy & set(sys.modules), file=sys.stderr))\n"
        f"sys.argv = ['mcp-sync', *{words!r}]; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=child_environment(), timeout=50
    )

    assert (done.returncode, done.stderr) == (0, "set()\n")


def test_names_of_servers_and_their_warnings_leave_standard_output_alone(tmp_path: Path) -> None:
    path = tmp_path / "servers.json"
    demo = {"command": DEMO_SERVER[0], "args": DEMO_SERVER[1:], "inheritEnv": "all", "colour": "red"}
    path.write_text(json.dumps({"mcpServers": {"demo": demo}}))
    ran = run("call", "demo", "add", "a=1", "b=2", MCP_SYNC_CONFIG=str(path), NO_COLOR="1")

    assert (ran.code, ran.out) == (0, '{"sum": 3}\n')
    assert ran.err.endswith("server 'demo', key 'colour': unknown, and ignored\n")
    assert run("call", "demo", "add", "a=1", "b=2", "--json", MCP_SYNC_CONFIG=str(path)).err == ""


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize("words", [["--help"], ["call", "add", "a=1", "b=2", "--", *DEMO_SERVER]])
@pytest.mark.parametrize(
    ("closed", "code", "said"),
    [
        (">&-", 74, b"mcp-sync: cannot write the output: standard output is closed\n"),
        (">&- 2>&- <&-", 74, b""),
        pytest.param("2>&- <&-", 0, b"", marks=pytest.mark.heavy),
    ],
)
def test_a_closed_stream_takes_nothing_and_gives_nothing(
    closed: str, code: int, said: bytes, words: list[str]
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "mcp_sync.cli", *words],
        env=child_environment(),
        capture_output=True,
        timeout=50,
    )

    assert (done.returncode, done.stderr) == (code, said)
    assert bool(done.stdout) is (code == 0)


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_input_that_cannot_be_read_is_no_fault_of_the_output() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 0>/dev/null', "sh", sys.executable, "-m", "mcp_sync.cli", "call", "add", "-"]
        + ["--", *DEMO_SERVER],
        env=child_environment(),
        capture_output=True,
        timeout=50,
    )

    assert (done.returncode, done.stderr) == (2, b"mcp-sync: - reads standard input: Bad file descriptor\n")

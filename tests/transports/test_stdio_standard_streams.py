"""A server process, whatever has become of the standard streams of the program that starts it."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from concurrency.spy_server import arguments, run

# The last call would wait for ever where nobody reads the standard error of the server: it is 100 kB.
USE = """
import io, json, logging
told = json.loads(sys.argv[1])

def use(babbles=False, **options):
    target = Stdio(told["server"][0], told["server"][1:], **options)
    with Client(target, mode=told["mode"], timeout=20, logging_callback=lambda params: 1 / 0) as client:
        assert client.call_tool("echo", {"text": "x"}).text == "x"
        assert client.call_tool("grumble", {"text": "e"}).text == "e"
        assert client.call_tool("grumble", {"text": "f"}).text == "f"
        for text in ("no message", "again none") if babbles else ():
            assert client.call_tool("babble", {"text": text}).text == text

def report(words):
    # Past whatever sys.stdout is: the descriptor may have been given another number.
    os.write(report_to, (words + "\\n").encode())

report_to = os.dup(1)
"""

BROKEN = {
    "StringIO": "sys.stdin = sys.stdout = sys.stderr = io.StringIO()",
    "without fileno": "class Stream:\n    def write(self, text): pass\nsys.stdout = sys.stderr = Stream()",
    "None": "sys.stdin = sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = sys.__stdin__ = None",
    "closed": "sys.stdin.close(); sys.stdout.close(); sys.stderr.close()",
    "no descriptors": "for fd in (0, 1, 2): os.close(fd)",
    "full": "class Full:\n    def write(self, text): raise OSError('full')\nsys.stdout = sys.stderr = Full()",
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_server_works_and_its_words_are_read_or_passed_to_a_broken_stream(how: str) -> None:
    """With ``stderr=sys.stderr`` what cannot be written is lost, and the server goes on."""
    script = f"{USE}\n{BROKEN[how]}\nuse(babbles=True)\nreport('read')\n"
    script += "use(stderr=sys.stderr)\nreport('passed')\nos._exit(0)"
    done = run(script, arguments(mode="auto"))
    assert (done.returncode, done.stdout) == (0, "read\npassed\n"), done.stderr


def test_its_words_reach_a_string_that_stands_in_for_standard_error() -> None:
    script = f"""{USE}
sys.stderr = io.StringIO()
use(stderr=sys.stderr)
report(str(sys.stderr.getvalue() == "e" * 100_000 + "\\n" + "f" * 100_000 + "\\n"))
"""
    assert run(script, arguments(mode="auto")).stdout == "True\n"


@pytest.mark.parametrize("how", ["None", "no descriptors"])
def test_a_program_without_standard_streams_logs_and_ends_quietly(how: str) -> None:
    """As under pythonw: even with logging turned on, at the interpreter's own end."""
    script = f"{USE}\n{BROKEN[how]}\nlogging.basicConfig(level=logging.DEBUG)\nuse()\nreport('well')\n"
    done = run(script, arguments(mode="auto"))
    assert done.stdout == "well\n", done.stderr
    assert done.stderr == ""


def test_nothing_is_said_on_the_standard_streams_by_itself() -> None:
    done = run(f"{USE}\nuse()", arguments(mode="legacy"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_logging_that_fails_harms_no_call(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(logging.Handler):
        def emit(self, record: Any) -> None:
            raise OSError("no space left")

    from mcp_sync import Client
    from mcp_sync.testing import FakeServer
    from mcp_sync.transports import InMemory

    handler = Broken()
    logging.getLogger("mcp_sync").addHandler(handler)
    try:
        with Client(InMemory(FakeServer(tools=[]))) as client:
            assert list(client.tools()) == []
    finally:
        logging.getLogger("mcp_sync").removeHandler(handler)

"""``mcp-sync stubs``: written, looked at, and out of step."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from command_line import DEMO_SERVER, child_environment, invoke, run


def test_the_module_is_printed_or_written(tmp_path):
    file = tmp_path / "tools.py"
    printed = invoke("stubs", "--", *DEMO_SERVER)
    assert printed.code == 0
    assert "class Tools(ToolCalls):" in printed.out
    assert invoke("stubs", "-o", str(file), "--", *DEMO_SERVER).code == 0
    assert file.read_text(encoding="utf-8") == printed.out


def test_check_tells_a_file_that_fits_from_one_that_does_not(tmp_path):
    file = tmp_path / "tools.py"
    words = ("stubs", "-o", str(file), "--check", "--", *DEMO_SERVER)
    missing = invoke(*words)
    assert missing.code == 2
    assert "cannot be read" in missing.err
    invoke("stubs", "-o", str(file), "--", *DEMO_SERVER)
    assert invoke(*words).code == 0
    file.write_text(file.read_text(encoding="utf-8").replace("def add", "def plus"), encoding="utf-8")
    drifted = invoke(*words)
    assert drifted.code == 1
    assert "-    def plus(" in drifted.out
    assert "+    def add(" in drifted.out
    assert "def plus" in file.read_text(encoding="utf-8")
    told = invoke("stubs", "-o", str(file), "--check", "--json", "--", *DEMO_SERVER)
    assert (told.code, told.json["matches"]) == (1, False)


def test_check_needs_a_file():
    assert invoke("stubs", "--check", "--", *DEMO_SERVER).code == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_no_wrong_use():
    ran = run("stubs", "-o", "/dev/full", "--json", "--", *DEMO_SERVER)
    assert ran.code == 74
    assert ran.error["message"] == "/dev/full cannot be written: No space left on device"


@pytest.mark.skipif(os.name != "posix", reason="needs a limit of the size of files")
def test_a_disk_that_takes_no_more_leaves_the_file_as_it_was(tmp_path):
    file = tmp_path / "tools.py"
    file.write_text("old")
    words = [sys.executable, "-m", "mcp_sync.cli", "stubs", "-o", str(file), "--", *DEMO_SERVER]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *words],
        env=child_environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=50,
    )
    assert done.returncode == 74
    assert f"{file} cannot be written: File too large" in done.stderr
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["tools.py"]

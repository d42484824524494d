"""``mcp-sync stubs``: written, looked at, and out of step."""

from __future__ import annotations

import os

import pytest
from command_line import DEMO_SERVER, invoke, run


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

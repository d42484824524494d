"""``mcp-sync pins``: written, looked at, and out of step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command_line import DEMO_SERVER, invoke, run

from mcp_sync import Client
from mcp_sync.testing import FakeServer


def _add(a: int, b: int) -> int:
    """Add."""
    return a + b


def test_changes_are_told_and_the_file_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "tools.lock"
    server = FakeServer(tools={"add": _add, "old\x1b": _add})
    with server.serve_http() as endpoint:
        words = ("pins", endpoint.url, "-o", str(file))
        missing = invoke(*words, "--check")
        assert (missing.code, file.exists()) == (2, False)
        assert "there is no" in missing.err

        assert invoke(*words).out == f"2 tools written to {file}\n"
        written = file.read_bytes()
        fits = invoke(*words, "--check")
        assert (fits.code, fits.out, fits.err) == (0, "2 tools as before\n", "")

        server.remove_tool("add")
        server.remove_tool("old\x1b")
        server.add_tool(lambda a: a, "add")
        server.add_tool(lambda: "", "new")
        ran = invoke(*words, "--check")
        assert ran.code == 1
        assert "add has changed:\n" in ran.out
        assert "Add." in ran.out
        assert "new is not pinned\n" in ran.out
        assert "old\\x1b is gone\n" in ran.out
        assert "not those of" in ran.err
        told = invoke(*words, "--check", "--json")
        assert (told.code, told.json["matches"]) == (1, False)
        assert sorted(told.json["changes"]) == ["add", "new", "old\x1b"]
        assert file.read_bytes() == written

        assert invoke(*words, "--json").json == {"output": str(file), "tools": ["add", "new"]}
        assert invoke(*words, "--check", "--json").json == {
            "output": str(file),
            "matches": True,
            "changes": {},
        }


def test_the_file_is_that_of_pin_tools(tmp_path: Path) -> None:
    by_client, by_command = tmp_path / "a", tmp_path / "b"
    with Client(DEMO_SERVER) as client:
        client.pin_tools(by_client)
    assert invoke("pins", "-o", str(by_command), "--", *DEMO_SERVER).code == 0
    assert by_client.read_bytes() == by_command.read_bytes()


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"version": 1, "tools": {"add": {}}}'])
def test_what_is_no_lock_file_is_wrong_use(tmp_path: Path, content: str) -> None:
    file = tmp_path / "tools.lock"
    file.write_text(content, encoding="utf-8")
    ran = invoke("pins", "-o", str(file), "--check", "--", *DEMO_SERVER)
    assert ran.code == 2
    assert "no lock file of tools" in ran.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_no_wrong_use() -> None:
    ran = run("pins", "-o", "/dev/full", "--json", "--", *DEMO_SERVER)
    assert ran.code == 74
    assert ran.error["message"] == "the lock file /dev/full cannot be written: No space left on device"

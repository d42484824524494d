"""Stubs for the tools of other makers' servers: accepted by mypy, and called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typed.stubs import load, mypy

from mcp_sync import Client, OutputInvalid, types
from mcp_sync.transports import Stdio
from mcp_sync.typed import generate_stubs

from . import install

pytestmark = pytest.mark.interop
SERVERS = Path(__file__).parent / "servers"


def _python(maker: str) -> Stdio:
    script = str(SERVERS / f"{maker}_server.py")
    return Stdio(str(install.venv_python(maker)), ("-W", "ignore", script, "stdio"))


def _npm(package: str, *words: str) -> Stdio:
    script = install.npm_script(package, "dist", "index.js")
    return Stdio(str(install.node()), (str(script), *words))


TARGETS: dict[str, Callable[[Path], Stdio]] = {
    "sdk1": lambda folder: _python("sdk1"),
    "sdk2": lambda folder: _python("sdk2"),
    "fastmcp4": lambda folder: _python("fastmcp4"),
    "everything": lambda folder: _npm("@modelcontextprotocol/server-everything", "stdio"),
    "filesystem": lambda folder: _npm("@modelcontextprotocol/server-filesystem", str(folder)),
}


def _use(maker: str, tools: Any, folder: Path) -> None:
    """Call something of what each server has, as the module has it."""
    if maker == "everything":
        assert "12" in tools.get_sum(a=5, b=7).text
        assert "temperature" in tools.get_structured_content(location="New York")
    elif maker == "filesystem":
        (folder / "note.txt").write_text("hello")
        assert tools.read_text_file(path=str(folder / "note.txt"))["content"] == "hello"
        assert "note.txt" in tools.list_directory(path=str(folder))["content"]
    else:
        found = tools.add(a=5, b=7)
        assert "12" in (found.text if isinstance(found, types.CallToolResult) else str(found))


@pytest.mark.timeout(300)
def test_mypy_accepts_the_stubs_of_each_server_and_its_tools_can_be_called(tmp_path):
    texts = []
    for maker, target in TARGETS.items():
        folder = tmp_path / maker
        folder.mkdir()
        with Client(target(folder)) as client:
            text = generate_stubs(client)
            assert generate_stubs(list(client.tools())) == text
            tools = load(text).Tools(client, timeout=30)
            try:
                _use(maker, tools, folder)
            except OutputInvalid as wrong:
                raise AssertionError(f"{maker}: {wrong}") from wrong
            texts.append(text)
    checked = tmp_path / "checked"
    checked.mkdir()
    said = mypy(checked, texts)
    assert said.startswith("Success"), said[:3000]

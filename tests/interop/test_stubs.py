"""Stubs for the tools of other makers' servers: accepted by mypy, called, and out of step."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import run
from typed.stubs import load, mypy

from mcp_sync import Client, OutputInvalid, types
from mcp_sync.transports import Stdio
from mcp_sync.typed import generate_stubs

from .harness import WAIT
from .servers_of_others import MAKERS, command, environment, folder_of, web_page

pytestmark = pytest.mark.interop


def _text(result: Any) -> str:
    assert isinstance(result, types.CallToolResult)
    assert not result.is_error, result
    return result.text


def _use(maker: str, tools: Any, folder: Path) -> None:
    """Call something of what each server has, as the module has it."""
    if maker == "everything":
        assert "12" in _text(tools.get_sum(a=5, b=7))
        assert "temperature" in tools.get_structured_content(location="New York")
    elif maker == "filesystem":
        (folder / "note.txt").write_text("hello")
        assert tools.read_text_file(path=str(folder / "note.txt"))["content"] == "hello"
        assert "note.txt" in tools.list_directory(path=str(folder))["content"]
    elif maker == "memory":
        ada = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
        assert tools.create_entities(entities=[ada]) == {"entities": [ada]}
        assert tools.search_nodes(query="Ada") == {"entities": [ada], "relations": []}
    elif maker == "git":
        assert "nothing to commit" in _text(tools.git_status(repo_path=str(folder)))
        assert "the first" in _text(tools.git_log(repo_path=str(folder), max_count=1))
    elif maker == "sqlite":
        _text(tools.create_table(query="create table numbers (n int)"))
        assert "numbers" in _text(tools.list_tables())
    elif maker == "time":
        found = tools.convert_time(source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo")
        assert found["target"]["datetime"].endswith("21:00:00+09:00")
    elif maker == "fetch":
        with web_page("<h1>Of this machine</h1>") as url:
            assert "Of this machine" in _text(tools.fetch(url=url, max_length=500))
    else:
        found = tools.add(a=5, b=7)
        assert "12" in (found.text if isinstance(found, types.CallToolResult) else str(found))


def _written_and_used(maker: str, parent: Path) -> str:
    """Return the module that the command line writes for a server; its tools have been called through it."""
    folder, file = folder_of(maker, parent), parent / f"{maker}.py"
    program, *words = command(maker, folder)
    ran = run("stubs", "-o", str(file), "--", program, *words)
    assert (ran.code, ran.out) == (0, ""), ran
    text = file.read_text(encoding="utf-8")
    with Client(Stdio(program, words, env=environment(folder))) as client:
        assert generate_stubs(client) == text
        try:
            _use(maker, load(text, f"stubs_of_{maker}").Tools(client, timeout=WAIT), folder)
        except OutputInvalid as wrong:
            raise AssertionError(f"{maker}: {wrong}") from wrong
    return text


@pytest.mark.timeout(300)
def test_mypy_accepts_the_stubs_of_each_server_and_its_tools_can_be_called(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        texts = list(pool.map(_written_and_used, MAKERS, [tmp_path] * len(MAKERS)))
    checked = tmp_path / "checked"
    checked.mkdir()
    said = mypy(checked, texts)
    assert said.startswith("Success"), said[:3000]


@pytest.mark.timeout(120)
def test_the_command_line_sees_when_a_server_has_other_tools_than_before(tmp_path: Path) -> None:
    before, now = command("time", tmp_path), command("fetch", tmp_path)
    words = ["stubs", "-o", str(tmp_path / "tools.py")]
    assert run(*words, "--", *before).code == 0
    assert run(*words, "--check", "--", *before).code == 0

    ran = run(*words, "--check", "--", *now)
    assert ran.code == 1
    assert "-    def get_current_time(" in ran.out
    assert "+    def fetch(" in ran.out
    assert run(*words, "--", *now).code == 0
    assert run(*words, "--check", "--", *now).code == 0

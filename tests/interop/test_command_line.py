"""The command line as a process, with servers of other makers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.command_line import Ran, run

from . import install

pytestmark = pytest.mark.interop
SERVERS = Path(__file__).parent / "servers"
MAKERS = ("sdk1", "sdk2", "fastmcp4", "everything", "filesystem")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep logins of the tests apart from those of the user."""
    monkeypatch.setenv("MCP_SYNC_HOME", str(tmp_path / "home"))


def command(maker: str, folder: Path) -> list[str]:
    """Return what starts a server."""
    if maker in ("everything", "filesystem"):
        script = install.npm_script(f"@modelcontextprotocol/server-{maker}", "dist", "index.js")
        return [str(install.node()), str(script), "stdio" if maker == "everything" else str(folder)]
    script = SERVERS / f"{maker}_server.py"
    return [str(install.venv_python(maker)), "-W", "ignore", str(script), "stdio"]


def ok(ran: Ran) -> Ran:
    """Return what ran, which has to have gone well and without a word."""
    assert ran.code == 0, ran
    assert "Traceback" not in ran.err
    return ran


@pytest.mark.timeout(300)
@pytest.mark.parametrize("maker", MAKERS)
def test_the_main_commands_work_with_each_server(maker: str, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("hello")
    path = tmp_path / "mcp.json"
    program, *words = command(maker, tmp_path)
    path.write_text(json.dumps({"mcpServers": {maker: {"command": program, "args": words}}}))

    def use(*words: str) -> Ran:
        return ok(run(*words, "--config", str(path)))

    names = [tool["name"] for tool in use("tools", maker, "--json").json["tools"]]
    if maker == "filesystem":
        note = str(tmp_path / "note.txt")
        assert use("call", maker, "read_text_file", f"path={note}").out.splitlines()[0] == "hello"
    else:
        tool = "get-sum" if maker == "everything" else "add"
        assert tool in names
        assert "12" in use("call", maker, tool, "a=5", "b=7").out
    wrong = run("call", maker, names[0], "nobody_has_this:=1", "--config", str(path))
    assert wrong.code in (0, 1, 5)
    assert "Traceback (most" not in wrong.out
    told = use("info", maker, "--json").json
    assert told["protocolVersion"]
    assert use("ping", maker).out.startswith("answered in ")
    steps = use("doctor", maker, "--json").json["steps"]
    assert {each["state"] for each in steps} <= {"ok", "note"}
    for kind in ("resources", "prompts"):
        use(kind, maker)


@pytest.mark.timeout(200)
def test_prompts_resources_images_and_completions_of_server_everything(tmp_path: Path) -> None:
    server = ["--", *command("everything", tmp_path)]

    assert "This is a simple prompt" in ok(run("prompt", "simple-prompt", *server)).out
    assert "Paris" in ok(run("prompt", "args-prompt", "city=Paris", *server)).out
    listed = ok(run("resources", "--json", *server)).json
    assert listed["resourceTemplates"]
    uri = listed["resources"][0]["uri"]
    assert ok(run("read", uri, *server)).out
    folder = tmp_path / "saved"
    ran = ok(run("call", "get-tiny-image", "--save", str(folder), *server))
    assert "[image image/png" in ran.out
    (image,) = folder.iterdir()
    assert image.name == "image-1.png"
    assert image.read_bytes().startswith(b"\x89PNG")
    found = ok(run("complete", "completable-prompt", "department=E", *server)).out
    assert found == "Engineering\n"
    ran = run("call", "get-sum", "a=x", "b=1", *server)
    assert ran.code == 2
    assert "a: 'x' is not of type number" in ran.err


@pytest.mark.timeout(120)
def test_a_file_that_is_not_there_is_an_error_of_the_tool(tmp_path: Path) -> None:
    ran = run("call", "read_text_file", "path=/nowhere", "--", *command("filesystem", tmp_path))

    assert ran.code == 1
    assert ran.err.startswith("mcp-sync: tool read_text_file failed: ")

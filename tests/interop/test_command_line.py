"""The command line as a process, with servers of other makers."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Optional

import pytest
from cli.command_line import Ran, child_environment, run

from . import install
from .harness import HttpServer
from .servers_of_others import MAKERS, ON_SDKS, SERVERS, command, environment, folder_of, web_page

pytestmark = pytest.mark.interop
Use = Callable[..., Ran]
TOOLS = {"everything": "get-sum", **dict.fromkeys(ON_SDKS, "add")}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep logins of the tests apart from those of the user."""
    monkeypatch.setenv("MCP_SYNC_HOME", str(tmp_path / "home"))


@pytest.fixture
def use(request: pytest.FixtureRequest, tmp_path: Path) -> Use:
    """A command line with the server that a test is parametrized with, given stdin if it is to have any."""
    maker: str = request.param
    folder = folder_of(maker, tmp_path)
    program, *words = command(maker, folder)
    path = tmp_path / "mcp.json"
    server = {"command": program, "args": words, "env": environment(folder)}
    path.write_text(json.dumps({"mcpServers": {maker: server}}))

    def used(name: str, *words: str, stdin: Optional[str] = None) -> Ran:
        ran = run(name, maker, *words, "--config", str(path), stdin=stdin)
        assert "Traceback" not in ran.err
        return ran

    return used


def server_of(*makers: str) -> pytest.MarkDecorator:
    """Parametrize a test with servers."""
    return pytest.mark.parametrize("use", makers, indirect=True)


def ok(ran: Ran) -> Ran:
    """Return what ran, which has to have gone well."""
    assert ran.code == 0, ran
    return ran


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("use", "maker"), [(maker, maker) for maker in MAKERS], indirect=["use"])
def test_the_main_commands_work_with_each_server(maker: str, use: Use) -> None:
    lines = [("tools", "--json"), ("doctor", "--json"), ("resources",), ("prompts",)]
    if maker in TOOLS:
        lines += [("info", "--json"), ("ping",)]
    with ThreadPoolExecutor(2) as pool:
        tools, doctor, *others = [ok(ran) for ran in pool.map(lambda line: use(*line), lines)]

    names = [tool["name"] for tool in tools.json["tools"]]
    assert names
    assert {each["state"] for each in doctor.json["steps"]} <= {"ok", "note"}
    if maker in TOOLS:
        info, ping = others[-2:]
        assert info.json["protocolVersion"]
        assert ping.out.startswith("answered in ")
        assert TOOLS[maker] in names
        assert "12" in ok(use("call", TOOLS[maker], "a=5", "b=7")).out
        wrong = use("call", TOOLS[maker], "a=x", "b=7")
        assert (wrong.code, wrong.out) == (2, "")
        assert "a: 'x' is not of type " in wrong.err


@pytest.mark.timeout(200)
@server_of("everything")
def test_prompts_resources_images_and_completions_of_server_everything(use: Use, tmp_path: Path) -> None:
    assert "This is a simple prompt" in ok(use("prompt", "simple-prompt")).out
    assert "Paris" in ok(use("prompt", "args-prompt", "city=Paris")).out
    listed = ok(use("resources", "--json")).json
    assert listed["resourceTemplates"]
    assert ok(use("read", listed["resources"][0]["uri"])).out
    folder = tmp_path / "saved"
    ran = ok(use("call", "get-tiny-image", "--save", str(folder)))
    assert "[image image/png" in ran.out
    (image,) = folder.iterdir()
    assert image.name == "image-1.png"
    assert image.read_bytes().startswith(b"\x89PNG")
    found = ok(use("complete", "completable-prompt", "department=E")).out
    assert found == "Engineering\n"
    found = ok(use("complete", "completable-prompt", "name=", "department=Support")).out
    assert found.splitlines() == ["John", "Kim", "Lee"]


@pytest.mark.timeout(120)
@server_of("filesystem")
def test_files_are_read_and_written(use: Use, tmp_path: Path) -> None:
    note, text = tmp_path / "filesystem-files" / "note 🎉.txt", tmp_path / "text"
    text.write_text("hello,\nwörld")
    ok(use("call", "write_file", f"path={note}", f"content=@{text}"))
    assert note.read_text(encoding="utf-8") == "hello,\nwörld"
    assert ok(use("call", "read_text_file", f"path={note}", "head=1")).out.splitlines()[0] == "hello,"

    ran = use("call", "read_text_file", "path=/nowhere")
    assert ran.code == 1
    assert ran.err.startswith("mcp-sync: tool read_text_file failed: ")


@pytest.mark.timeout(120)
@server_of("git")
def test_a_commit_is_made_in_a_repository(use: Use, tmp_path: Path) -> None:
    where = f"repo_path={tmp_path / 'git-files'}"
    (tmp_path / "git-files" / "a b.txt").write_text("text")
    # The only item of a list, and a text that looks like an argument.
    ok(use("call", "git_add", where, "files=a b.txt"))
    ok(use("call", "git_commit", where, "message=a=ü 🎉"))
    log = ok(use("call", "git_log", where, "max_count=1", "--json")).json
    assert "Message: a=ü 🎉" in log["content"][0]["text"]

    outside = use("call", "git_status", f"repo_path={tmp_path}", "--json")
    assert (outside.code, outside.json["isError"], outside.err) == (1, True, "")
    unknown = use("call", "git_push", where, "--json")
    assert (unknown.code, unknown.out) == (5, "")
    assert unknown.error["type"] == "InvalidParams"


@pytest.mark.timeout(120)
@server_of("sqlite")
def test_a_table_is_made_and_queried(use: Use, tmp_path: Path) -> None:
    query = tmp_path / "query.sql"
    query.write_text("SELECT n, t\nFROM notes")
    ok(use("call", "create_table", "query=CREATE TABLE notes (n INT, t TEXT)"))
    ok(use("call", "write_query", "query=INSERT INTO notes VALUES (1, 'x=y')"))
    assert ok(use("call", "read_query", f"query=@{query}")).out == "[{'n': 1, 't': 'x=y'}]\n"
    assert "notes" in ok(use("prompt", "mcp-demo", "topic=notes")).out
    assert ok(use("read", "memo://insights")).out

    assert use("read", "memo://nowhere").code == 5
    assert "missing: query" in use("call", "read_query", "text=x").err


@pytest.mark.timeout(120)
@server_of("time")
def test_a_time_is_converted_from_standard_input(use: Use) -> None:
    given = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Europe/Oslo"}
    typed = ("time=12:30", "target_timezone=Asia/Tokyo")
    found = ok(use("call", "convert_time", *typed, "-", "--json", stdin=json.dumps(given))).json
    assert found["structuredContent"]["target"]["datetime"].endswith("T21:30:00+09:00")

    wrong = use("call", "get_current_time", "timezone=Nowhere/At_all")
    assert (wrong.code, wrong.out) == (1, "")
    assert "Nowhere/At_all" in wrong.err
    assert use("call", "convert_time", "-", stdin="[1]").code == 2
    offered = use("listen", "--json")
    assert (offered.code, offered.error["code"]) == (5, -32601)


@pytest.mark.timeout(120)
@server_of("memory")
def test_a_graph_is_remembered(use: Use, tmp_path: Path) -> None:
    path = tmp_path / "entities.json"
    ada = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    path.write_text(json.dumps([ada]))
    # The same once more as structured content would be noise.
    assert json.loads(ok(use("call", "create_entities", f"entities:=@{path}")).out) == [ada]
    ok(use("call", "create_relations", 'relations:=[{"from": "Ada", "to": "Ada", "relationType": "is"}]'))
    found = ok(use("call", "search_nodes", "query=Ada", "--json")).json["structuredContent"]
    assert (found["entities"], len(found["relations"])) == ([ada], 1)
    assert "writes programs" in ok(use("read", "memory://knowledge-graph")).out

    refused = use("call", "create_entities", 'entities:=[{"name": 1}]')
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "mcp-sync: entities[0]: missing: entityType, observations\n"
    ran = use("call", "create_entities", 'entities:=[{"name": 1}]', "--no-check")
    assert ran.code == 1
    assert "entities[0].name" in ran.err
    assert use("complete", "anything", "name=A").code == 5
    watched = ok(use("listen", "--resource", "memory://knowledge-graph", "--timeout", "5"))
    assert (watched.out, watched.err) == ("", "Watching; Ctrl-C ends it.\n")


@pytest.mark.timeout(120)
@server_of("fetch")
def test_a_page_is_fetched_by_a_tool_and_by_a_prompt(use: Use) -> None:
    with web_page("<h1>Of this machine</h1>") as url:
        assert "# Of this machine" in ok(use("call", "fetch", f"url={url}", "raw=no")).out
        assert "<h1>" in ok(use("call", "fetch", f"url={url}", "raw=yes")).out
        assert "# Of this machine" in ok(use("prompt", "fetch", f"url={url}")).out

    assert use("call", "fetch", "url=http://127.0.0.1:9/").code == 1


@contextmanager
def watching(*words: str) -> Iterator[Callable[[], str]]:
    """Run a command line that goes on; yields what waits for its next line on either output."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mcp_sync.cli", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=child_environment(),
        encoding="utf-8",
    )
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield lambda: lines.get(timeout=60)
    finally:
        process.kill()
        process.wait()
        reader.join()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.timeout(200)
@pytest.mark.parametrize(("maker", "mode"), [("sdk2", "auto")])
def test_one_watches_what_another_one_changes(
    maker: str, mode: str, http_servers: dict[str, HttpServer]
) -> None:
    if maker not in http_servers:
        script = str(SERVERS / f"{maker}_server.py")
        words = [str(install.venv_python(maker)), "-W", "ignore", script, "http"]
        http_servers[maker] = HttpServer.printing_its_port(words)
    url, note = http_servers[maker].url(), "note://hello"
    with watching("listen", url, "--tools", "--resource", note, "--mode", mode) as line:
        assert line() == "Watching; Ctrl-C ends it.\n"
        ok(run("call", url, "touch", f"uri={note}", "--mode", mode))
        assert line() == f"changed: {note}\n"
        ok(run("call", url, "relist", "--mode", mode))
        assert line() == "the list of tools has changed\n"
    assert ok(run("complete", url, "greet", "name=Al")).out == "Albert\nAlice\n"
    assert ok(run("complete", url, "greeting://{name}", "name=Z")).out == "Zoë\n"

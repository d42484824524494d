"""The commands for resources, prompts, completion, tasks, skills, ping and information."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke

from mcp_sync.cli.demo_server import build
from mcp_sync.testing import FakeResource, FakeServer, FakeTool, RpcError

PNG = b"\x89PNG\r\n\x1a\nnot much of an image"


def picture() -> list[dict[str, Any]]:
    data = base64.b64encode(PNG).decode()
    return [{"type": "image", "mimeType": "image/png", "data": data}, {"type": "text", "text": "look"}]


@pytest.fixture
def server() -> FakeServer:
    return build()


@pytest.fixture
def url(server: FakeServer) -> Iterator[str]:
    with server.serve_http() as endpoint:
        yield endpoint.url


def test_resources_are_listed_with_their_templates(url: str) -> None:
    ran = invoke("resources", url)

    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "demo://readme [text/markdown]\ndemo://notes/{name} [text/plain]\n"
    listed = invoke("resources", url, "--json").json
    assert [each["uri"] for each in listed["resources"]] == ["demo://readme"]
    assert [each["uriTemplate"] for each in listed["resourceTemplates"]] == ["demo://notes/{name}"]


@pytest.mark.parametrize("kind", ["tools", "resources", "prompts"])
def test_a_server_without_a_list_has_nothing(server: FakeServer, url: str, kind: str) -> None:
    def unknown(message: Any) -> Any:
        raise RpcError(-32601, "Method not found")

    server.on(f"{kind}/list", unknown)
    if kind == "resources":
        server.on("resources/templates/list", unknown)
    ran = invoke(kind, url)

    assert (ran.code, ran.out, ran.err) == (0, "", f"The server has no {kind}.\n")


def test_several_resources_are_read_one_after_another(url: str) -> None:
    ran = invoke("read", url, "demo://notes/a", "demo://notes/b")

    assert (ran.code, ran.out) == (0, "This is the note 'a'.\nThis is the note 'b'.\n")
    contents = invoke("read", "--json", url, "demo://notes/a", "demo://notes/b").json["contents"]
    assert [each["uri"] for each in contents] == ["demo://notes/a", "demo://notes/b"]


def test_a_resource_that_is_not_there_exits_with_5(url: str) -> None:
    ran = invoke("read", url, "demo://nothing")

    assert ran.code == 5
    assert "demo://nothing" in ran.err


def test_a_blob_is_named_on_the_screen_and_saved_under_a_safe_name(
    server: FakeServer, url: str, tmp_path: Path
) -> None:
    server.add_resource("demo://x/..%2F..%2Fevil.png", FakeResource(PNG, mime_type="image/png"))
    folder = tmp_path / "out"
    ran = invoke("read", url, "demo://x/..%2F..%2Fevil.png", "--save", str(folder))

    assert ran.code == 0
    assert ran.out.startswith("[resource demo://x/")
    (saved,) = folder.iterdir()
    assert saved.read_bytes() == PNG
    assert ran.err == f"saved {saved}\n"
    again = invoke("read", url, "demo://x/..%2F..%2Fevil.png", "--save", str(folder))
    assert again.code == 2
    assert "is there already" in again.err


def test_images_of_a_tool_are_saved(server: FakeServer, url: str, tmp_path: Path) -> None:
    server.add_tool(picture)
    ran = invoke("call", url, "picture", "--save", str(tmp_path / "out"))

    assert (ran.code, ran.out) == (0, f"[image image/png, {len(PNG)} bytes]\nlook\n")
    assert (tmp_path / "out" / "image-1.png").read_bytes() == PNG


def test_an_image_that_is_no_base64_exits_with_5(server: FakeServer, url: str, tmp_path: Path) -> None:
    server.add_tool(lambda: [{"type": "image", "mimeType": "image/png", "data": "%%%%"}], "broken")
    ran = invoke("call", url, "broken", "--save", str(tmp_path / "out"))

    assert ran.code == 5
    assert "no base64" in ran.err


def test_a_prompt_is_filled_in(url: str) -> None:
    assert invoke("prompts", url).out.startswith("review(code, language?)\n")
    ran = invoke("prompt", url, "review", "code=1", "language=Go")

    assert (ran.code, ran.out) == (0, "user: Please review this Go code:\n\n1\n")


def test_an_argument_of_a_prompt_is_a_text(url: str) -> None:
    ran = invoke("prompt", url, "review", "code:=1")

    assert ran.code == 2
    assert "code: the argument of a prompt must be a text, not int" in ran.err


def test_completions_come_one_to_a_line(server: FakeServer, url: str) -> None:
    asked = []

    def suggest(reference: Any, argument: Any, context: Any) -> list[str]:
        asked.append((reference, argument, context))
        return ["Python", "Pascal"]

    server.complete = suggest
    ran = invoke("complete", url, "review", "language=P", "code=x")
    invoke("complete", url, "demo://notes/{name}", "name=")

    assert (ran.code, ran.out) == (0, "Python\nPascal\n")
    assert asked[0][0]["type"] == "ref/prompt"
    assert asked[0][1] == {"name": "language", "value": "P"}
    assert asked[0][2] == {"code": "x"}
    assert asked[1][0] == {"type": "ref/resource", "uri": "demo://notes/{name}"}


def test_ping_tells_how_long_it_took(url: str) -> None:
    for mode in ("2026-07-28", "2025-11-25"):
        ran = invoke("ping", url, "--mode", mode)
        assert ran.code == 0
        assert ran.out.startswith("answered in ")
    assert invoke("ping", url, "--json").json["milliseconds"] > 0


def test_info_shows_what_the_server_says_about_itself(url: str) -> None:
    ran = invoke("info", url)

    assert ran.code == 0
    assert "mcp-sync-demo" in ran.out
    assert "2026-07-28" in ran.out
    assert ran.out.endswith("A server to try a client on.\n")
    told = invoke("info", url, "--json", "--mode", "legacy").json
    assert told["protocolVersion"] == "2025-11-25"
    assert told["serverInfo"]["name"] == "mcp-sync-demo"


def test_what_the_server_says_about_itself_cannot_drive_a_terminal_behind_a_pipe() -> None:
    server = FakeServer(instructions="Go\x1b]0;title\x07", server_info={"name": "a\x1b[31mb", "version": "1"})
    with server.serve_http() as endpoint:
        ran = invoke("info", endpoint.url)

    assert ran.code == 0
    assert "a\\x1b[31mb 1\n" in ran.out
    assert ran.out.endswith("  Go\\x1b]0;title\\x07\n")


def test_events_are_printed_as_they_come(server: FakeServer, url: str) -> None:
    def change() -> None:
        server.wait_for_subscriptions()
        server.tools_changed()

    changing = threading.Thread(target=change)
    changing.start()
    ran = invoke("listen", url, "--count", "1", "--json")
    changing.join()

    assert (ran.code, ran.out) == (0, '{"event": "tools_changed"}\n')


def test_a_watched_resource_is_named(server: FakeServer, url: str) -> None:
    def change() -> None:
        server.wait_for_subscriptions()
        server.resource_updated("demo://readme")

    changing = threading.Thread(target=change)
    changing.start()
    ran = invoke("listen", url, "--resource", "demo://readme", "--count", "1")
    changing.join()

    assert (ran.code, ran.out) == (0, "changed: demo://readme\n")


def test_watching_ends_well_when_its_time_is_over(url: str) -> None:
    ran = invoke("listen", url, "--timeout", "1")

    assert (ran.code, ran.out) == (0, "")


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
def test_a_call_can_be_left_alone_and_come_back_to(server: FakeServer, url: str, mode: str) -> None:
    go = threading.Event()

    def slow() -> str:
        go.wait(20)
        return "done"

    server.add_tool(FakeTool(slow, task=True))
    began = invoke("call", "--detach", url, "slow", "--mode", mode)
    task = began.out.strip()
    assert (began.code, bool(task)) == (0, True)
    assert invoke("tasks", "get", url, task, "--mode", mode).out == f"{task} working\n"
    go.set()
    ran = invoke("tasks", "result", url, task, "--mode", mode)
    assert (ran.code, ran.out) == (0, "done\n")
    state = invoke("tasks", "get", "--json", url, task, "--mode", mode).json
    assert (state["taskId"], state["status"]) == (task, "completed")


def test_a_task_is_cancelled(server: FakeServer, url: str) -> None:
    def slow(context: Any) -> str:
        context.cancelled.wait(20)
        return "given up"

    server.add_tool(FakeTool(slow, task=True))
    task = invoke("call", "--detach", "--json", url, "slow").json["taskId"]
    ran = invoke("tasks", "cancel", url, task)

    assert ran.code == 0
    assert ran.out.startswith(f"{task} cancelled")


def test_a_call_that_is_answered_at_once_needs_no_coming_back(url: str) -> None:
    assert invoke("call", "--detach", url, "add", "a=1", "b=2").out == '{"sum": 3}\n'


def test_a_task_that_nobody_knows_exits_with_5(url: str) -> None:
    ran = invoke("tasks", "get", url, "nothing")

    assert ran.code == 5
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("mode", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    "words", [["tools"], ["resources"], ["prompts"], ["skills", "list"], ["tasks", "list"]]
)
def test_a_list_of_what_a_server_has_none_of_is_empty(words: list[str], mode: str) -> None:
    server = FakeServer()
    with server.serve_http() as endpoint:
        ran = invoke(*words, endpoint.url, "--mode", mode)
        told = invoke(*words, "--json", endpoint.url, "--mode", mode)
    if words[0] == "tasks" and mode == "2026-07-28":
        # There is no such list, and there may be tasks.
        assert (ran.code, told.code) == (2, 2)
        return
    assert (ran.code, ran.out, told.code) == (0, "", 0)
    assert ran.err in (f"The server has no {words[0]}.\n", f"The server knows no {words[0]}.\n")
    assert told.json[words[0]] == []


def test_skills_are_listed_read_and_downloaded(server: FakeServer, url: str, tmp_path: Path) -> None:
    server.add_skill("acme/refunds", "# Refunds", description="How to", files={"a/mail.md": "Dear"})

    ran = invoke("skills", "list", url)
    assert ran.code == 0
    assert ran.out.startswith("skill://acme/refunds/SKILL.md [2 files, ")
    assert invoke("skills", "list", url, "--json").json["skills"][0]["name"] == "refunds"
    assert invoke("skills", "read", url, "acme/refunds", "a/mail.md").out == "Dear\n"
    ran = invoke("skills", "download", url, "acme/refunds", str(tmp_path / "new"))
    assert ran.code == 0
    assert ran.out == f"{tmp_path / 'new'}\n"
    assert (tmp_path / "new" / "a" / "mail.md").read_text() == "Dear"


def test_an_unknown_skill_is_no_bug(server: FakeServer, url: str) -> None:
    server.add_skill("acme/refunds")
    ran = invoke("skills", "read", url, "acme/nothing")

    assert ran.code == 5
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ["read", "http://host"],
        ["prompt", "http://host"],
        ["complete", "http://host", "x"],
        ["tasks", "get", "http://host"],
        ["tasks", "nonsense"],
        ["skills", "read", "http://host"],
        ["skills", "download", "http://host", "x"],
        ["listen", "http://host", "--count", "0"],
        ["ping", "http://host", "more"],
    ],
)
def test_wrong_use_exits_with_2(words: list[str]) -> None:
    ran = invoke(*words)

    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err


def test_odd_names_are_called_and_shown(server: FakeServer, url: str) -> None:
    for name in ("two words", "a/b", "\U0001f980", "\u00e9t\u00e9"):
        server.add_tool(lambda: "here", name)
        assert invoke("call", url, name).out == "here\n"
    assert "\U0001f980()" in invoke("tools", url).out


def test_control_characters_of_a_list_are_escaped(server: FakeServer, url: str) -> None:
    server.add_tool(FakeTool(lambda: "", name="x", description="\x1b[31mred\x9b2J\u202e"))
    out = invoke("tools", url).out

    assert "\\x1b[31mred\\x9b2J" in out
    assert "\x1b" not in out


def test_a_name_with_a_line_break_does_not_look_like_two(server: FakeServer, url: str) -> None:
    server.add_tool(lambda: "", "one()\ntwo")

    assert "one()\\ntwo()\n" in invoke("tools", url).out


def test_control_characters_in_json_and_in_complaints_are_escaped(server: FakeServer, url: str) -> None:
    schema = {"properties": {"evil\x9b2J\x1b[1m": {}}, "additionalProperties": False}
    server.add_tool(FakeTool(lambda: "a\x9bb\u202ec", name="x", input_schema={"type": "object", **schema}))
    ran = invoke("call", "--json", url, "x")

    assert ran.json["content"][0]["text"] == "a\x9bb\u202ec"
    assert not {"\x9b", "\u202e"} & set(ran.out)
    ran = invoke("call", url, "x", "b=1")
    assert ran.code == 2
    assert "b: no such argument; there are: evil\\x9b2J" in ran.err
    assert not {"\x9b", "\x1b"} & set(ran.err)


def test_a_trace_shows_messages_and_hides_secrets(url: str) -> None:
    ran = invoke("call", url, "fail", "message=hello", "--trace", "--header", "X-Key: sesame")

    assert "> tools/call" in ran.err
    assert '"message": "hello"' in ran.err
    assert "sesame" not in ran.err

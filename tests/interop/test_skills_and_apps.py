"""Skills and apps of other makers' servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import Client, InvalidParams, Stdio
from mcp_sync.apps import Apps, app_tools, model_tools
from mcp_sync.skills import Skills
from mcp_sync.skills._manifest import MANIFEST

from .harness import HANDSHAKE, MODERN, HttpServer
from .install import venv_python

HERE = Path(__file__).parent
VENVS = {"fastmcp4skills": "fastmcp4", "sdk2apps": "sdk2"}
pytestmark = pytest.mark.interop


def command(maker: str, transport: str) -> list[str]:
    script = HERE / "servers" / f"{maker}_server.py"
    return [str(venv_python(VENVS[maker])), "-W", "ignore", str(script), transport]


def among(*makers: str) -> Any:
    """Run a test against the servers of these makers, over both transports."""
    peers = [(maker, way) for maker in makers for way in ("stdio", "http")]
    return pytest.mark.parametrize("peer", peers, indirect=True, ids="-".join, scope="module")


@pytest.fixture(scope="module")
def peer(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give the target of a server."""
    maker, transport = request.param
    if transport == "stdio":
        program, *arguments = command(maker, "stdio")
        yield Stdio(program, arguments)
        return
    server = HttpServer.printing_its_port(command(maker, "http"))
    yield server.url()
    server.end()


@pytest.fixture
def skilled(peer: Any) -> Iterator[Client]:
    with Client(peer, extensions=[Skills()], timeout=30) as client:
        yield client


@among("fastmcp4skills")
def test_skills_are_listed_and_verified_with_front_matter_as_people_write_it(skilled: Client) -> None:
    skills = {skill.uri: skill for skill in skilled.skills.list()}
    assert set(skills) == {"skill://acme/refunds/SKILL.md", "skill://plain/SKILL.md"}
    refunds = skills["skill://acme/refunds/SKILL.md"]
    assert refunds.description == "Refund customers: by the rules, and kindly\nor not at all"
    assert skilled.skills.read(refunds).text.endswith("See templates/mail.md\n")
    assert skilled.skills.read(refunds, "all bytes.bin").data == bytes(range(256))
    assert skilled.skills.get("plain").description == "Nothing more"
    with pytest.raises(InvalidParams):
        skilled.skills.get("nope")


@among("fastmcp4skills")
def test_a_skill_is_downloaded(skilled: Client, tmp_path: Path) -> None:
    folder = skilled.skills.download("acme/refunds", tmp_path / "refunds")
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == {"SKILL.md", MANIFEST, "templates/mail.md", "all bytes.bin"}
    assert (folder / "all bytes.bin").read_bytes() == bytes(range(256))


@among("fastmcp4skills", "sdk2apps")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_page_is_read_with_its_policy(peer: Any, mode: str) -> None:
    with Client(peer, extensions=[Apps()], mode=mode, timeout=30) as client:
        assert client.protocol_version == (MODERN if mode == "auto" else HANDSHAKE)
        tools = list(client.tools())
        assert [tool.name for tool in model_tools(tools)] == ["forecast"]
        assert [tool.name for tool in app_tools(tools)] == ["forecast", "refresh"]
        app = client.app(tools[0])
    assert app.html == "<!DOCTYPE html><p>Weather"
    assert "connect-src https://api.example;" in app.csp
    assert "script-src 'unsafe-inline' https://*.cdn.example;" in app.csp
    assert (app.permissions, app.prefers_border) == (("geolocation",), True)


@among("sdk2apps")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(("extensions", "answer"), [([Apps()], "shown"), ([], "told")])
def test_a_server_knows_who_can_show_its_pages(
    peer: Any, mode: str, extensions: list[Any], answer: str
) -> None:
    with Client(peer, extensions=extensions, mode=mode, timeout=30) as client:
        assert client.call_tool("forecast").text == answer

"""Skills of the fake server, in plain messages."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from plain_peer import PREFIX, Message, Peer

from mcp_sync._protocol.versions import LATEST_HANDSHAKE, LATEST_MODERN
from mcp_sync.testing import FakeServer

SKILLS = f"{PREFIX}skills"


@pytest.fixture
def server() -> FakeServer:
    server = FakeServer(ttl_ms=5, cache_scope="public")
    server.add_skill(
        "acme/refunds",
        "# Refunds",
        description="Refund: by the rules",
        files={"templates/mail.md": "Dear", "templates/eu/mail.md": "Cher", "logo.png": b"\x89PNG\xff"},
        frontmatter={"license": "MIT", "metadata": {"version": "1"}},
    )
    server.add_skill("acme/refunds/nested", listed=False)
    server.add_skill("github://owner/daily", dynamic=True)
    return server


@pytest.fixture
def peer(server: FakeServer) -> Peer:
    return Peer(server, LATEST_MODERN)


def content_of(peer: Peer, uri: str) -> bytes:
    [contents] = peer.result("resources/read", uri=uri)["contents"]
    return base64.b64decode(contents["blob"]) if "blob" in contents else contents["text"].encode()


def listed(peer: Peer) -> dict[str, Any]:
    return {skill["uri"]: skill for skill in peer.result("skills/list")["skills"]}


def test_the_extension_is_declared_with_resources(peer: Peer) -> None:
    capabilities = peer.result("server/discover")["capabilities"]
    assert capabilities["extensions"] == {SKILLS: {"directoryRead": True}}
    assert "resources" in capabilities


def test_skills_are_listed_with_their_front_matter(peer: Peer) -> None:
    result = peer.result("skills/list")
    assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 5, "public")
    assert list(listed(peer)) == ["skill://acme/refunds/SKILL.md", "github://owner/daily/SKILL.md"]
    assert listed(peer)["skill://acme/refunds/SKILL.md"]["frontmatter"] == {
        "name": "refunds",
        "description": "Refund: by the rules",
        "license": "MIT",
        "metadata": {"version": "1"},
    }
    assert listed(peer)["github://owner/daily/SKILL.md"]["resources"] == "dynamic"


def test_every_file_is_there_with_its_digest_and_size(peer: Peer) -> None:
    manifest = listed(peer)["skill://acme/refunds/SKILL.md"]["resources"]
    assert {item["uri"].partition("refunds/")[2] for item in manifest} == {
        "SKILL.md",
        "templates/mail.md",
        "templates/eu/mail.md",
        "logo.png",
        "nested/SKILL.md",
    }
    for item in manifest:
        data = content_of(peer, item["uri"])
        assert item["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert item["size"] == len(data)


def test_the_file_of_a_skill_begins_with_its_front_matter(peer: Peer) -> None:
    text = content_of(peer, "skill://acme/refunds/SKILL.md").decode()
    assert text.startswith('---\nname: "refunds"\ndescription: "Refund: by the rules"\nlicense: "MIT"\n')
    assert text.endswith("---\n\n# Refunds\n")


def test_the_resource_of_a_skill_is_named_after_it(peer: Peer) -> None:
    resources = {item["uri"]: item for item in peer.result("resources/list")["resources"]}
    skill = resources["skill://acme/refunds/SKILL.md"]
    assert (skill["name"], skill["mimeType"]) == ("refunds", "text/markdown")
    assert skill["description"] == "Refund: by the rules"
    assert resources["skill://acme/refunds/logo.png"]["mimeType"] == "image/png"


def test_a_skill_that_is_not_listed_is_found_by_its_uri(peer: Peer) -> None:
    result = peer.result("skills/get", uri="skill://acme/refunds/nested/SKILL.md")
    assert result["skill"]["frontmatter"]["name"] == "nested"
    assert len(result["skill"]["resources"]) == 1
    assert result["ttlMs"] == 5


@pytest.mark.parametrize("uri", ["skill://nope/SKILL.md", "skill://acme/refunds", None])
def test_an_unknown_skill_is_refused(uri: Any, peer: Peer) -> None:
    assert peer.error("skills/get", uri=uri)["code"] == -32602


def test_skills_come_page_by_page(server: FakeServer, peer: Peer) -> None:
    server.page_size = 1
    first = peer.result("skills/list")
    assert len(first["skills"]) == 1
    assert len(peer.result("skills/list", cursor=first["nextCursor"])["skills"]) == 1


def test_folders_can_be_read(peer: Peer) -> None:
    root = peer.result("resources/directory/read", uri="skill://acme/refunds")["resources"]
    assert {(item["name"], item["mimeType"]) for item in root} == {
        ("refunds", "text/markdown"),
        ("templates", "inode/directory"),
        ("logo.png", "image/png"),
        ("nested", "inode/directory"),
    }
    inside = peer.result("resources/directory/read", uri="skill://acme/refunds/templates")["resources"]
    assert [item["uri"].rpartition("templates/")[2] for item in inside] == ["mail.md", "eu"]


@pytest.mark.parametrize(
    "uri", ["skill://acme/refunds/", "skill://acme/refunds/SKILL.md", "skill://acme", ""]
)
def test_what_is_no_folder_of_a_skill_is_refused(uri: str, peer: Peer) -> None:
    assert peer.error("resources/directory/read", uri=uri)["code"] == -32602


def test_a_server_may_leave_folders_out() -> None:
    server = FakeServer(extensions={SKILLS: {}})
    server.add_skill("a")
    peer = Peer(server, LATEST_MODERN)
    assert peer.result("server/discover")["capabilities"]["extensions"] == {SKILLS: {}}
    assert peer.error("resources/directory/read", uri="skill://a")["code"] == -32601


def test_an_entry_can_be_wrong() -> None:
    def escaping(entry: Message) -> Message:
        extra = {"uri": "skill://a/../../etc/passwd", "digest": "sha256:0", "size": 10**10}
        return {**entry, "resources": [*entry["resources"], extra]}

    server = FakeServer()
    server.add_skill("a", alter=escaping)
    peer = Peer(server, LATEST_MODERN)
    [entry] = listed(peer).values()
    assert entry["resources"][1]["size"] == 10**10
    assert peer.result("skills/get", uri=entry["uri"])["skill"] == entry


def test_a_file_can_be_changed_behind_its_digest(server: FakeServer, peer: Peer) -> None:
    uri = "skill://acme/refunds/templates/mail.md"
    before = listed(peer)
    server.add_resource(uri, "Dear Sir")
    assert content_of(peer, uri) == b"Dear Sir"
    assert listed(peer) == before


@pytest.mark.parametrize("method", ["skills/list", "skills/get", "resources/directory/read"])
def test_without_skills_or_with_a_handshake_the_methods_are_not_found(
    method: str, server: FakeServer
) -> None:
    assert Peer(FakeServer(), LATEST_MODERN).error(method, uri="skill://a")["code"] == -32601
    assert Peer(server, LATEST_HANDSHAKE).error(method, uri="skill://a")["code"] == -32601

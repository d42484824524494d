"""Skills of a server: listed, got and read, each byte verified, and nothing fetched ahead of need."""

from __future__ import annotations

import copy
import hashlib
import logging
import pickle
from collections.abc import Iterator
from typing import Any, Callable

import pytest

from mcp_sync import (
    CacheOptions,
    Client,
    DigestMismatch,
    InMemory,
    InvalidParams,
    InvalidResult,
    MessageTooLarge,
    NotSupported,
    SkillRejected,
    UsageError,
)
from mcp_sync.options import Limits
from mcp_sync.skills import Skill, Skills, skills_of
from mcp_sync.testing import FakeServer

IDENTIFIER = "io.modelcontextprotocol/skills"
REFUNDS = "skill://acme/refunds/SKILL.md"
Message = dict[str, Any]
Alter = Callable[[Message], Message]


@pytest.fixture
def server() -> FakeServer:
    server = FakeServer()
    server.add_skill(
        "acme/refunds",
        "# Refunds",
        description="Refund: by the rules",
        files={"templates/mail.md": "Dear", "logo.png": b"\x89PNG\xff", "empty.txt": ""},
        frontmatter={"license": "MIT", "metadata": {"version": "1.0"}, "allowed-tools": ["Bash"]},
    )
    return server


@pytest.fixture
def client(server: FakeServer) -> Iterator[Client]:
    with Client(InMemory(server), extensions=[Skills()]) as client:
        yield client


def altered(alter: Alter, **options: Any) -> FakeServer:
    server = FakeServer()
    server.add_skill("a", files={"b.md": "b"}, alter=alter, **options)
    return server


def open_client(server: FakeServer, **options: Any) -> Client:
    return Client(InMemory(server), extensions=[Skills()], **options)


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


# --- lists and entries -------------------------------------------------------------------------------------


def test_skills_are_listed_over_all_pages_and_nothing_of_them_is_fetched(
    server: FakeServer, client: Client
) -> None:
    server.page_size = 1
    server.add_skill("github://owner/daily", dynamic=True)
    refunds, daily = client.skills.list()
    assert (refunds.uri, refunds.name, refunds.description) == (REFUNDS, "refunds", "Refund: by the rules")
    assert refunds.front_matter["allowed-tools"] == ["Bash"]
    assert refunds.files is not None
    assert set(refunds.files) == {"SKILL.md", "templates/mail.md", "logo.png", "empty.txt"}
    assert refunds.files["templates/mail.md"].digest == digest(b"Dear")
    assert refunds.size == sum(file.size for file in refunds.files.values())
    assert (daily.name, daily.files, daily.size, daily.fingerprint) == ("daily", None, 0, None)
    assert server.count("resources/read") == server.count("skills/get") == 0
    assert server.count("skills/list") == 2


def test_a_skill_is_got_by_its_uri_or_its_path_listed_or_not(server: FakeServer, client: Client) -> None:
    server.add_skill("hidden", listed=False)
    assert [skill.name for skill in client.skills.list()] == ["refunds"]
    assert client.skills.get("skill://hidden/SKILL.md").name == "hidden"
    assert client.skills.get("acme/refunds") == next(client.skills.list())
    assert skills_of(client).get("hidden").uri == "skill://hidden/SKILL.md"
    assert server.count("resources/read") == 0


def test_an_unknown_skill_is_what_the_server_says(client: Client) -> None:
    with pytest.raises(InvalidParams):
        client.skills.get("skill://nope/SKILL.md")


def test_a_skill_is_a_value(client: Client) -> None:
    skill = client.skills.get(REFUNDS)
    for twin in (pickle.loads(pickle.dumps(skill)), copy.deepcopy(skill)):
        assert twin == skill
        assert hash(twin) == hash(skill)
        assert twin.fingerprint == skill.fingerprint
    with pytest.raises(TypeError):
        skill.front_matter["name"] = "x"  # type: ignore[index]


def test_the_fingerprint_changes_with_any_file(server: FakeServer, client: Client) -> None:
    before = client.skills.get(REFUNDS)
    server.add_skill("acme/refunds/nested")
    after = client.skills.get(REFUNDS)
    assert after.fingerprint != before.fingerprint
    assert client.skills.get(REFUNDS).fingerprint == after.fingerprint


@pytest.mark.parametrize("kind", ["none", "old"])
def test_a_server_that_declares_no_skills_is_not_asked(kind: str) -> None:
    server = FakeServer() if kind == "none" else FakeServer(versions=["2025-11-25"])
    if kind == "old":
        server.add_skill("a")
    with open_client(server) as client:
        for attempt in (client.skills.list, lambda: client.skills.get("a"), lambda: client.skills.read("a")):
            with pytest.raises(NotSupported, match="no skills"):
                attempt()
        assert server.count("skills/list") == server.count("skills/get") == 0


def test_a_server_that_was_not_asked_what_it_offers_is_asked_then(server: FakeServer) -> None:
    with open_client(server, mode="2026-07-28") as client:
        assert server.count("server/discover") == 0
        assert client.skills.get(REFUNDS).name == "refunds"
        assert server.count("server/discover") == 1


def test_a_client_without_the_extension_says_how_to_get_it(server: FakeServer) -> None:
    with Client(InMemory(server)) as client, pytest.raises(UsageError, match=r"extensions=\[.*Skills\(\)"):
        _ = client.skills


def resources(change: Callable[[list[Message]], Any]) -> Alter:
    def alter(entry: Message) -> Message:
        listed = copy.deepcopy(entry["resources"])
        changed = change(listed)
        return {**entry, "resources": listed if changed is None else changed}

    return alter


def with_path(uri: str) -> Alter:
    return resources(lambda listed: listed.append({"uri": uri, "digest": digest(b""), "size": 0}))


def put(name: str, value: Any) -> Alter:
    return resources(lambda listed: listed[1].update({name: value}))


def without(name: str) -> Alter:
    return lambda entry: {key: value for key, value in entry.items() if key != name}


def front(**fields: Any) -> Alter:
    return lambda entry: {**entry, "frontmatter": {**entry["frontmatter"], **fields}}


BAD_ENTRIES: dict[str, tuple[Alter, str]] = {
    "no uri": (without("uri"), "entry"),
    "no object": (lambda entry: [], "entry"),  # type: ignore[arg-type,return-value]
    "no front matter": (without("frontmatter"), "entry"),
    "front matter that is a list": (lambda entry: {**entry, "frontmatter": []}, "entry"),
    "no name": (front(name=None), "entry"),
    "another name than its folder": (front(name="b"), "entry"),
    "a name with a slash": (front(name="a/b"), "entry"),
    "a name with capitals": (front(name="A"), "entry"),
    "a name that is too long": (front(name="a" * 65), "entry"),
    "no description": (front(description=" "), "entry"),
    "another file": (lambda entry: {**entry, "uri": "skill://a/OTHER.md"}, "entry"),
    "a query": (lambda entry: {**entry, "uri": "skill://a/SKILL.md?x"}, "entry"),
    "no resources": (without("resources"), "entry"),
    "resources that are a word": (lambda entry: {**entry, "resources": "static"}, "entry"),
    "resources without the first": (resources(lambda listed: listed[1:]), "entry"),
    "a file twice": (resources(lambda listed: listed * 2), "entry"),
    "a file twice, escaped": (with_path("skill://a/%62.md"), "entry"),
    "a file without a uri": (put("uri", None), "entry"),
    "no digest": (put("digest", None), "entry"),
    "a digest in capitals": (put("digest", "sha256:" + "A" * 64), "entry"),
    "a digest with a line break": (put("digest", "sha256:" + "a" * 64 + "\n"), "entry"),
    "another algorithm": (put("digest", "md5:" + "a" * 32), "entry"),
    "no size": (put("size", None), "entry"),
    "a size below zero": (put("size", -1), "entry"),
    "a size of 400 digits": (put("size", 10**400), "entry"),
    "a size that is true": (put("size", True), "entry"),
    "a size that is a fraction": (put("size", 1.5), "entry"),
    "another skill's file": (with_path("skill://b/x"), "path"),
    "a folder that only begins alike": (with_path("skill://abc/x"), "path"),
    "a way up": (with_path("skill://a/../b"), "path"),
    "a way up, escaped": (with_path("skill://a/%2e%2E/b"), "path"),
    "a slash, escaped": (with_path("skill://a/x%2f..%2f..%2fb"), "path"),
    "a way up of Windows": (with_path("skill://a/..\\..\\b"), "path"),
    "a backslash, escaped": (with_path("skill://a/..%5cb"), "path"),
    "an absolute path": (with_path("skill://a//etc/passwd"), "path"),
    "here": (with_path("skill://a/./b"), "path"),
    "the folder itself": (with_path("skill://a/"), "path"),
    "a zero byte": (with_path("skill://a/b%00.md"), "path"),
    "an escape that is none": (with_path("skill://a/b%zz"), "path"),
    "an escape that is no UTF-8": (with_path("skill://a/b%ff"), "path"),
    "a file with a query": (with_path("skill://a/x?y"), "path"),
}


@pytest.mark.parametrize("case", BAD_ENTRIES)
def test_an_entry_that_is_wrong_is_refused_and_says_so(case: str) -> None:
    alter, reason = BAD_ENTRIES[case]
    server = altered(alter)
    server.add_skill("good")
    with open_client(server) as client:
        refused: list[SkillRejected] = []
        assert [skill.name for skill in client.skills.list(on_rejected=refused.append)] == ["good"]
        assert [error.reason for error in refused] == [reason]
        with pytest.raises(SkillRejected) as caught:
            client.skills.get("a")
        assert caught.value.reason == reason or case in ("another file", "a query")
        assert server.count("resources/read") == 0


def test_without_anybody_to_tell_it_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with open_client(altered(front(name="b"))) as client, caplog.at_level(logging.WARNING):
        assert list(client.skills.list()) == []
    assert "must not be used" in caplog.text
    assert "skill://a/SKILL.md" in caplog.text


def test_a_server_that_describes_another_skill_than_it_was_asked_for_is_refused() -> None:
    server = FakeServer()
    server.add_skill("b")
    other = server.skills["skill://b/SKILL.md"]
    server.add_skill(
        "a",
        alter=lambda entry: {
            "uri": other.uri,
            "frontmatter": dict(other.frontmatter),
            "resources": "dynamic",
        },
    )
    with open_client(server) as client, pytest.raises(SkillRejected, match="was asked for"):
        client.skills.get("a")


@pytest.mark.parametrize("skills", [None, {}, "x"])
def test_a_result_without_a_list_is_malformed(server: FakeServer, client: Client, skills: Any) -> None:
    server.on("skills/list", lambda message: {"skills": skills})
    with pytest.raises(InvalidResult, match="skills/list is malformed: skills: "):
        list(client.skills.list())


# --- reading -----------------------------------------------------------------------------------------------


def test_only_the_file_that_is_asked_for_is_read(server: FakeServer, client: Client) -> None:
    skill = client.skills.get(REFUNDS)
    body = client.skills.read(skill)
    assert (body.path, body.uri, body.mime_type, body.verified) == (
        "SKILL.md",
        REFUNDS,
        "text/markdown",
        True,
    )
    assert body.text.endswith("# Refunds\n")
    assert client.skills.read(skill, "logo.png").data == b"\x89PNG\xff"
    assert client.skills.read(skill, "empty.txt").text == ""
    assert [message["params"]["uri"] for message in server.received("resources/read")] == [
        REFUNDS,
        "skill://acme/refunds/logo.png",
        "skill://acme/refunds/empty.txt",
    ]
    assert server.count("skills/get") == 1


def test_a_skill_that_is_only_named_is_got_first(server: FakeServer, client: Client) -> None:
    assert client.skills.read("acme/refunds", "templates/mail.md").text == "Dear"
    assert server.count("skills/get") == 1


def test_a_file_that_is_not_in_the_entry_is_not_read(server: FakeServer, client: Client) -> None:
    skill = client.skills.get(REFUNDS)
    server.add_resource("skill://acme/refunds/new.md", "new")
    for path in ("new.md", "../refunds/SKILL.md", "/SKILL.md", "templates", ""):
        with pytest.raises(SkillRejected, match="does not list") as caught:
            client.skills.read(skill, path)
        assert (caught.value.reason, caught.value.path) == ("unlisted", path)
    assert server.count("resources/read") == 0


def test_a_file_that_changed_since_the_entry_is_refused(server: FakeServer, client: Client) -> None:
    [skill] = client.skills.list()
    server.add_resource("skill://acme/refunds/templates/mail.md", "Sell")
    with pytest.raises(DigestMismatch, match="get\\(\\) it again") as caught:
        client.skills.read(skill, "templates/mail.md")
    error = caught.value
    assert (error.reason, error.expected, error.actual) == ("digest", digest(b"Dear"), digest(b"Sell"))
    assert (error.uri, error.path) == (REFUNDS, "templates/mail.md")


def test_a_file_of_another_size_is_refused(server: FakeServer, client: Client) -> None:
    [skill] = client.skills.list()
    server.add_resource("skill://acme/refunds/templates/mail.md", "Dear all")
    with pytest.raises(DigestMismatch) as caught:
        client.skills.read(skill, "templates/mail.md")
    assert (caught.value.reason, caught.value.expected, caught.value.actual) == ("size", "4", "8")


def test_a_file_that_was_kept_and_is_older_than_the_entry_is_fetched_anew() -> None:
    server = FakeServer(ttl_ms=60_000)
    server.add_skill("a", files={"b.md": "old"})
    with open_client(server, cache=CacheOptions()) as client:
        assert client.skills.read("a", "b.md").text == client.skills.read("a", "b.md").text == "old"
        assert server.count("resources/read") == 1
        server.add_skill("a", files={"b.md": "new"})
        assert client.skills.read("a", "b.md").text == "new"
        assert server.count("resources/read") == 2
        server.add_resource("skill://a/b.md", "odd")
        assert client.skills.read("a", "b.md").text == "new"
        client.read_resource("skill://a/b.md", cache="refresh")
        with pytest.raises(DigestMismatch):
            client.skills.read("a", "b.md")


def test_lists_and_entries_are_kept_for_as_long_as_the_server_says() -> None:
    server = FakeServer(ttl_ms=60_000)
    server.add_skill("a", files={"b.md": "b"})
    with open_client(server, cache=CacheOptions()) as client:
        for _ in range(2):
            [skill] = client.skills.list()
            assert client.skills.get("a") == skill
        assert (server.count("skills/list"), server.count("skills/get")) == (1, 1)
        assert list(client.skills.list(cache="refresh")) == [client.skills.get("a", cache="bypass")]
        assert (server.count("skills/list"), server.count("skills/get")) == (2, 2)
        client.cache.clear("skills/get")
        client.skills.get("a")
        assert server.count("skills/get") == 3
        # What is read by name is verified against what the server says now.
        client.skills.read("a", "b.md")
        assert server.count("skills/get") == 4
    with open_client(server) as client:
        assert client.skills.get("a") == client.skills.get("a")
    assert server.count("skills/get") == 6


def test_an_entry_that_turns_out_to_be_out_of_date_is_not_given_again() -> None:
    server = FakeServer(ttl_ms=60_000)
    server.add_skill("a", files={"b.md": "old"})
    with open_client(server, cache=CacheOptions()) as client:
        skill = client.skills.get("a")
        server.add_skill("a", files={"b.md": "new"})
        with pytest.raises(DigestMismatch, match="get\\(\\) it again"):
            client.skills.read(skill, "b.md")
        assert client.skills.read(client.skills.get("a"), "b.md").text == "new"


def test_front_matter_that_differs_from_the_entry_is_refused() -> None:
    with open_client(altered(front(description="Something else"))) as client:
        with pytest.raises(SkillRejected, match="differs from its entry in description") as caught:
            client.skills.read("a")
        assert caught.value.reason == "front matter"
        assert client.skills.read("a", "b.md").text == "b"


@pytest.mark.parametrize("dynamic", [False, True])
def test_html_instead_of_a_skill_is_refused(dynamic: bool) -> None:
    server = FakeServer()
    server.add_skill("a", files={"SKILL.md": "<!DOCTYPE html><p>Log in"}, dynamic=dynamic)
    with open_client(server) as client, pytest.raises(SkillRejected, match="<!DOCTYPE html>") as caught:
        client.skills.read("a")
    assert caught.value.reason == "front matter"


def test_front_matter_of_a_nested_skill_is_only_text() -> None:
    server = FakeServer()
    server.add_skill("a")
    server.add_skill("a/b", files={"SKILL.md": "no front matter"})
    with open_client(server) as client:
        assert client.skills.read("a", "b/SKILL.md").text == "no front matter"


def test_a_skill_that_changes_all_the_time_is_read_unverified(client: Client, server: FakeServer) -> None:
    server.add_skill("daily", files={"x y/ü.md": "now"}, dynamic=True)
    server.add_resource("skill://daily/x%20y/%C3%BC.md", "now")
    skill = client.skills.get("daily")
    assert client.skills.read(skill).verified is False
    assert client.skills.read(skill, "x y/ü.md").text == "now"
    for path in ("../acme/refunds/SKILL.md", "/x", "x\\..\\y", "x//y", ""):
        with pytest.raises(SkillRejected, match="lead out") as caught:
            client.skills.read(skill, path)
        assert caught.value.reason == "path"
    with pytest.raises(SkillRejected, match="max_bytes is 2"):
        client.skills.read(skill, "x y/ü.md", max_bytes=2)


def test_more_than_was_allowed_is_refused_before_anything_is_read() -> None:
    server = altered(put("size", 10**10))
    with open_client(server) as client:
        for path in ("SKILL.md", "b.md"):
            with pytest.raises(SkillRejected, match="max_bytes is 16777216") as caught:
                client.skills.read("a", path)
            assert caught.value.reason == "limits"
        with pytest.raises(SkillRejected, match="2 files, and max_files is 1"):
            client.skills.read("a", max_files=1)
        assert server.count("resources/read") == 0


def test_more_than_was_announced_is_bounded_by_the_limit_of_messages() -> None:
    server = altered(lambda entry: entry)
    server.add_resource("skill://a/b.md", "x" * 300_000)
    with (
        server.serve_http() as endpoint,
        Client(endpoint.url, extensions=[Skills()], limits=Limits(message_bytes=100_000)) as client,
        pytest.raises(MessageTooLarge),
    ):
        client.skills.read("a", "b.md")


@pytest.mark.parametrize(
    "contents",
    [
        [],
        [{"uri": "skill://a/b.md", "text": "b"}] * 2,
        [{"uri": "skill://a/b.md"}],
        [{"uri": "skill://a/b.md", "blob": "no base64!"}],
        [{"uri": "skill://a/b.md", "text": "\ud83d"}],
    ],
)
def test_what_is_not_one_file_is_refused(contents: list[Message]) -> None:
    server = altered(lambda entry: entry)
    server.on("resources/read", lambda message: {"contents": contents})
    with open_client(server) as client, pytest.raises(SkillRejected) as caught:
        client.skills.read("a", "b.md")
    assert caught.value.reason == "content"


# --- folders -----------------------------------------------------------------------------------------------


def test_folders_are_listed_where_the_server_can(server: FakeServer, client: Client) -> None:
    skill = client.skills.get(REFUNDS)
    assert {item.name for item in client.skills.directory(skill)} == {
        "refunds",
        "templates",
        "logo.png",
        "empty.txt",
    }
    [mail] = client.skills.directory(skill, "templates")
    assert mail.uri == "skill://acme/refunds/templates/mail.md"
    assert [item.uri for item in client.skills.directory("skill://acme/refunds/templates")] == [mail.uri]
    with pytest.raises(InvalidParams):
        list(client.skills.directory(skill, "nowhere"))


def test_folders_are_not_asked_for_where_the_server_cannot() -> None:
    server = FakeServer(extensions={IDENTIFIER: {}})
    server.add_skill("a")
    with open_client(server) as client:
        with pytest.raises(NotSupported, match="does not list the folders"):
            client.skills.directory("skill://a")
        assert server.count("resources/directory/read") == 0


def test_skills_are_the_same_over_http_and_from_many_places(server: FakeServer) -> None:
    with server.serve_http() as endpoint, Client(endpoint.url, extensions=[Skills()]) as client:
        skill: Skill = client.skills.get(REFUNDS)
        assert client.skills.read(skill, "logo.png").data == b"\x89PNG\xff"

"""Which URLs belong together, and what scope to ask for."""

from __future__ import annotations

import pytest

from mcp_sync.auth._challenge import Challenge
from mcp_sync.auth._records import ServerRecord
from mcp_sync.auth._rules import (
    canonical_resource,
    check_redirect_uri,
    endpoint,
    first_scope,
    is_loopback,
    is_secure,
    public_url,
    resource_covers,
    resource_metadata_urls,
    same_issuer,
    scope_union,
    server_metadata_urls,
    server_origin,
    with_offline_access,
)
from mcp_sync.errors import AuthError, UsageError

WELL_KNOWN = "https://h/.well-known/"


def naming(url: str) -> Challenge:
    return Challenge("bearer", {"resource_metadata": url})


def server(scopes=None, **metadata) -> ServerRecord:
    return ServerRecord("https://as.example", None, metadata, scopes)


# Issuers


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://as.example", "https://as.example"),
        ("https://as.example", "https://as.example/"),
        ("https://as.example/", "https://as.example"),
        ("https://as.example/t1", "https://as.example/t1"),
    ],
)
def test_a_root_issuer_is_the_same_with_and_without_a_slash(one, other):
    assert same_issuer(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://as.example/t1", "https://as.example/t2"),
        ("https://as.example/t1", "https://as.example/t1/"),
        ("https://as.example", "https://other.example"),
        ("https://as.example", "https://AS.example"),
        ("https://as.example", "https://as.example:443"),
        ("https://as.example", "http://as.example"),
        ("https://as.example", "https://as.example//"),
        ("https://as.example", ""),
        ("", "/"),
        ("as.example", "as.example/"),
    ],
)
def test_any_other_two_issuers_are_different(one, other):
    assert not same_issuer(one, other)
    assert not same_issuer(other, one)


# Resources


@pytest.mark.parametrize(
    ("resource", "server_url"),
    [
        ("https://h/mcp", "https://h/mcp"),
        ("https://h/mcp", "https://h/mcp/"),
        ("https://h/mcp/", "https://h/mcp"),
        ("https://h", "https://h/mcp"),
        ("https://h/", "https://h/mcp"),
        ("https://h/a", "https://h/a/b/mcp"),
        ("https://H:443/mcp", "https://h/mcp"),
        ("HTTPS://h/mcp", "https://h/mcp"),
        ("https://h/mcp", "https://h/mcp?key=secret"),
        ("https://h/mcp?tenant=1", "https://h/mcp?tenant=1"),
    ],
)
def test_a_resource_covers_the_server_that_it_is_or_that_lies_below_it(resource, server_url):
    assert resource_covers(resource, server_url)


@pytest.mark.parametrize(
    "resource",
    [
        "https://h/mcpx",
        "https://h/mc",
        "https://h/mcp/below",
        "https://evil/mcp",
        "https://h.evil/mcp",
        "https://h@evil/mcp",
        "https://user@h/mcp",
        "http://h/mcp",
        "https://h:8443/mcp",
        "https://h/mcp#fragment",
        "https://h/mcp?other=1",
        "https://h/MCP",
        "https://h:99999/mcp",
        "h/mcp",
        "",
        None,
        7,
    ],
)
def test_a_resource_covers_nothing_else(resource):
    assert not resource_covers(resource, "https://h/mcp")


@pytest.mark.parametrize(
    ("server_url", "resource"),
    [
        ("https://h/", "https://h"),
        ("https://h", "https://h"),
        ("https://h/mcp", "https://h/mcp"),
        ("https://h/mcp/", "https://h/mcp/"),
        ("HTTPS://H.Example:443/MCP", "https://h.example/MCP"),
        ("https://h:8443/mcp", "https://h:8443/mcp"),
        ("http://h:80/mcp", "http://h/mcp"),
        ("https://user:secret@h/mcp?key=secret#part", "https://h/mcp"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp"),
    ],
)
def test_the_canonical_resource_holds_no_secret_and_nothing_superfluous(server_url, resource):
    assert canonical_resource(server_url) == resource


def test_the_origin_of_a_server_is_written_as_an_issuer_is():
    assert server_origin("HTTPS://user:secret@H:443/mcp/x?y=1") == "https://h"
    assert server_origin("http://[::1]:8000/mcp") == "http://[::1]:8000"


# Places of metadata


def test_the_metadata_of_a_resource_is_looked_for_in_the_order_of_the_specification():
    urls = resource_metadata_urls("https://h/a/mcp?x=1", naming("https://h/custom.json"))
    assert urls == [
        "https://h/custom.json",
        WELL_KNOWN + "oauth-protected-resource/a/mcp",
        WELL_KNOWN + "oauth-protected-resource",
    ]


def test_a_server_at_the_root_has_one_place_for_its_metadata():
    root = [WELL_KNOWN + "oauth-protected-resource"]
    assert resource_metadata_urls("https://h", None) == root
    assert resource_metadata_urls("https://h/", None) == root
    assert resource_metadata_urls("https://user:secret@h/", naming(root[0])) == root


def test_a_path_that_ends_with_a_slash_is_tried_without_it_too():
    assert resource_metadata_urls("https://h/mcp/", None) == [
        WELL_KNOWN + "oauth-protected-resource/mcp",
        WELL_KNOWN + "oauth-protected-resource/mcp/",
        WELL_KNOWN + "oauth-protected-resource",
    ]


@pytest.mark.parametrize("url", ["", "/relative", "not a url", "https://", "https://h:x/", "https://h/\r\nx"])
def test_what_is_no_url_in_a_challenge_is_passed_over(url):
    assert resource_metadata_urls("https://h", naming(url)) == [WELL_KNOWN + "oauth-protected-resource"]


@pytest.mark.parametrize("issuer", ["https://h/realms/r1", "https://h/realms/r1/"])
def test_the_metadata_of_an_issuer_with_a_path_is_looked_for_in_three_places(issuer):
    assert server_metadata_urls(issuer) == [
        WELL_KNOWN + "oauth-authorization-server/realms/r1",
        WELL_KNOWN + "openid-configuration/realms/r1",
        "https://h/realms/r1/.well-known/openid-configuration",
    ]


@pytest.mark.parametrize("issuer", ["https://h", "https://h/"])
def test_the_metadata_of_an_issuer_without_a_path_is_looked_for_in_two_places(issuer):
    assert server_metadata_urls(issuer) == [
        WELL_KNOWN + "oauth-authorization-server",
        WELL_KNOWN + "openid-configuration",
    ]


# Endpoints


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "app.localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_these_hosts_are_this_machine(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["localhost.example", "example", "10.0.0.1", "0.0.0.0", "::", "", None])
def test_these_hosts_are_not(host):
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "url",
    [
        "http://as.example/token",
        "ftp://as.example/token",
        "javascript:alert(1)",
        "javascript://as.example/%0aalert(1)",
        "file:///etc/passwd",
        "/token",
        "//as.example/token",
        "https:///token",
        "https://user:pw@as.example/token",
        "https://as.example/to ken",
        "https://as.example/token\n",
        "https://as.example\\@evil/",
        "https://as.example/`id`",
        "https://as.exämple/token",
        "https://as.example:99999/token",
        "https://as.example/token#part",
        "https://[::1/token",
        7,
        ["https://as.example/token"],
    ],
)
def test_an_endpoint_to_which_no_secret_may_go_is_refused_by_name(url):
    with pytest.raises(AuthError, match="token_endpoint") as caught:
        endpoint({"issuer": "https://as.example", "token_endpoint": url}, "token_endpoint")
    assert caught.value.url == "https://as.example"


@pytest.mark.parametrize(
    "url",
    ["https://as.example/token?x=1", "http://localhost:8080/token", "http://[::1]:80/t", "http://127.0.0.1/"],
)
def test_an_endpoint_that_is_safe_is_returned_as_it_is(url):
    assert endpoint({"token_endpoint": url}, "token_endpoint") == url


def test_an_endpoint_that_is_not_there_is_none():
    assert endpoint({}, "token_endpoint") is None
    assert endpoint({"registration_endpoint": None}, "registration_endpoint") is None
    assert endpoint({"registration_endpoint": ""}, "registration_endpoint") is None


def test_the_error_about_an_endpoint_keeps_its_query_to_itself():
    with pytest.raises(AuthError) as caught:
        endpoint({"token_endpoint": "http://as.example/token?key=secret"}, "token_endpoint")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "uri", ["http://app.example/cb", "https://app.example/cb#x", "app:/cb", "urn:x", "", None]
)
def test_a_redirect_uri_must_be_https_or_of_this_machine(uri):
    with pytest.raises(UsageError):
        check_redirect_uri(uri)


@pytest.mark.parametrize(
    "uri", ["https://app.example/cb?x=1", "http://127.0.0.1:1/cb", "http://localhost/cb"]
)
def test_other_redirect_uris_pass(uri):
    check_redirect_uri(uri)


def test_an_error_shows_a_url_without_secrets():
    assert public_url("https://user:secret@h:1/p?key=secret#secret") == "https://h:1/p"
    assert public_url("https://[bad") == "(unreadable URL)"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("user:secret@host/mcp", "host/mcp"),
        ("user:sec/ret@host/mcp", "host/mcp"),
        ("localhost:9", "localhost:9"),
        ("file:///etc/mcp.json", "file:///etc/mcp.json"),
        ("https:/host/mcp", "https:/host/mcp"),
        ("/mcp", "/mcp"),
    ],
)
def test_what_is_no_whole_url_is_shown_as_it_is_without_secrets(url: str, shown: str) -> None:
    assert public_url(url) == shown


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("s/NjQ5YWJjZGVmZ2hpamtsbW5vcA/mcp", "s/NjQ5***/mcp"),
        ("9ef103c4-52c4-4a5f-9a07-2f1d7a3b8c11", "9ef1***"),
        ("key/0123456789abcdef0123456789abcdef", "key/0123***"),
        ("x_4Fq-cWm8Kd2QpLzVtYbN7sR0uHgJe", "x_4F***"),
        ("mcp/sk-proj-ab12cd34ef56gh78", "mcp/sk-p***"),
        ("short1token2", "short1token2"),
        ("release-2026-07-28-notes-v2-final", "release-2026-07-28-notes-v2-final"),
        ("k8s-prod-eu1-cluster2-mcp-server", "k8s-prod-eu1-cluster2-mcp-server"),
        ("conversations2026archive", "conversations2026archive"),
        ("streamableHttpV2TransportEndpoint", "streamableHttpV2TransportEndpoint"),
        ("reasoningEngines/12345678901234567890", "reasoningEngines/12345678901234567890"),
    ],
)
def test_a_part_of_a_path_that_looks_like_a_token_is_not_shown(path: str, shown: str) -> None:
    assert public_url(f"https://host/{path}") == f"https://host/{shown}"


def test_only_absolute_urls_are_secure():
    assert is_secure("https://h")
    assert not is_secure("h")


# Scopes


def test_scopes_are_united_in_order_and_each_comes_once():
    assert scope_union("read write", None, "write  admin", "") == "read write admin"
    assert scope_union(None, "", " ") is None
    assert scope_union() is None


def test_what_can_be_no_scope_is_left_out():
    assert scope_union('a "b" c\\d é \ud800 e\nf g') == "a g"


def test_a_challenge_says_what_to_ask_for():
    challenge = Challenge("bearer", {"scope": "mcp:basic"})
    assert first_scope(challenge, server(("all", "of", "it")), ()) == "mcp:basic"
    assert first_scope(challenge, server(("all",)), ["mine"]) == "mine mcp:basic"


@pytest.mark.parametrize("challenge", [None, Challenge("bearer", {}), Challenge("bearer", {"scope": " "})])
def test_without_a_scope_in_the_challenge_all_that_the_resource_lists_is_added_to_the_users(challenge):
    assert first_scope(challenge, server(("read", "write")), ["mine"]) == "mine read write"
    assert first_scope(challenge, server(("read", "write")), ()) == "read write"


def test_nothing_is_asked_for_where_nobody_says_anything():
    assert first_scope(None, server(), ()) is None
    assert first_scope(None, server((), scopes_supported=["of", "the", "server"]), ()) is None


def test_offline_access_is_asked_for_only_where_it_is_known():
    assert (
        with_offline_access("read", server(scopes_supported=["read", "offline_access"]))
        == "read offline_access"
    )
    assert with_offline_access("read", server(scopes_supported=["read"])) == "read"
    assert with_offline_access("read", server()) == "read"
    assert with_offline_access("read", server(scopes_supported=7)) == "read"
    assert (
        with_offline_access("offline_access x", server(scopes_supported=["offline_access"]))
        == "offline_access x"
    )


def test_offline_access_is_never_asked_for_alone():
    assert with_offline_access(None, server(scopes_supported=["offline_access"])) is None

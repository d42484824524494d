"""Who authorizes for an MCP server."""

from __future__ import annotations

import pickle

import pytest

from mcp_sync._protocol.versions import LATEST_HANDSHAKE
from mcp_sync.auth._challenge import Challenge
from mcp_sync.auth._discovery import MOST_SERVERS, discover
from mcp_sync.auth._records import ServerRecord
from mcp_sync.errors import AuthError, IssuerMismatch

from .conversations import ISSUER, SERVER, Outcome, answer, lead

HOST = "https://h.example"
RESOURCE = HOST + "/.well-known/oauth-protected-resource/mcp"
ROOT_RESOURCE = HOST + "/.well-known/oauth-protected-resource"
OAUTH = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
HTML = answer(b"<html>nothing here</html>")


def resource(*issuers: str, **values) -> dict:
    return {"resource": SERVER, "authorization_servers": list(issuers or (ISSUER,)), **values}


def metadata(issuer: str = ISSUER, **values) -> dict:
    return {
        "issuer": issuer,
        "authorization_endpoint": ISSUER + "/authorize",
        "token_endpoint": ISSUER + "/token",
        **values,
    }


def find(replies, challenge=None, server_url=SERVER, **values) -> Outcome:
    return lead(discover(server_url, challenge, **values), replies)


def found(replies, challenge=None, server_url=SERVER, **values) -> ServerRecord:
    done = find(replies, challenge, server_url, **values)
    assert isinstance(done.value, ServerRecord), done.value
    return done.value


def naming(url: str) -> Challenge:
    return Challenge("bearer", {"resource_metadata": url})


# Where the metadata of the MCP server lie


def test_the_metadata_that_the_challenge_names_are_taken_and_no_others():
    custom = HOST + "/custom.json"
    done = find({custom: resource(), ISSUER + OAUTH: metadata()}, naming(custom))
    assert done.value == ServerRecord(ISSUER, SERVER, metadata())
    assert done.urls == [custom, ISSUER + OAUTH]
    assert all(step.method == "GET" for step in done.asked)


@pytest.mark.parametrize("dead", [404, 401, 500, HTML, {"error": "gone"}, AuthError("refused"), ["x"]])
def test_where_the_named_metadata_are_of_no_use_the_usual_places_are_tried(dead):
    custom = HOST + "/custom.json"
    reply = answer(dead) if isinstance(dead, list) else dead
    done = find({custom: reply, RESOURCE: resource(), ISSUER + OAUTH: metadata()}, naming(custom))
    assert done.value.issuer == ISSUER
    assert done.urls == [custom, RESOURCE, ISSUER + OAUTH]


def test_without_a_challenge_the_path_comes_before_the_root():
    done = find({ROOT_RESOURCE: resource(resource=HOST), ISSUER + OPENID: metadata()})
    assert done.value == ServerRecord(ISSUER, HOST, metadata())
    assert done.urls == [RESOURCE, ROOT_RESOURCE, ISSUER + OAUTH, ISSUER + OPENID]


def test_scopes_of_the_resource_are_kept():
    def scopes(listed):
        return found(
            {RESOURCE: resource(scopes_supported=listed), ISSUER + OAUTH: metadata()}
        ).scopes_supported

    assert scopes(["read", "write", None, 7, "read"]) == ("read", "write")
    assert scopes([]) == ()
    assert scopes("read") is None
    assert scopes(None) is None


# The resource


@pytest.mark.parametrize("name", [SERVER, SERVER + "/", HOST, HOST + "/", "https://H.example:443/mcp"])
def test_the_resource_is_kept_letter_by_letter(name):
    assert found({RESOURCE: resource(resource=name), ISSUER + OAUTH: metadata()}).resource == name


@pytest.mark.parametrize(
    "name",
    ["https://evil.example/mcp", HOST + "/mcpx", "http://h.example/mcp", "https://h.example:1/mcp", "x"],
)
def test_metadata_of_another_resource_end_it_all_and_the_error_names_both(name):
    done = find({RESOURCE: resource(resource=name), ISSUER + OAUTH: metadata()})
    assert isinstance(done.value, AuthError)
    assert done.urls == [RESOURCE]
    assert name in str(done.value)
    assert SERVER in str(done.value)
    assert done.value.url == RESOURCE


@pytest.mark.parametrize("name", [None, 7, ["x"]])
def test_metadata_that_do_not_say_for_what_they_are_do_not_count(name):
    done = find({RESOURCE: resource(resource=name), ROOT_RESOURCE: resource(), ISSUER + OAUTH: metadata()})
    assert done.value.issuer == ISSUER
    assert done.urls == [RESOURCE, ROOT_RESOURCE, ISSUER + OAUTH]


# The metadata of the authorization server


@pytest.mark.parametrize("dead", [400, 401, 403, 404, 500, 503, HTML, {}, AuthError("no route")])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_metadata_of_an_issuer_with_a_path_are_found_in_each_place_whatever_the_others_say(dead, place):
    issuer = "https://as.example/realms/r1"
    places = [ISSUER + OAUTH + "/realms/r1", ISSUER + OPENID + "/realms/r1", issuer + OPENID]
    replies = dict.fromkeys(places, dead)
    done = find({RESOURCE: resource(issuer), **replies, places[place]: metadata(issuer)})
    assert done.value.issuer == issuer
    assert done.urls == [RESOURCE, *places[: place + 1]]


@pytest.mark.parametrize(("asked", "said"), [(ISSUER, ISSUER + "/"), (ISSUER + "/", ISSUER)])
def test_the_slash_of_a_root_makes_no_other_issuer_and_its_own_spelling_is_kept(asked, said):
    record = found({RESOURCE: resource(asked), ISSUER + OAUTH: metadata(said)})
    assert record.issuer == said


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (ISSUER, "https://evil.example"),
        (ISSUER + "/t1", ISSUER + "/t2"),
        (ISSUER + "/t1", ISSUER),
        (ISSUER, "https://AS.example"),
    ],
)
def test_a_server_that_claims_to_be_another_is_refused_with_both_names(asked, said):
    place = ISSUER + OAUTH + asked[len(ISSUER) :]
    done = find({RESOURCE: resource(asked), place: metadata(said)})
    assert isinstance(done.value, IssuerMismatch)
    assert (done.value.expected, done.value.actual) == (asked, said)
    assert f"issuer is {said!r} instead of {asked!r}" in str(done.value)
    assert done.value.url.startswith(ISSUER)


@pytest.mark.parametrize("issuer", [None, 7, ""])
def test_metadata_without_an_issuer_are_not_used(issuer):
    done = find({RESOURCE: resource(), ISSUER + OAUTH: {**metadata(), "issuer": issuer}})
    assert isinstance(done.value, AuthError)


@pytest.mark.parametrize(
    "name",
    [
        "authorization_endpoint",
        "token_endpoint",
        "registration_endpoint",
        "revocation_endpoint",
        "device_authorization_endpoint",
    ],
)
def test_an_endpoint_to_which_no_secret_may_go_is_named(name):
    done = find({RESOURCE: resource(), ISSUER + OAUTH: metadata(**{name: "http://as.example/x?y=secret"})})
    assert isinstance(done.value, AuthError)
    assert name in str(done.value)
    assert "secret" not in str(done.value)


def test_there_must_be_a_token_endpoint():
    done = find({RESOURCE: resource(), ISSUER + OAUTH: metadata(token_endpoint=None)})
    assert "no token_endpoint" in str(done.value)


# Several


def test_the_first_usable_server_is_taken():
    other = "https://other.example"
    done = find({RESOURCE: resource(other, ISSUER), ISSUER + OAUTH: metadata()})
    assert done.value.issuer == ISSUER
    assert done.urls == [RESOURCE, other + OAUTH, other + OPENID, ISSUER + OAUTH]


def test_servers_that_cannot_be_asked_are_passed_over():
    replies = {RESOURCE: resource("http://as.example", "", ISSUER + "?x", ISSUER), ISSUER + OAUTH: metadata()}
    assert find(replies).urls == [RESOURCE, ISSUER + OAUTH]


def test_the_server_that_the_user_names_is_taken_if_it_is_listed():
    other = "https://other.example"
    replies = {RESOURCE: resource(other, ISSUER), ISSUER + OAUTH: metadata(), other + OAUTH: metadata(other)}
    assert found(replies).issuer == other
    assert found(replies, issuer=ISSUER).issuer == ISSUER
    assert found(replies, issuer=ISSUER + "/").issuer == ISSUER


def test_no_server_is_asked_but_the_one_that_the_user_names():
    done = find({RESOURCE: resource(), ISSUER + OAUTH: metadata()}, issuer="https://mine.example")
    assert isinstance(done.value, IssuerMismatch)
    assert (done.value.expected, done.value.actual) == ("https://mine.example", ISSUER)
    assert done.urls == [RESOURCE]


def test_not_any_number_of_servers_is_asked():
    many = [f"https://as{number}.example" for number in range(100)]
    assert len(find({RESOURCE: resource(*many)}).urls) == 1 + 2 * MOST_SERVERS


# The first revision


def test_a_server_without_metadata_of_its_own_authorizes_at_its_origin():
    own = metadata(HOST, authorization_endpoint=HOST + "/oauth/authorize")
    done = find({HOST + OAUTH: own}, server_url=SERVER + "?key=secret")
    assert done.value == ServerRecord(HOST, SERVER, own)
    assert done.urls == [RESOURCE, ROOT_RESOURCE, HOST + OAUTH]
    assert done.asked[-1].headers["MCP-Protocol-Version"] == LATEST_HANDSHAKE


@pytest.mark.parametrize(
    "nothing", [404, 400, 401, 403, 405, 302, HTML, {"error": "not found"}, answer(["x"])]
)
def test_without_any_metadata_the_endpoints_have_fixed_names_and_there_is_no_resource(nothing):
    urls = [RESOURCE, ROOT_RESOURCE, HOST + OAUTH, HOST + OPENID]
    done = find(dict.fromkeys(urls, nothing))
    assert done.urls == urls
    assert done.value.issuer == HOST
    assert done.value.resource is None
    assert {name: url for name, url in done.value.metadata.items() if name.endswith("endpoint")} == {
        "authorization_endpoint": HOST + "/authorize",
        "token_endpoint": HOST + "/token",
        "registration_endpoint": HOST + "/register",
    }


def test_a_server_on_this_machine_needs_no_https():
    done = find({}, server_url="http://localhost:8000/mcp")
    assert done.value.metadata["token_endpoint"] == "http://localhost:8000/token"


def test_a_server_without_https_elsewhere_gets_no_secret():
    done = find({}, server_url="http://h.example/mcp")
    assert isinstance(done.value, AuthError)
    assert "https" in str(done.value)


def test_resource_metadata_that_name_no_server_are_none():
    for listed in ([], None):
        record = found({RESOURCE: resource(authorization_servers=listed), HOST + OAUTH: metadata(HOST)})
        assert record.issuer == HOST


def test_resource_metadata_whose_servers_are_unusable_are_not_the_same_as_none():
    for listed in (["http://as.example"], "https://as.example", [7]):
        done = find({RESOURCE: resource(authorization_servers=listed), HOST + OAUTH: metadata(HOST)})
        assert "authorization_servers" in str(done.value)


@pytest.mark.parametrize("outage", [500, 502, 503, 429, 408, AuthError("connection refused")])
@pytest.mark.parametrize("place", [RESOURCE, ROOT_RESOURCE])
def test_an_outage_does_not_mean_that_there_are_no_metadata(outage, place):
    done = find({place: outage, HOST + OAUTH: metadata(HOST)})
    assert isinstance(done.value, AuthError)
    assert HOST + OAUTH not in done.urls


@pytest.mark.parametrize("doubt", [500, AuthError("connection refused"), metadata("https://evil.example")])
def test_fixed_names_are_used_only_where_it_is_certain_that_there_are_no_metadata(doubt):
    done = find({HOST + OAUTH: doubt})
    assert isinstance(done.value, AuthError)
    assert isinstance(done.value, IssuerMismatch) == isinstance(doubt, dict)


def test_metadata_without_an_issuer_do_not_mean_fixed_names():
    done = find({HOST + OAUTH: {"token_endpoint": HOST + "/oauth/token"}})
    assert "no issuer" in str(done.value)


def test_without_metadata_of_the_server_the_one_that_the_user_names_is_asked():
    done = find({ISSUER + OAUTH: metadata()}, issuer=ISSUER)
    assert done.value == ServerRecord(ISSUER, SERVER, metadata())
    assert HOST + OAUTH not in done.urls


def test_fixed_names_are_not_guessed_at_another_server():
    assert isinstance(find({}, issuer=ISSUER).value, AuthError)
    assert found({}, issuer=HOST).issuer == HOST


# Errors


def test_an_error_lists_everything_that_was_tried_in_order():
    replies = {
        HOST + "/custom.json": answer({"error": "x\n", "error_description": "gone\x1b[0m" + "!" * 999}, 410),
        RESOURCE: AuthError("cannot reach it", url=RESOURCE),
        ROOT_RESOURCE: resource(ISSUER + "/t1"),
        ISSUER + OAUTH + "/t1": HTML,
        ISSUER + OPENID + "/t1": 503,
        ISSUER + "/t1" + OPENID: metadata("https://evil.example"),
    }
    done = find(replies, naming(HOST + "/custom.json"))
    assert done.urls == list(replies)
    text = str(done.value)
    said = [
        f"{HOST}/custom.json: status 410: x: gone [0m!!!",
        f"{RESOURCE}: cannot reach it",
        f"{ISSUER}{OAUTH}/t1: status 200, no JSON",
        f"{ISSUER}{OPENID}/t1: status 503",
        f"{ISSUER}/t1{OPENID}: issuer is 'https://evil.example' instead of 'https://as.example/t1'",
    ]
    places = [text.index(each) for each in said]
    assert places == sorted(places)
    assert len(text) < 1500
    assert "\x1b" not in text
    assert isinstance(done.value, IssuerMismatch)
    assert isinstance(done.value.__cause__, AuthError)
    assert str(pickle.loads(pickle.dumps(done.value))) == text


def test_an_error_shows_no_query():
    done = find(
        {}, naming(HOST + "/custom.json?key=secret"), server_url=SERVER + "?key=secret", issuer=ISSUER
    )
    assert isinstance(done.value, AuthError)
    assert "/custom.json: status 404" in str(done.value)
    assert "secret" not in str(done.value)


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"7", b"\xff", b"[" * 100_000, b'{"issuer":', b'"x"'])
def test_garbage_is_no_metadata(body):
    done = find({RESOURCE: resource(), ISSUER + OAUTH: answer(body)})
    assert f"{ISSUER}{OAUTH}: status 200, no JSON" in str(done.value)


@pytest.mark.parametrize(
    ("dead", "transient"),
    [
        (503, True),
        (429, True),
        (AuthError("no answer", transient=True), True),
        (AuthError("that is not https"), False),
        (404, False),
        ({"issuer": "https://evil.example"}, False),
    ],
)
def test_an_error_says_whether_it_may_pass(dead, transient):
    error = find({RESOURCE: resource(), ISSUER + OAUTH: dead}).value
    assert isinstance(error, AuthError)
    assert error.transient is transient

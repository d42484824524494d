"""Envelopes and handles of tasks belong to a server, with its query, and to whoever made the call."""

from __future__ import annotations

import json

import pytest
import requests
from requests.auth import AuthBase, HTTPDigestAuth

from mcp_sync import BearerToken, Client, InputRequired, OAuth
from mcp_sync.auth import MemoryStore
from mcp_sync.elicitation import accept
from mcp_sync.errors import EnvelopeRejected, InvalidHandle
from mcp_sync.testing import FakeServer, FakeTool

FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}


def ask(context) -> str:
    """Ask."""
    return str(context.elicit("Sure?", FORM))


def report() -> str:
    """Report."""
    return "done"


class Mine(AuthBase):
    """An authorization of somebody else, which says for whom it is."""

    def __init__(self, principal: str) -> None:
        self.principal = principal

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


@pytest.fixture
def url():
    with FakeServer(tools=[ask, FakeTool(report, task=True)]).serve_http() as endpoint:
        yield endpoint.url


def oauth(user, **options):
    return OAuth(redirect_uri="https://app.example.com/cb", store=MemoryStore(), principal=user, **options)


def begun(client):
    """Return an envelope, and a handle, that a client has made."""
    with pytest.raises(InputRequired) as waiting:
        client.call_tool("ask", on_input="raise")
    return waiting.value.to_json(key="k"), client.start_task("report").to_json()


def refusals(client, envelope, handle):
    """Return why a client takes up neither; ``None`` where it does."""
    found = []
    answers = {key: accept({"sure": True}) for key in envelope["requests"]}
    for go_on in (
        lambda: client.resume(envelope, answers, key="k"),
        lambda: client.task(handle).result(),
    ):
        try:
            go_on()
            found.append(None)
        except (EnvelopeRejected, InvalidHandle) as error:
            found.append(error.reason)
    return found


OTHERS = {
    "oauth": lambda user: oauth(user),
    "its own": lambda user: Mine(user),
    "password": lambda user: (user, "secret"),
    "digest": lambda user: HTTPDigestAuth(user, "secret"),
}


@pytest.mark.parametrize("auth", OTHERS.values(), ids=OTHERS)
def test_nobody_goes_on_with_what_another_user_began(url, auth):
    with Client(url, auth=auth("ada")) as ada, Client(url, auth=auth("bob")) as bob, Client(url) as nobody:
        kept = begun(ada)
        for other in (bob, nobody):
            assert refusals(other, *kept) == ["principal", "principal"]
        assert refusals(ada, *begun(bob)) == ["principal", "principal"]
        assert refusals(ada, *kept) == [None, None]


@pytest.mark.parametrize("auth", OTHERS.values(), ids=OTHERS)
def test_another_client_of_the_same_user_goes_on(url, auth):
    with Client(url, auth=auth("ada")) as one, Client(url, auth=auth("ada")) as other:
        kept = json.loads(json.dumps(begun(one)))
        assert refusals(other, *kept) == [None, None]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BearerToken("old"), BearerToken("new")),
        (("ada", "old"), ("ada", "new")),
        (("key", ""), ("other key", "")),
        (None, BearerToken("new")),
        (oauth("ada", scopes=["a"]), oauth("ada", scopes=["b"])),
    ],
    ids=["token", "password", "key without password", "no token", "scopes"],
)
def test_what_changes_while_the_user_stays_the_same_is_not_bound(url, one, other):
    with Client(url, auth=one) as first, Client(url, auth=other) as second:
        assert refusals(second, *begun(first)) == [None, None]


def test_the_client_of_an_authorization_is_bound_too(url):
    one, other = (Client(url, auth=oauth("ada", client_id=each)) for each in ("web", "batch"))
    with one, other:
        assert refusals(other, *begun(one)) == ["principal", "principal"]


def test_no_credential_is_kept(url):
    place = url.replace("http://", "http://user:the-password@") + "?key=the-key"
    for client in (Client(url, auth=Mine("ada")), Client(place), Client(url, auth=("ada", "the-password"))):
        with client:
            text = json.dumps(begun(client))
            assert "the-" not in text


def test_the_query_of_a_url_is_a_part_of_the_server(url):
    one, same, other = (Client(f"{url}?tenant={tenant}") for tenant in "aab")
    with one, same, other, Client(url) as without:
        kept = begun(one)
        assert "tenant" not in json.dumps(kept)
        for each in (other, without):
            assert refusals(each, *kept) == ["server", "server"]
        assert refusals(same, *kept) == [None, None]


def test_a_named_principal_counts_instead_of_the_credentials(url):
    with Client(url) as client:
        ada = client.for_principal("ada", auth=oauth("x"))
        again = client.for_principal("ada", auth=BearerToken("another"))
        assert refusals(again, *begun(ada)) == [None, None]
        assert refusals(client.for_principal("bob", auth=oauth("x")), *begun(ada)) == ["principal"] * 2

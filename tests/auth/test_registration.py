"""By what name a client is known to an authorization server."""

from __future__ import annotations

import pytest

from mcp_sync.auth._records import ClientRecord
from mcp_sync.auth._registration import ClientIdentity, identify
from mcp_sync.errors import AuthError, IssuerMismatch, RegistrationFailed, UsageError

from .conversations import ISSUER, NOW, Outcome, answer, client, lead, server

REGISTER = ISSUER + "/register"
CALLBACK = "http://127.0.0.1:4000/callback"
WEB = "https://app.example/callback"
DOCUMENT = "https://app.example/client.json"


class Signer:
    alg = "ES256"

    def sign(self, header, claims):
        return "signed"


def registered(**values) -> ClientRecord:
    return client(**{"registered": True, "redirect_uris": (CALLBACK,), **values})


def register(
    body, status=201, identity=None, found=None, known=None, redirect_uri=CALLBACK, **values
) -> Outcome:
    who = identity if identity is not None else ClientIdentity()
    where = found if found is not None else server()
    return lead(identify(where, who, known, redirect_uri, NOW, **values), {REGISTER: answer(body, status)})


# The order


def test_a_client_id_given_by_hand_comes_first():
    identity = ClientIdentity(client_id="me", client_secret="s3cret", metadata_url=DOCUMENT)
    found = server(client_id_metadata_document_supported=True)
    done = register({"client_id": "other"}, identity=identity, found=found)
    assert done.value == ClientRecord(ISSUER, "me", "s3cret")
    assert done.asked == []


def test_a_metadata_document_comes_next_where_the_server_takes_it():
    identity = ClientIdentity(metadata_url=DOCUMENT)
    found = server(client_id_metadata_document_supported=True)
    done = register({"client_id": "other"}, identity=identity, found=found)
    assert done.value == ClientRecord(ISSUER, DOCUMENT, method="none")
    assert done.asked == []


@pytest.mark.parametrize("flag", [False, None, "true", 1])
def test_a_metadata_document_is_not_used_where_the_server_does_not_say_that_it_takes_it(flag):
    identity = ClientIdentity(metadata_url=DOCUMENT)
    found = server(client_id_metadata_document_supported=flag)
    assert register({"client_id": "new"}, identity=identity, found=found).value.client_id == "new"


def test_a_metadata_document_with_a_key_authenticates_by_it():
    identity = ClientIdentity(metadata_url=DOCUMENT, signer=Signer())
    found = server(client_id_metadata_document_supported=True)
    assert register({}, identity=identity, found=found).value.method == "private_key_jwt"


def test_registration_comes_last():
    assert register({"client_id": "new"}).value.client_id == "new"


@pytest.mark.parametrize("identity", [ClientIdentity(), ClientIdentity(metadata_url=DOCUMENT)])
def test_where_there_is_no_way_the_error_says_what_to_give(identity):
    done = register({}, identity=identity, found=server(registration_endpoint=None))
    assert isinstance(done.value, RegistrationFailed)
    assert "client_id" in str(done.value)
    assert ISSUER in str(done.value)
    assert ("metadata documents" in str(done.value)) == (identity.metadata_url is not None)
    assert done.asked == []


def test_a_secret_may_be_fetched_by_a_function():
    identity = ClientIdentity(client_id="me", client_secret=lambda: "fetched")
    assert register({}, identity=identity).value.client_secret == "fetched"
    broken = ClientIdentity(client_id="me", client_secret=lambda: "")
    assert isinstance(register({}, identity=broken).value, UsageError)


def test_a_client_given_by_hand_without_a_secret_is_public_unless_it_has_a_key():
    assert register({}, identity=ClientIdentity(client_id="me")).value.method == "none"
    signing = ClientIdentity(client_id="me", signer=Signer())
    assert register({}, identity=signing).value.method == "private_key_jwt"
    posting = ClientIdentity(client_id="me", client_secret="s3cret", method="client_secret_post")
    assert register({}, identity=posting).value.method == "client_secret_post"


# Bound to the issuer


@pytest.mark.parametrize("values", [{"client_id": "me"}, {"metadata_url": DOCUMENT}, {}])
def test_a_client_of_another_issuer_is_not_used(values):
    identity = ClientIdentity(issuer="https://other.example", **values)
    done = register({"client_id": "new"}, identity=identity)
    assert isinstance(done.value, IssuerMismatch)
    assert (done.value.expected, done.value.actual) == ("https://other.example", ISSUER)
    assert "https://other.example" in str(done.value)
    assert ISSUER in str(done.value)
    assert done.asked == []


def test_the_slash_of_a_root_issuer_makes_no_other():
    assert register({}, identity=ClientIdentity(client_id="me", issuer=ISSUER + "/")).value.client_id == "me"


def test_a_client_given_by_hand_stays_with_the_issuer_that_it_was_first_used_for():
    before = client(issuer="https://other.example")
    done = register({}, identity=ClientIdentity(client_id="me"), known=before)
    assert isinstance(done.value, IssuerMismatch)


def test_a_registration_with_another_issuer_is_not_taken_for_one_with_this():
    done = register({"client_id": "new"}, known=registered(issuer="https://other.example"))
    assert done.value.client_id == "new"
    assert done.value.issuer == ISSUER


# What is known


def test_a_known_registration_is_used_again():
    known = registered(client_secret="s3cret", expires_at=NOW + 1)
    done = register({"client_id": "new"}, known=known)
    assert done.value is known
    assert done.asked == []


def test_a_registration_whose_secret_has_expired_is_made_anew():
    known = registered(client_secret="s3cret", expires_at=NOW)
    assert register({"client_id": "new"}, known=known).value.client_id == "new"


def test_a_registration_for_another_redirect_uri_is_made_anew():
    known = registered(redirect_uris=("http://127.0.0.1:5000/callback",))
    assert register({"client_id": "new"}, known=known).value.client_id == "new"


@pytest.mark.parametrize("uris", [("http://127.0.0.1/callback",), (CALLBACK, WEB), ()])
def test_a_registration_that_admits_the_redirect_uri_is_used(uris):
    known = registered(redirect_uris=uris)
    assert register({"client_id": "new"}, known=known).value is known


def test_a_client_that_needs_no_redirect_uri_is_used_whatever_its_own():
    known = registered(redirect_uris=(WEB,))
    assert register({"client_id": "new"}, known=known, redirect_uri=None).value is known


def test_a_registration_for_other_scopes_is_made_anew():
    """node-oidc-provider and the official SDK grant nothing that a client was not registered for."""
    known = registered(scope="read write")
    assert register({"client_id": "new"}, known=known, scope="write").value is known
    assert register({"client_id": "new"}, known=known).value is known
    assert register({"client_id": "new"}, known=registered(), scope="admin").value == registered()
    done = register({"client_id": "new"}, known=known, scope="read write admin")
    assert (done.value.client_id, done.value.scope) == ("new", "read write admin")


def test_scopes_that_a_server_has_left_out_are_not_asked_for_again():
    first = register({"client_id": "new", "scope": "read"}, scope="read admin").value
    assert register({"client_id": "newer"}, known=first, scope="read admin").value is first
    assert register({"client_id": "new", "scope": "read"}).value.scope == "read"


def test_what_was_given_by_hand_before_is_no_registration():
    assert register({"client_id": "new"}, known=client()).value.client_id == "new"


# What is asked for


def asked_for(**values) -> dict:
    return dict(register({"client_id": "new"}, **values).asked[0].json)


def test_a_registration_says_all_that_a_server_may_want_to_know():
    identity = ClientIdentity(
        client_name="App", software_id="app-1", extra={"client_uri": "https://app.example"}
    )
    done = register({"client_id": "new"}, identity=identity, scope="read")
    assert done.asked[0].method == "POST"
    assert done.asked[0].url == REGISTER
    assert done.asked[0].json == {
        "client_name": "App",
        "redirect_uris": [CALLBACK],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
        "scope": "read",
        "software_id": "app-1",
        "client_uri": "https://app.example",
    }


def test_the_application_type_follows_from_the_redirect_uri():
    assert asked_for()["application_type"] == "native"
    assert asked_for(redirect_uri="http://localhost:1/cb")["application_type"] == "native"
    assert asked_for(redirect_uri=WEB)["application_type"] == "web"
    assert asked_for(redirect_uri=None)["application_type"] == "native"
    given = ClientIdentity(application_type="web")
    assert asked_for(identity=given)["application_type"] == "web"


def test_all_redirect_uris_are_registered_each_once():
    identity = ClientIdentity(redirect_uris=(WEB, CALLBACK))
    assert asked_for(identity=identity)["redirect_uris"] == [CALLBACK, WEB]
    assert "redirect_uris" not in asked_for(redirect_uri=None)


def test_a_client_without_codes_asks_for_no_response_types():
    identity = ClientIdentity(grant_types=("client_credentials",))
    values = asked_for(identity=identity, redirect_uri=None)
    assert values["response_types"] == []
    assert values["token_endpoint_auth_method"] == "client_secret_basic"


@pytest.mark.parametrize(
    ("offered", "native", "web"),
    [
        (None, "none", "client_secret_basic"),
        ([], "none", "client_secret_basic"),
        (["client_secret_basic", "none"], "none", "client_secret_basic"),
        (["client_secret_post", "client_secret_basic"], "client_secret_basic", "client_secret_basic"),
        (["client_secret_post"], "client_secret_post", "client_secret_post"),
        (["none"], "none", "none"),
        (["tls_client_auth"], "none", "client_secret_basic"),
        ("garbage", "none", "client_secret_basic"),
    ],
)
def test_the_method_that_is_asked_for_is_one_that_the_server_knows(offered, native, web):
    found = server(token_endpoint_auth_methods_supported=offered)
    assert asked_for(found=found)["token_endpoint_auth_method"] == native
    assert asked_for(found=found, redirect_uri=WEB)["token_endpoint_auth_method"] == web


def test_a_method_that_was_given_is_asked_for_whatever_the_server_says():
    found = server(token_endpoint_auth_methods_supported=["none"])
    identity = ClientIdentity(method="client_secret_post")
    assert asked_for(found=found, identity=identity)["token_endpoint_auth_method"] == "client_secret_post"


def test_a_client_with_a_key_asks_to_authenticate_by_it_where_that_is_known():
    identity = ClientIdentity(signer=Signer())
    assert asked_for(identity=identity)["token_endpoint_auth_method"] == "private_key_jwt"
    found = server(token_endpoint_auth_methods_supported=["none"])
    assert asked_for(identity=identity, found=found)["token_endpoint_auth_method"] == "none"


# What comes back


@pytest.mark.parametrize("status", [200, 201])
def test_only_the_name_is_required(status):
    assert register({"client_id": "new"}, status).value == registered(client_id="new", method="none")


def test_strange_values_do_no_harm():
    body = {
        "client_id": "new",
        "client_secret": "s3cret",
        "token_endpoint_auth_method": "client_secret_basic",
        "application_type": "browser",
        "scope": None,
        "client_secret_expires_at": "0",
        "client_uri": "",
        "jwks": {"keys": None},
        "redirect_uris": [CALLBACK, 7, None],
        "contacts": "nobody",
    }
    done = register(body)
    assert done.value == registered(client_id="new", client_secret="s3cret", method="client_secret_basic")


@pytest.mark.parametrize("uris", [None, [], "x", {}])
def test_without_redirect_uris_in_the_answer_those_that_were_sent_count(uris):
    assert register({"client_id": "new", "redirect_uris": uris}).value.redirect_uris == (CALLBACK,)


@pytest.mark.parametrize(
    ("given", "expires"),
    [
        (0, None),
        ("0", None),
        (None, None),
        (-1, None),
        ("soon", None),
        (True, None),
        (NOW, NOW),
        (str(int(NOW)), NOW),
    ],
)
def test_the_secret_expires_when_the_server_says(given, expires):
    body = {"client_id": "new", "client_secret": "s3cret", "client_secret_expires_at": given}
    assert register(body).value.expires_at == expires


@pytest.mark.parametrize(
    ("given", "secret", "method"),
    [
        ("client_secret_post", "s3cret", "client_secret_post"),
        ("client_secret_basic", "s3cret", "client_secret_basic"),
        (None, "s3cret", None),
        ("", "s3cret", None),
        ("tls_client_auth", "s3cret", None),
        ("private_key_jwt", "s3cret", None),
        ("none", "s3cret", "none"),
        ("client_secret_basic", None, "none"),
        ("client_secret_basic", "", "none"),
        (None, None, "none"),
    ],
)
def test_the_method_that_comes_back_governs_where_it_can_be_followed(given, secret, method):
    body = {"client_id": "new", "client_secret": secret, "token_endpoint_auth_method": given}
    assert register(body).value.method == method


def test_a_client_with_a_key_goes_on_with_it():
    for body in ({}, {"token_endpoint_auth_method": "private_key_jwt"}):
        done = register({"client_id": "new", **body}, identity=ClientIdentity(signer=Signer()))
        assert done.value.method == "private_key_jwt"


def test_a_redirect_uri_that_got_lost_is_an_error_that_names_it():
    done = register({"client_id": "new", "redirect_uris": [WEB]})
    assert isinstance(done.value, RegistrationFailed)
    assert CALLBACK in str(done.value)


def test_a_redirect_uri_that_lost_its_port_is_for_every_port():
    done = register({"client_id": "new", "redirect_uris": ["http://127.0.0.1/callback"]})
    assert done.value.redirect_uris == ("http://127.0.0.1/callback",)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (
            {"error": "invalid_redirect_uri", "error_description": "no\n loopback"},
            400,
            "invalid_redirect_uri: no loopback",
        ),
        ({"client_id": "new"}, 400, "status 400"),
        ({"client_id": ""}, 201, "no client_id"),
        ({"client_id": None}, 201, "no client_id"),
        ({"client_id": 7}, 201, "no client_id"),
        ({"client_id": "\ud800"}, 201, "no client_id"),
        ({"error": "x"}, 200, "status 200: x"),
        (b"<html>", 201, "no JSON"),
        (b"[" * 100_000, 201, "no JSON"),
        (b"\xff\xfe", 503, "status 503"),
        (None, 403, "status 403"),
    ],
)
def test_a_refusal_is_an_error_with_what_was_said_and_what_was_asked_for(body, status, said):
    done = register(body, status)
    assert isinstance(done.value, RegistrationFailed)
    assert said in str(done.value)
    assert "native" in str(done.value)
    assert CALLBACK in str(done.value)
    assert done.value.url == REGISTER


def test_a_software_statement_does_not_come_back_in_an_error():
    identity = ClientIdentity(extra={"software_statement": "ey.secret.statement"})
    body = {"error": "invalid_software_statement", "error_description": "bad: ey.secret.statement"}
    assert "ey.secret" not in str(register(body, 400, identity=identity).value)


def test_a_registration_endpoint_that_is_not_safe_gets_nothing():
    done = register({}, found=server(registration_endpoint="http://as.example/register"))
    assert isinstance(done.value, AuthError)
    assert "registration_endpoint" in str(done.value)
    assert done.asked == []


def test_an_unreachable_server_is_no_refusal():
    error = AuthError("cannot reach it", url=REGISTER)
    done = lead(identify(server(), ClientIdentity(), None, CALLBACK, NOW), {REGISTER: error})
    assert done.value is error


# What cannot be


@pytest.mark.parametrize(
    "values",
    [
        {"client_secret": "s3cret"},
        {"client_id": ""},
        {"client_id": 7},
        {"client_id": "me", "client_secret": ""},
        {"client_id": "me", "client_secret": 7},
        {"client_id": "me", "client_secret": "s3cret", "method": "none"},
        {"client_id": "me", "method": "client_secret_basic"},
        {"client_id": "me", "method": "client_secret_post"},
        {"method": "private_key_jwt"},
        {"method": "secret_handshake"},
        {"issuer": "as.example"},
        {"issuer": "http://as.example"},
        {"issuer": "https://as.example?x=1"},
        {"application_type": "browser"},
        {"redirect_uris": "https://app.example/cb"},
        {"redirect_uris": ("http://app.example/cb",)},
        {"grant_types": "authorization_code"},
        {"metadata_url": "http://app.example/client.json"},
        {"metadata_url": "https://app.example"},
        {"metadata_url": "https://app.example/"},
        {"metadata_url": "https://app.example/client.json#x"},
        {"metadata_url": "https://app.example/a/../client.json"},
        {"metadata_url": "https://app.example/./client.json"},
        {"metadata_url": "https://user:pw@app.example/client.json"},
        {"metadata_url": "client.json"},
        {"metadata_url": 7},
    ],
)
def test_an_identity_that_cannot_work_is_refused_at_once(values):
    with pytest.raises(UsageError):
        ClientIdentity(**values)


def test_an_identity_shows_no_secret():
    identity = ClientIdentity(client_id="me", client_secret="s3cret", signer=Signer(), extra={"x": "s3cret"})
    assert "s3cret" not in repr(identity)
    assert "Signer" not in repr(identity)

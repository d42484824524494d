"""Grants without a browser on this machine: each conversation, led with plain values."""

from __future__ import annotations

import base64
import os

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from joserfc import jwt
from joserfc.jwk import ECKey

from mcp_sync.auth._device import DeviceCode, DevicePrompt
from mcp_sync.auth._dpop import Prover, new_key
from mcp_sync.auth._enterprise import EnterpriseManaged
from mcp_sync.auth._machine import ClientCredentials, WorkloadIdentity
from mcp_sync.auth._records import Grant, ServerRecord
from mcp_sync.errors import (
    AccessDenied,
    AuthError,
    AuthorizationRequired,
    IssuerMismatch,
    RegistrationFailed,
    TokenRequestFailed,
    UsageError,
)

from .conversations import ISSUER, METADATA, NOW, SERVER, answer, client, lead, server

TOKEN = ISSUER + "/token"
DEVICE = ISSUER + "/device"
IDP = "https://idp.example"
IDP_TOKEN = IDP + "/token"
GRANTED = {"access_token": "at", "token_type": "Bearer", "expires_in": 60}
KEY = ec.generate_private_key(ec.SECP256R1())
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def acquire(auth, replies, found=None, scope=None, prover=None, known=None):
    """Find out who asks, and ask."""
    found = found or server()

    def both():
        who = yield from auth._identify(found, known, NOW)
        return (yield from auth._acquire(found, who, scope, NOW, prover))

    return lead(both(), replies)


def checked(assertion):
    """Check an assertion of the client, and return its claims."""
    return jwt.decode(assertion, ECKey.import_key(KEY.public_key()), algorithms=["ES256"]).claims


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


# --- client credentials --------------------------------------------------------------------------------


def test_without_the_secret_that_a_function_should_have_nothing_is_sent():
    done = acquire(ClientCredentials("me", lambda: None), {TOKEN: GRANTED})
    assert type(done.value) is AuthError
    assert "returned no secret" in str(done.value)
    assert done.asked == []


def test_a_function_that_has_no_secret_and_says_why_is_the_cause():
    def vault_is_down():
        raise OSError("s3cret place")

    done = acquire(ClientCredentials("me", vault_is_down), {TOKEN: GRANTED})
    assert str(done.value) == "the client_secret could not be had: OSError"
    assert isinstance(done.value.__cause__, OSError)
    assert done.asked == []


def test_a_client_with_a_secret_gets_a_token():
    done = acquire(ClientCredentials("me", "s3cret"), {TOKEN: GRANTED}, scope="a b")
    assert done.value == Grant(ISSUER, SERVER, "me", "at", "Bearer", NOW + 60, scope=None, requested="a b")
    (asked,) = done.asked
    assert (asked.method, asked.url) == ("POST", TOKEN)
    assert asked.headers["Authorization"] == basic("me", "s3cret")
    assert asked.form == {"grant_type": "client_credentials", "scope": "a b", "resource": SERVER}


def test_the_secret_goes_into_the_body_where_the_user_or_the_server_wants_that():
    wanted = [
        acquire(ClientCredentials("me", "s3cret", method="client_secret_post"), {TOKEN: GRANTED}),
        acquire(
            ClientCredentials("me", "s3cret"),
            {TOKEN: GRANTED},
            server(token_endpoint_auth_methods_supported=["client_secret_post"]),
        ),
    ]
    for done in wanted:
        (asked,) = done.asked
        assert "Authorization" not in asked.headers
        assert (asked.form["client_id"], asked.form["client_secret"]) == ("me", "s3cret")


def test_a_secret_may_come_from_a_function_each_time():
    secrets = iter(["one", "two"])
    auth = ClientCredentials("me", lambda: next(secrets))
    for secret in ("one", "two"):
        done = acquire(auth, {TOKEN: GRANTED})
        assert done.asked[0].headers["Authorization"] == basic("me", secret)


def test_a_client_with_a_key_signs_for_the_issuer():
    auth = ClientCredentials("me", private_key=KEY, private_key_id="k1")
    done = acquire(auth, {TOKEN: GRANTED}, scope="a")
    assert done.value.access_token == "at"
    form = dict(done.asked[0].form)
    assertion = form.pop("client_assertion")
    assert form == {
        "grant_type": "client_credentials",
        "client_id": "me",
        "client_assertion_type": ASSERTION,
        "scope": "a",
        "resource": SERVER,
    }
    claims = checked(assertion)
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("me", "me", ISSUER)
    assert (claims["iat"], claims["exp"]) == (NOW, NOW + 300)
    assert "Authorization" not in done.asked[0].headers


def test_a_function_can_sign_for_the_client():
    def sign(data):
        r, s = decode_dss_signature(KEY.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    done = acquire(ClientCredentials("me", private_key=sign, private_key_alg="ES256"), {TOKEN: GRANTED})
    assert checked(done.asked[0].form["client_assertion"])["sub"] == "me"


def test_each_request_has_an_assertion_of_its_own():
    auth = ClientCredentials("me", private_key=KEY)
    assertions = [acquire(auth, {TOKEN: GRANTED}).asked[0].form["client_assertion"] for _ in range(2)]
    assert len({checked(each)["jti"] for each in assertions}) == 2


def test_a_server_without_a_resource_is_asked_for_none():
    found = ServerRecord(ISSUER, None, METADATA)
    done = acquire(ClientCredentials("me", "s3cret"), {TOKEN: GRANTED}, found)
    assert done.asked[0].form == {"grant_type": "client_credentials"}
    assert done.value.resource is None


def test_credentials_go_to_no_other_authorization_server_than_their_own():
    auth = ClientCredentials("me", "s3cret", issuer="https://other.example")
    done = acquire(auth, {TOKEN: GRANTED})
    assert isinstance(done.value, IssuerMismatch)
    assert done.asked == []
    known = client(issuer="https://first.example")
    assert isinstance(acquire(ClientCredentials("me", "s3cret"), {}, known=known).value, IssuerMismatch)


def test_a_refusal_says_who_said_what():
    refusal = answer({"error": "invalid_scope", "error_description": "no such scope"}, 400)
    done = acquire(ClientCredentials("me", "s3cret"), {TOKEN: refusal}, scope="a")
    assert isinstance(done.value, TokenRequestFailed)
    assert (done.value.error, done.value.url, done.value.transient) == ("invalid_scope", TOKEN, False)
    assert "no such scope" in str(done.value)
    assert len(done.asked) == 1


def test_a_token_is_bound_to_a_key_where_that_is_asked_for():
    prover = Prover(new_key())
    replies = [
        answer({"error": "use_dpop_nonce"}, 400, {"dpop-nonce": "n1"}),
        answer({**GRANTED, "token_type": "DPoP"}),
    ]
    done = acquire(ClientCredentials("me", "s3cret"), {TOKEN: replies}, prover=prover)
    assert (done.value.token_type, done.value.dpop_key) == ("DPoP", prover.key)
    proofs = [
        jwt.decode(asked.headers["DPoP"], ECKey.import_key(prover.key), algorithms=["ES256"]).claims
        for asked in done.asked
    ]
    assert [(each["htm"], each["htu"], each.get("nonce")) for each in proofs] == [
        ("POST", TOKEN, None),
        ("POST", TOKEN, "n1"),
    ]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "needs a client_secret or a private_key"),
        ({"client_secret": "s", "private_key": KEY}, "either a client_secret or a private_key"),
        ({"client_secret": "s", "private_key_alg": "ES256"}, "but no key"),
        ({"client_secret": "s", "private_key_id": "k"}, "but no key"),
        ({"client_secret": "s", "method": "none"}, "needs a client_secret"),
        ({"client_secret": "s", "method": "private_key_jwt"}, "needs a key"),
        ({"client_secret": "s", "method": "tls_client_auth"}, "must be one of"),
        ({"private_key": KEY, "method": "client_secret_basic"}, "authenticates by 'private_key_jwt'"),
        ({"private_key": KEY, "private_key_alg": "HS256"}, "must be one of"),
        ({"private_key": "key.pem"}, "not its path"),
        ({"client_secret": ""}, "client_secret"),
        ({"client_secret": "s", "issuer": "http://as.example"}, "issuer must be an https URL"),
        ({"client_secret": "s", "scopes": "a b"}, "list of strings"),
        ({"client_secret": "s", "client_id": ""}, "client_id"),
        ({"client_secret": "s", "client_id": None}, "client_id"),
    ],
)
def test_credentials_that_cannot_be_are_refused_at_once(values, words):
    with pytest.raises(UsageError, match=words):
        ClientCredentials(**{"client_id": "me", **values})


# --- workload identity ---------------------------------------------------------------------------------


def test_the_token_of_a_workload_is_the_assertion():
    done = acquire(WorkloadIdentity("a.b.c", "me"), {TOKEN: GRANTED}, scope="a")
    assert done.value.access_token == "at"
    (asked,) = done.asked
    assert "Authorization" not in asked.headers
    assert asked.form == {
        "grant_type": JWT_BEARER,
        "assertion": "a.b.c",
        "client_id": "me",
        "scope": "a",
        "resource": SERVER,
    }


def test_a_workload_needs_no_name():
    done = acquire(WorkloadIdentity("a.b.c"), {TOKEN: GRANTED})
    assert done.asked[0].form == {"grant_type": JWT_BEARER, "assertion": "a.b.c", "resource": SERVER}
    assert done.value.client_id == ""


def test_a_workload_may_have_a_secret_too():
    done = acquire(WorkloadIdentity("a.b.c", "me", client_secret="s3cret"), {TOKEN: GRANTED})
    assert done.asked[0].headers["Authorization"] == basic("me", "s3cret")


@pytest.mark.parametrize("client_id", ["me", None])
def test_the_token_of_a_workload_goes_to_no_other_authorization_server(client_id):
    auth = WorkloadIdentity("a.b.c", client_id, issuer="https://other.example")
    done = acquire(auth, {TOKEN: GRANTED})
    assert isinstance(done.value, IssuerMismatch)
    assert done.asked == []
    known = client(issuer="https://first.example", client_id=client_id or "")
    assert isinstance(acquire(WorkloadIdentity("a.b.c", client_id), {}, known=known).value, IssuerMismatch)


@pytest.mark.parametrize("error", ["invalid_grant", "invalid_scope", "unauthorized_client", "invalid_client"])
def test_a_refusal_of_a_workload_is_final(error):
    done = acquire(WorkloadIdentity("a.b.c", "me"), {TOKEN: [answer({"error": error}, 400)]})
    assert isinstance(done.value, TokenRequestFailed)
    assert (done.value.error, done.value.transient) == (error, False)
    assert len(done.asked) == 1


def sent(auth):
    return acquire(auth, {TOKEN: GRANTED}).asked[0].form["assertion"]


def test_a_token_is_read_anew_each_time(tmp_path, monkeypatch):
    path = tmp_path / "token"
    for auth in (WorkloadIdentity.from_file(path), WorkloadIdentity.from_file(os.fspath(path), "me")):
        for token in ("t1", "t2"):
            path.write_text(f"{token}\n")
            assert sent(auth) == token
    from_environment = WorkloadIdentity.from_environment("WORKLOAD_TOKEN", scopes=["a"])
    for token in ("t1", "t2"):
        monkeypatch.setenv("WORKLOAD_TOKEN", token)
        assert sent(from_environment) == token
    tokens = iter(["t1", "t2"])
    from_function = WorkloadIdentity(lambda: next(tokens))
    assert [sent(from_function) for _ in range(2)] == ["t1", "t2"]
    assert from_environment.scopes == ("a",)


def test_a_token_that_is_not_there_is_an_error_that_says_where_it_should_be(tmp_path, monkeypatch):
    path = tmp_path / "token"
    done = acquire(WorkloadIdentity.from_file(path), {})
    assert isinstance(done.value, AuthError)
    assert f"{path} cannot be read: No such file" in str(done.value)
    path.write_bytes(b"\xff\xfe")
    assert "no ASCII text" in str(acquire(WorkloadIdentity.from_file(path), {}).value)
    path.write_text("one two")
    assert isinstance(acquire(WorkloadIdentity.from_file(path), {}).value, UsageError)
    path.write_text("")
    assert isinstance(acquire(WorkloadIdentity.from_file(path), {}).value, UsageError)
    for value in (None, " "):
        monkeypatch.delenv("WORKLOAD_TOKEN", raising=False)
        if value is not None:
            monkeypatch.setenv("WORKLOAD_TOKEN", value)
        done = acquire(WorkloadIdentity.from_environment("WORKLOAD_TOKEN"), {})
        assert isinstance(done.value, AuthError)
        assert "WORKLOAD_TOKEN holds no token" in str(done.value)


def test_a_function_that_fails_is_an_error_of_ours():
    def token():
        raise OSError("hunter2")

    done = acquire(WorkloadIdentity(token), {})
    assert isinstance(done.value, AuthError)
    assert isinstance(done.value.__cause__, OSError)
    assert "hunter2" not in str(done.value)
    assert done.asked == []


@pytest.mark.parametrize("token", [None, "", "a b", 5])
def test_what_is_no_token_of_a_workload_is_refused_at_once(token):
    with pytest.raises(UsageError):
        WorkloadIdentity(token)


def test_a_secret_without_a_name_is_refused():
    with pytest.raises(UsageError, match="belongs to a client_id"):
        WorkloadIdentity("a.b.c", client_secret="s")


# --- enterprise-managed --------------------------------------------------------------------------------

VOUCHED = {
    "access_token": "id.jag.x",
    "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
    "token_type": "N_A",
}
BOTH = {IDP_TOKEN: VOUCHED, TOKEN: GRANTED}


def enterprise(**values):
    given = {
        "client_id": "me",
        "client_secret": "s3cret",
        "subject_token": "id.tok.en",
        "idp_token_endpoint": IDP_TOKEN,
        "idp_client_id": "idp-me",
    }
    return EnterpriseManaged(**{**given, **values})


def test_the_provider_vouches_and_the_authorization_server_gives_a_token():
    done = acquire(enterprise(), BOTH, scope="a b")
    assert done.value == Grant(ISSUER, SERVER, "me", "at", "Bearer", NOW + 60, requested="a b")
    exchange, request = done.asked
    assert (exchange.method, exchange.url) == ("POST", IDP_TOKEN)
    assert exchange.form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "audience": ISSUER,
        "resource": SERVER,
        "scope": "a b",
        "subject_token": "id.tok.en",
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "client_id": "idp-me",
    }
    assert "Authorization" not in exchange.headers
    assert request.form == {
        "grant_type": JWT_BEARER,
        "assertion": "id.jag.x",
        "scope": "a b",
        "resource": SERVER,
    }
    assert request.headers["Authorization"] == basic("me", "s3cret")


def test_the_token_endpoint_of_the_provider_is_looked_up():
    metadata = {"issuer": IDP, "token_endpoint": IDP_TOKEN}
    replies = {**BOTH, IDP + "/.well-known/openid-configuration": metadata}
    done = acquire(enterprise(idp_token_endpoint=None, idp_issuer=IDP), replies)
    assert done.value.access_token == "at"
    assert done.urls == [
        IDP + "/.well-known/oauth-authorization-server",
        IDP + "/.well-known/openid-configuration",
        IDP_TOKEN,
        TOKEN,
    ]


def test_a_provider_that_cannot_be_found_or_claims_to_be_another_gets_no_token_to_see():
    auth = enterprise(idp_token_endpoint=None, idp_issuer=IDP)
    done = acquire(auth, BOTH)
    assert isinstance(done.value, AuthError)
    assert IDP in str(done.value)
    lie = {"issuer": "https://other.example", "token_endpoint": IDP_TOKEN}
    done = acquire(auth, {**BOTH, IDP + "/.well-known/oauth-authorization-server": lie})
    assert isinstance(done.value, IssuerMismatch)
    assert IDP_TOKEN not in done.urls


def test_the_endpoint_of_the_provider_needs_no_lookup_where_it_is_given_with_the_issuer():
    auth = enterprise(idp_issuer=IDP, idp_client_id="idp-me", idp_private_key=KEY)
    done = acquire(auth, BOTH)
    assert done.urls == [IDP_TOKEN, TOKEN]
    assert checked(done.asked[0].form["client_assertion"])["aud"] == IDP


def test_the_client_authenticates_at_both_with_what_each_knows_it_by():
    auth = enterprise(idp_client_secret="idp-s3cret", client_secret=None, private_key=KEY)
    done = acquire(auth, BOTH)
    exchange, request = done.asked
    assert exchange.headers["Authorization"] == basic("idp-me", "idp-s3cret")
    assert "client_assertion" not in exchange.form
    claims = checked(request.form["client_assertion"])
    assert (claims["sub"], claims["aud"]) == ("me", ISSUER)
    assert "s3cret" not in str(request.form)


def test_no_secret_is_needed_anywhere():
    done = acquire(enterprise(client_secret=None, idp_client_id=None), BOTH)
    exchange, request = done.asked
    assert "client_id" not in exchange.form
    assert request.form["client_id"] == "me"
    assert not any("Authorization" in asked.headers for asked in done.asked)


def test_the_token_of_the_user_is_asked_for_each_time_and_may_be_of_another_kind():
    tokens = iter(["t1", "t2"])
    saml = "urn:ietf:params:oauth:token-type:saml2"
    auth = enterprise(subject_token=lambda: next(tokens), subject_token_type=saml)
    for token in ("t1", "t2"):
        form = acquire(auth, BOTH).asked[0].form
        assert (form["subject_token"], form["subject_token_type"]) == (token, saml)


def test_a_user_who_has_to_log_in_is_told_so_by_the_function():
    def token():
        raise AuthorizationRequired("log in", url=IDP + "/login")

    done = acquire(enterprise(subject_token=token), BOTH)
    assert isinstance(done.value, AuthorizationRequired)
    assert done.value.url == IDP + "/login"


def test_what_the_provider_allows_is_what_is_asked_for():
    done = acquire(enterprise(), {**BOTH, IDP_TOKEN: {**VOUCHED, "scope": "a"}}, scope="a b")
    assert done.asked[1].form["scope"] == "a"
    assert done.value.requested == "a"


@pytest.mark.parametrize("kind", [None, "urn:ietf:params:oauth:token-type:access_token"])
def test_a_token_of_the_provider_itself_is_not_passed_on(kind):
    done = acquire(enterprise(), {**BOTH, IDP_TOKEN: {**VOUCHED, "issued_token_type": kind}})
    assert isinstance(done.value, TokenRequestFailed)
    assert "ID-JAG" in str(done.value)
    assert done.value.url == IDP_TOKEN
    assert done.urls == [IDP_TOKEN]


@pytest.mark.parametrize(("where", "url"), [("provider", IDP_TOKEN), ("server", TOKEN)])
def test_a_refusal_of_either_says_whose_it_is_and_shows_no_secret(where, url):
    refusal = answer({"error": "invalid_grant", "error_description": "id.tok.en id.jag.x s3cret"}, 400)
    done = acquire(enterprise(), {**BOTH, url: refusal})
    assert isinstance(done.value, TokenRequestFailed)
    assert (done.value.url, done.value.error) == (url, "invalid_grant")
    shown = {"provider": "id.tok.en", "server": "id.jag.x"}[where]
    assert shown not in str(done.value)


def test_a_provider_that_is_down_is_worth_another_try():
    down = TokenRequestFailed("no connection", url=IDP_TOKEN, transient=True)
    done = acquire(enterprise(), {**BOTH, IDP_TOKEN: down})
    assert done.value is down


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"idp_token_endpoint": None}, "is not known"),
        ({"idp_token_endpoint": "http://idp.example/token"}, "must be an https URL"),
        ({"idp_issuer": "idp.example"}, "must be an https URL"),
        ({"subject_token": None}, "subject_token"),
        ({"subject_token": "a b"}, "subject_token"),
        ({"client_id": ""}, "client_id"),
        ({"idp_client_id": None, "idp_client_secret": "s"}, "belongs to an idp_client_id"),
        ({"idp_private_key_alg": "ES256"}, "but no key"),
        ({"idp_private_key": KEY, "idp_client_id": None}, "idp_client_id"),
        ({"private_key": KEY}, "either a client_secret or a private_key"),
        ({"subject_token_type": ""}, "subject_token_type"),
    ],
)
def test_an_enterprise_that_cannot_be_is_refused_at_once(values, words):
    with pytest.raises(UsageError, match=words):
        enterprise(**values)


# --- device --------------------------------------------------------------------------------------------

BEGUN = {
    "device_code": "dev.code",
    "user_code": "ABCD-EFGH",
    "verification_uri": "https://as.example/device",
    "verification_uri_complete": "https://as.example/device?user_code=ABCD-EFGH",
    "expires_in": 600,
    "interval": 5,
}
PENDING = answer({"error": "authorization_pending"}, 400)
SLOW = answer({"error": "slow_down"}, 400)


def device(replies, begun=BEGUN, scope=None, found=None, **values):
    """Go through the device flow; return the outcome, and what was shown."""
    shown = []
    auth = DeviceCode(**{"client_id": "me", "show": shown.append, **values})
    found = found or server(device_authorization_endpoint=DEVICE)
    return acquire(auth, {DEVICE: begun, TOKEN: replies}, found, scope), shown


def test_the_user_is_shown_a_code_and_the_server_asked_until_they_have_agreed():
    done, shown = device([PENDING, PENDING, answer({**GRANTED, "refresh_token": "rt"})], scope="a")
    assert done.value == Grant(
        ISSUER, SERVER, "me", "at", "Bearer", NOW + 15 + 60, refresh_token="rt", requested="a"
    )
    assert done.pauses == [5, 5, 5]
    begin, *polls = done.asked
    assert (begin.method, begin.url) == ("POST", DEVICE)
    assert begin.form == {"client_id": "me", "scope": "a", "resource": SERVER}
    assert [poll.url for poll in polls] == [TOKEN] * 3
    assert polls[0].form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
        "device_code": "dev.code",
        "client_id": "me",
        "scope": "a",
        "resource": SERVER,
    }
    assert shown == [
        DevicePrompt("ABCD-EFGH", BEGUN["verification_uri"], BEGUN["verification_uri_complete"], 600)
    ]


def test_what_is_shown_is_a_sentence_to_be_printed(capsys):
    auth = DeviceCode("me")
    found = server(device_authorization_endpoint=DEVICE)
    acquire(auth, {DEVICE: BEGUN, TOKEN: GRANTED}, found)
    line = capsys.readouterr().out
    assert BEGUN["verification_uri"] in line
    assert "ABCD-EFGH" in line
    assert BEGUN["verification_uri_complete"] in line


def test_a_server_that_asks_for_patience_gets_it():
    done, _ = device([PENDING, SLOW, PENDING, SLOW, answer(GRANTED)])
    assert done.value.access_token == "at"
    assert done.pauses == [5, 5, 10, 10, 15]


def test_a_server_may_refuse_with_the_status_of_a_success():
    # GitHub does.
    replies = [answer({"error": "authorization_pending"}), answer({"error": "slow_down"}), answer(GRANTED)]
    done, _ = device(replies)
    assert done.value.access_token == "at"
    assert done.pauses == [5, 5, 10]


def test_a_server_that_cannot_be_reached_for_a_while_is_asked_less_often():
    lost = TokenRequestFailed("no connection", url=TOKEN, transient=True)
    done, _ = device([lost, 503, lost, lost, lost, lost, answer(GRANTED)])
    assert done.value.access_token == "at"
    assert done.pauses == [5, 10, 20, 40, 60, 60, 60]


@pytest.mark.parametrize(
    ("given", "pause"),
    [
        ({}, 5),
        ({"interval": None}, 5),
        ({"interval": 7}, 7),
        ({"interval": "3"}, 3),
        ({"interval": 0}, 1),
        ({"interval": -4}, 1),
    ],
)
def test_the_server_says_how_often_it_may_be_asked(given, pause):
    begun = {name: value for name, value in BEGUN.items() if name != "interval"}
    done, _ = device([answer(GRANTED)], {**begun, **given})
    assert done.pauses == [pause]


def test_a_code_that_nobody_confirms_expires():
    done, _ = device([PENDING] * 9, {**BEGUN, "expires_in": 12})
    assert isinstance(done.value, TokenRequestFailed)
    assert done.value.error == "expired_token"
    assert "has expired" in str(done.value)
    assert done.pauses == [5, 5, 2]


@pytest.mark.parametrize("lifetime", [None, 0, -5, "soon"])
def test_a_code_without_a_usable_lifetime_has_an_ordinary_one(lifetime):
    done, shown = device([PENDING] * 500, {**BEGUN, "expires_in": lifetime})
    assert done.value.error == "expired_token"
    assert sum(done.pauses) == shown[0].expires_in == 600


def test_nobody_waits_for_ever():
    done, _ = device([PENDING] * 1000, {**BEGUN, "expires_in": 10**9})
    assert done.value.error == "expired_token"
    assert sum(done.pauses) == 3600


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("access_denied", AccessDenied),
        ("expired_token", TokenRequestFailed),
        ("invalid_grant", TokenRequestFailed),
    ],
)
def test_a_refusal_of_the_user_or_the_server_ends_it(error, kind):
    done, _ = device([PENDING, answer({"error": error}, 400)])
    assert type(done.value) is kind
    assert done.value.error == error
    assert len(done.pauses) == 2


def test_a_server_without_the_flow_is_asked_nothing():
    done, shown = device([], found=server())
    assert isinstance(done.value, AuthError)
    assert "does not offer the device flow" in str(done.value)
    assert (done.asked, shown) == ([], [])


@pytest.mark.parametrize(
    "missing",
    [
        {"device_code": None},
        {"user_code": ""},
        {"verification_uri": None},
        {"verification_uri": "http://as.example/device"},
        {"verification_uri": "javascript:alert(1)"},
        {"verification_uri": "https://as.example/\x1b[2J"},
    ],
)
def test_an_answer_that_cannot_be_shown_is_no_answer(missing):
    done, shown = device([], {**BEGUN, **missing})
    assert isinstance(done.value, TokenRequestFailed)
    assert "is missing" in str(done.value)
    assert done.value.url == DEVICE
    assert shown == []


@pytest.mark.parametrize(
    "reply",
    [
        answer(b"<html>"),
        answer({"error": "invalid_client"}, 401),
        answer({**BEGUN, "error": "device_flow_disabled"}),
        503,
    ],
)
def test_a_server_that_gives_no_code_says_why(reply):
    done, shown = device([], reply)
    assert isinstance(done.value, TokenRequestFailed)
    assert "gave no code for the user" in str(done.value)
    assert shown == []


def test_a_link_that_is_not_safe_is_left_out_and_a_code_cannot_command_the_terminal():
    begun = {**BEGUN, "verification_uri_complete": "file:///etc", "user_code": "AB\x1b[2JCD"}
    _, shown = device([answer(GRANTED)], begun)
    assert shown[0].verification_uri_complete is None
    assert "\x1b" not in str(shown[0])


def test_an_older_name_of_the_address_is_understood():
    begun = {name: value for name, value in BEGUN.items() if not name.startswith("verification")}
    _, shown = device([answer(GRANTED)], {**begun, "verification_url": "https://as.example/device"})
    assert shown[0].verification_uri == "https://as.example/device"


def test_a_client_that_is_not_known_registers_for_the_flow():
    def both(registration):
        shown = []
        auth = DeviceCode(show=shown.append, client_name="my app")
        replies = {ISSUER + "/register": registration, DEVICE: BEGUN, TOKEN: GRANTED}
        return acquire(auth, replies, server(device_authorization_endpoint=DEVICE))

    done = both(answer({"client_id": "new"}, 201))
    assert done.value.client_id == "new"
    asked = done.asked[0].json
    assert asked["client_name"] == "my app"
    assert asked["grant_types"] == ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"]
    assert "redirect_uris" not in asked
    assert isinstance(both(404).value, RegistrationFailed)


def test_a_client_that_authenticates_does_so_at_both_endpoints():
    done, _ = device([answer(GRANTED)], client_secret="s3cret")
    assert [asked.headers["Authorization"] for asked in done.asked] == [basic("me", "s3cret")] * 2
    done, _ = device([answer(GRANTED)], private_key=KEY)
    assert [checked(asked.form["client_assertion"])["aud"] for asked in done.asked] == [ISSUER] * 2


def test_a_refresh_token_is_asked_for_where_the_server_knows_the_scope_for_it():
    found = server(device_authorization_endpoint=DEVICE, scopes_supported=["a", "offline_access"])
    done, _ = device([answer(GRANTED)], scope="a", found=found)
    assert [asked.form["scope"] for asked in done.asked] == ["a offline_access"] * 2


def test_a_code_that_cannot_be_shown_is_an_error_of_ours():
    def show(prompt):
        raise OSError("no terminal")

    done, _ = device([answer(GRANTED)], show=show)
    assert isinstance(done.value, AuthError)
    assert isinstance(done.value.__cause__, OSError)
    assert done.pauses == []


def test_an_error_of_ours_from_what_shows_the_code_stays_what_it_is():
    failure = AuthorizationRequired("elsewhere")

    def show(prompt):
        raise failure

    assert device([answer(GRANTED)], show=show)[0].value is failure


def test_what_cannot_show_is_refused():
    for show in (None, "print"):
        with pytest.raises(UsageError, match="show"):
            DeviceCode("me", show=show)


# --- all of them ---------------------------------------------------------------------------------------


def test_no_secret_is_shown():
    auths = [
        ClientCredentials("me", "s3cret"),
        ClientCredentials("me", private_key=KEY),
        WorkloadIdentity("s3cret", "me"),
        WorkloadIdentity("s3cret"),
        enterprise(subject_token="s3cret", idp_client_secret="s3cret"),
        DeviceCode("me", "s3cret"),
    ]
    for auth in auths:
        assert "s3cret" not in f"{auth!r} {auth} {auth.identity!r}"
        assert type(auth).__name__ in repr(auth)
    prompt = DevicePrompt("CODE", "https://as.example/device", "https://as.example/device?code=CODE", 600)
    assert "CODE" not in repr(prompt)


def test_only_the_device_flow_needs_a_person():
    assert DeviceCode("me")._interactive
    assert not ClientCredentials("me", "s")._interactive
    assert not WorkloadIdentity("t")._interactive
    assert not enterprise()._interactive


def test_a_keyword_that_nobody_knows_is_an_error_that_names_it():
    with pytest.raises(UsageError, match="ClientCredentials has no argument scope"):
        ClientCredentials("me", "s", scope=["a"])
    with pytest.raises(UsageError, match="WorkloadIdentity has no argument tokn"):
        WorkloadIdentity("t", tokn=1)

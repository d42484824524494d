"""Errors: one root, attributes that survive pickling and copying, the right class for each code."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from mcp_sync import errors
from mcp_sync.errors import (
    AccessDenied,
    AnswerInvalid,
    AppRejected,
    AuthError,
    AuthorizationRequired,
    CallCancelled,
    CallTimeout,
    ClientClosed,
    ConnectFailed,
    ConnectionLost,
    DigestMismatch,
    EnvelopeRejected,
    FolderRefused,
    Forked,
    HTTPStatusError,
    InputRequired,
    InputRoundsExceeded,
    InsufficientScope,
    InvalidHandle,
    InvalidMessage,
    InvalidResult,
    IssuerMismatch,
    MCPError,
    MessageTooLarge,
    NegotiationFailed,
    NotSupported,
    OutputInvalid,
    ProtocolError,
    RegistrationFailed,
    RemoteError,
    SessionExpired,
    SkillRejected,
    TaskGone,
    TokenRequestFailed,
    ToolFailed,
    TransportError,
    UnsafeURL,
    UsageError,
    remote_error,
)

EXAMPLES = [
    MCPError("words"),
    UsageError("words"),
    ClientClosed("words"),
    NotSupported("words", method="ping", version="2026-07-28"),
    Forked("words"),
    TransportError("words", request_sent=None),
    ConnectFailed("words", returncode=3, stderr_tail="tail"),
    ConnectionLost("words", returncode=-9, stderr_tail="tail", request_sent=True),
    HTTPStatusError(
        "words",
        status=503,
        headers={"retry-after": "3"},
        body_excerpt="busy",
        retry_after=3.0,
        url="https://h/mcp",
        request_sent=True,
    ),
    SessionExpired("words", request_sent=False),
    MessageTooLarge("words", limit=7, request_sent=True),
    CallTimeout("words", timeout=2.5, request_sent=True),
    CallCancelled("words", reason="because", request_sent=False),
    ProtocolError("words"),
    InvalidMessage("words", excerpt="rubbish", request_id=7),
    InvalidResult("words", result={"a": [1]}),
    NegotiationFailed("words", client_versions=("1",), server_versions=("2", "3")),
    InputRoundsExceeded("words"),
    RemoteError(-1, "words", {"a": 1}, status=400, method="tools/call", peer="https://h/mcp"),
    EnvelopeRejected("words", reason="server"),
    InvalidHandle("words", reason="principal"),
    TaskGone(-32602, "words", task_id="7"),
    FolderRefused("words", path="/a"),
    SkillRejected("words", uri="skill://a/SKILL.md", path="b", reason="path"),
    DigestMismatch("words", uri="skill://a/SKILL.md", path="b", expected="sha256:0", actual="sha256:1"),
    AppRejected("words", uri="ui://a", reason="policy"),
    AnswerInvalid("words", key="k", faults={"age": "at least 18"}),
    UnsafeURL("words", url="ftp://h/"),
    InputRequired("words", envelope={"requests": {"k": {"method": "roots/list"}}}),
    ToolFailed("words", result={"isError": True}),
    OutputInvalid("words", result={"n": "1"}),
    AuthError("words", url="https://as.example/token"),
    AuthorizationRequired("words", url="https://as.example/authorize"),
    AccessDenied("words", error="access_denied"),
    RegistrationFailed("words"),
    TokenRequestFailed("words", error="invalid_grant", status=400, transient=False),
    IssuerMismatch("words", expected="https://a", actual="https://b"),
    InsufficientScope("words", scopes=("read", "write")),
    *(remote_error(code, "words", [1], status=404) for code in errors._remote._BY_CODE),
]


def ids(error):
    return type(error).__name__


def test_there_is_an_example_of_every_class():
    classes = {
        value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, MCPError)
    }
    assert classes == {type(example) for example in EXAMPLES}


@pytest.mark.parametrize("error", EXAMPLES, ids=ids)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_survives_pickling_with_all_it_knows(error, protocol):
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert again.args == error.args
    assert str(again) == str(error)
    assert repr(again) == repr(error)


@pytest.mark.parametrize("error", EXAMPLES, ids=ids)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_an_error_can_be_copied_with_all_it_knows_and_without_its_traceback(error, duplicate):
    try:
        raise error
    except MCPError as raised:
        again = duplicate(raised)
    assert again is not error
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert (again.args, str(again)) == (error.args, str(error))
    assert again.__traceback__ is None


def test_a_copy_does_not_share_its_attributes_with_the_original():
    error = ConnectionLost("words", request_sent=None)
    again = copy.copy(error)
    again.request_sent = True
    assert error.request_sent is None


@pytest.mark.parametrize("error", EXAMPLES, ids=ids)
def test_an_error_shows_its_words(error):
    assert "words" in str(error)
    assert "words" in repr(error)


def test_a_timeout_is_a_timeout_of_python_too():
    error = CallTimeout("words", timeout=2)
    assert isinstance(error, TimeoutError)
    assert str(error) == "words"
    assert error.args == ("words",)
    assert error.errno is None
    with pytest.raises(TimeoutError):
        raise error


@pytest.mark.parametrize(
    ("error", "families"),
    [
        (ClientClosed("x"), (UsageError,)),
        (Forked("x"), (UsageError,)),
        (EnvelopeRejected("x"), (UsageError,)),
        (FolderRefused("x"), (UsageError,)),
        (DigestMismatch("x"), (ProtocolError,)),
        (AppRejected("x"), (ProtocolError,)),
        (AnswerInvalid("x"), (UsageError,)),
        (UnsafeURL("x"), (ProtocolError,)),
        (ConnectFailed("x"), (TransportError,)),
        (ConnectionLost("x"), (TransportError,)),
        (SessionExpired("x"), (TransportError,)),
        (HTTPStatusError("x", status=1), (TransportError,)),
        (MessageTooLarge("x", limit=1), (TransportError,)),
        (InvalidMessage("x"), (ProtocolError,)),
        (InvalidResult("x"), (ProtocolError,)),
        (NegotiationFailed("x"), (ProtocolError,)),
        (InputRoundsExceeded("x"), (ProtocolError,)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_belong_to_their_families_and_to_no_other(error, families):
    roots = (UsageError, TransportError, ProtocolError, RemoteError, AuthError, CallTimeout, CallCancelled)
    assert tuple(root for root in roots if isinstance(error, root)) == families


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (-32700, "ParseError"),
        (-32600, "InvalidRequest"),
        (-32601, "MethodNotFound"),
        (-32602, "InvalidParams"),
        (-32603, "InternalError"),
        (-32020, "HeaderMismatch"),
        (-32021, "MissingClientCapability"),
        (-32022, "UnsupportedProtocolVersion"),
        (-32002, "ResourceNotFound"),
        (-32042, "UrlElicitationRequired"),
        (-32000, "RemoteError"),
        (0, "RemoteError"),
        (404, "RemoteError"),
    ],
)
def test_the_code_chooses_the_class(code, name):
    error = remote_error(code, "the server's words", {"k": 1}, status=400)
    assert type(error).__name__ == name
    assert (error.code, error.message, error.data, error.status) == (
        code,
        "the server's words",
        {"k": 1},
        400,
    )
    assert str(error) == f"the server's words ({code})"


def test_a_refusal_names_the_method_and_the_server_beside_its_words():
    error = remote_error(-32602, "bad x", method="tools/call", peer="https://h/mcp")
    assert str(error) == "tools/call: https://h/mcp answered: bad x (-32602)"
    assert (error.message, error.code, error.method, error.peer) == (
        *("bad x", -32602),
        *("tools/call", "https://h/mcp"),
    )


def test_a_failed_connection_says_that_nothing_was_sent():
    assert ConnectFailed("x").request_sent is False
    assert TransportError("x").request_sent is None


def test_headers_and_faults_are_copies_of_what_was_given():
    headers, faults = {"a": "1"}, {"k": "bad"}
    status, wrong = HTTPStatusError("x", status=1, headers=headers), AnswerInvalid("x", faults=faults)
    headers["b"] = "2"
    faults["l"] = "worse"
    assert (status.headers, wrong.faults) == ({"a": "1"}, {"k": "bad"})


def test_the_pages_to_visit_are_read_from_the_data_and_malformed_ones_left_out():
    page = {"mode": "url", "url": "https://h/", "message": "go", "elicitationId": "1"}
    error = remote_error(-32042, "first", {"elicitations": [page, {"url": 3}, None]})
    (found,) = pickle.loads(pickle.dumps(error)).elicitations
    assert (found.url, found.message, found.elicitation_id) == ("https://h/", "go", "1")


@pytest.mark.parametrize("data", [None, [], {}, {"elicitations": None}, {"elicitations": {}}])
def test_without_pages_there_are_none_to_visit(data):
    assert remote_error(-32042, "first", data).elicitations == []

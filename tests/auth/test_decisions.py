"""What is done about a refusal: a table of plain values."""

from __future__ import annotations

from typing import Any, Optional

import pytest

from mcp_sync.auth._challenge import Challenge
from mcp_sync.auth._decisions import (
    AUTHORIZE,
    NONCE,
    REFRESH,
    RESEND,
    STEP_UP,
    Case,
    GiveUp,
    Leave,
    Try,
    decide,
)
from mcp_sync.auth._records import Grant
from mcp_sync.errors import AuthError, AuthorizationRequired, InsufficientScope

SERVER = "https://h.example/mcp?key=secret"


def grant(token: str = "t", **values: Any) -> Grant:
    return Grant("https://as.example", SERVER, "me", token, **values)


def challenge(scheme: str = "bearer", **params: str) -> Challenge:
    return Challenge(scheme, params)


def case(status: int = 401, **values: Any) -> Case:
    return Case(SERVER, status, **values)


INVALID = challenge(error="invalid_token", error_description="no good")
WRITE = challenge(error="insufficient_scope", scope="write")
HELD = grant(refresh_token="r", requested="read", scope="read")


@pytest.mark.parametrize(
    ("what", "given", "expected"),
    [
        ("nobody has logged in", case(), Try(AUTHORIZE)),
        (
            "the challenge says nothing of OAuth",
            case(challenge=None, used="t", held=grant()),
            Try(AUTHORIZE),
        ),
        (
            "the token is refused",
            case(used="t", held=HELD, can_refresh=True, challenge=INVALID),
            Try(REFRESH),
        ),
        ("there is no refresh token", case(used="t", held=grant(), challenge=INVALID), Try(AUTHORIZE)),
        ("others were faster", case(used="old", held=HELD, can_refresh=True), Try(RESEND)),
        ("others were faster twice", case(used="old", held=HELD, tried=[RESEND]), Try(RESEND)),
        (
            "others are always faster",
            case(used="old", held=HELD, can_refresh=True, tried=[RESEND, RESEND]),
            Try(REFRESH),
        ),
        (
            "that of the others has expired",
            case(used="old", held=HELD, is_valid=False, can_refresh=True),
            Try(REFRESH),
        ),
        ("nobody was asked for the held one", case(used=None, held=HELD), Try(RESEND)),
        (
            "the refreshed token is refused, too",
            case(used="t", held=HELD, can_refresh=True, tried=[REFRESH], challenge=INVALID),
            Try(AUTHORIZE),
        ),
        (
            "the refreshed token has expired on the way",
            case(used="t", held=HELD, can_refresh=True, tried=[REFRESH] * 3, is_late=True),
            Try(REFRESH),
        ),
        (
            "the token of the others has expired on the way",
            case(used="old", held=HELD, can_refresh=True, tried=[RESEND] * 3, is_late=True),
            Try(RESEND),
        ),
        (
            "every token expires on the way",
            case(used="t", held=HELD, can_refresh=True, tried=[REFRESH] * 4, is_late=True),
            Try(AUTHORIZE),
        ),
        (
            "a proof needs a nonce",
            case(
                used="t",
                challenge=challenge("dpop", error="use_dpop_nonce"),
                brings_nonce=True,
                held=HELD,
                can_refresh=True,
            ),
            Try(NONCE),
        ),
        (
            "a nonce is asked for and not given",
            case(used="t", challenge=challenge("dpop", error="use_dpop_nonce"), held=HELD, can_refresh=True),
            Try(REFRESH),
        ),
        (
            "another token needs a nonce as well",
            case(
                used="t",
                challenge=challenge("dpop", error="use_dpop_nonce"),
                brings_nonce=True,
                held=HELD,
                can_refresh=True,
                tried=[NONCE, REFRESH],
            ),
            Try(NONCE),
        ),
        ("more is needed", case(403, used="t", held=HELD, challenge=WRITE), Try(STEP_UP, "read write")),
        (
            "more is needed, said by 401",
            case(401, used="t", held=HELD, challenge=WRITE),
            Try(STEP_UP, "read write"),
        ),
        (
            "what was asked for before stays",
            case(403, used="t", held=grant(requested="a b", scope="a"), challenge=WRITE),
            Try(STEP_UP, "a b write"),
        ),
        (
            "what was granted unasked stays",
            case(403, used="t", held=grant(scope="a"), challenge=WRITE),
            Try(STEP_UP, "a write"),
        ),
        (
            "others have agreed to more already",
            case(403, used="old", held=grant(scope="read write"), challenge=WRITE),
            Try(RESEND),
        ),
        (
            "others have a newer one for as little",
            case(403, used="old", held=HELD, challenge=WRITE),
            Try(STEP_UP, "read write"),
        ),
        ("a 403 without a challenge", case(403, used="t", held=HELD), Leave()),
        ("a 403 for another reason", case(403, used="t", held=HELD, challenge=INVALID), Leave()),
        ("a 403 without a token", case(403, challenge=WRITE), Leave()),
        ("another status", case(500, used="t", held=HELD, challenge=INVALID), Leave()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_refusal_has_its_answer(what: str, given: Case, expected: Any) -> None:
    assert decide(given) == expected


def given_up(given: Case) -> AuthError:
    decision = decide(given)
    assert isinstance(decision, GiveUp), decision
    return decision.error


@pytest.mark.parametrize("tried", [[AUTHORIZE], [REFRESH, AUTHORIZE], [STEP_UP]])
def test_a_new_token_that_is_refused_ends_it_in_the_words_of_the_server(tried: list[str]) -> None:
    error = given_up(case(used="t", held=HELD, can_refresh=True, tried=tried, challenge=INVALID))
    assert str(error) == "https://h.example/mcp refuses a new token as well: invalid_token: no good"
    assert error.url == "https://h.example/mcp"


def test_a_server_that_does_not_take_its_own_nonce_costs_no_token() -> None:
    said = challenge("dpop", error="use_dpop_nonce")
    refused = case(
        used="t", challenge=said, brings_nonce=True, held=HELD, can_refresh=True, tried=[REFRESH, NONCE]
    )
    assert "refuses a proof with the nonce that it has just given" in str(given_up(refused))


@pytest.mark.parametrize(
    ("scheme", "token_type", "is_said"),
    [("dpop", "Bearer", True), ("dpop", "DPoP", False), ("bearer", "Bearer", False)],
)
def test_a_server_that_takes_bound_tokens_alone_is_told_apart(scheme, token_type, is_said) -> None:
    held = grant(token_type=token_type)
    error = given_up(case(used="t", held=held, tried=[AUTHORIZE], challenge=challenge(scheme)))
    assert ("give dpop=True" in str(error)) == is_said


def test_where_nobody_may_be_asked_a_login_is_required() -> None:
    error = given_up(case(may_ask=False))
    assert isinstance(error, AuthorizationRequired)
    assert error.url == ""
    assert "secret" not in str(error)


def test_without_anybody_to_ask_a_token_is_refreshed_all_the_same() -> None:
    assert decide(case(used="t", held=HELD, can_refresh=True, may_ask=False)) == Try(REFRESH)


@pytest.mark.parametrize(
    ("held", "tried", "asked", "said"),
    [
        (HELD, [STEP_UP], [], WRITE),
        (grant(scope="read write"), [], [], WRITE),
        (HELD, [], [frozenset({"read", "write"})], WRITE),
        (HELD, [], [], challenge(error="insufficient_scope")),
        (HELD, [], [], challenge(error="insufficient_scope", scope='"')),
    ],
    ids=[
        "asked in this request",
        "granted already",
        "asked before",
        "no scope named",
        "no scope that can be",
    ],
)
def test_a_step_up_that_cannot_help_is_not_made(
    held: Grant, tried: list[str], asked: list[frozenset[str]], said: Challenge
) -> None:
    error = given_up(case(403, used="t", held=held, tried=tried, asked=asked, challenge=said))
    assert isinstance(error, InsufficientScope)
    assert error.scopes == (("write",) if said is WRITE else ())


def test_where_nobody_may_be_asked_a_step_up_is_an_error_that_names_the_scopes() -> None:
    error = given_up(case(403, used="t", held=HELD, challenge=WRITE, may_ask=False))
    assert isinstance(error, InsufficientScope)
    assert error.scopes == ("write",)


def test_two_operations_do_not_take_each_others_scopes_away() -> None:
    held: Optional[Grant] = grant(requested="read", scope="read")
    step = decide(case(403, used="t", held=held, challenge=WRITE))
    assert isinstance(step, Try)
    wider = grant("t2", requested=step.scope, scope=step.scope)
    back = challenge(error="insufficient_scope", scope="read admin")
    assert decide(case(403, used="t2", held=wider, challenge=back)) == Try(STEP_UP, "read write admin")


def test_whatever_a_server_says_the_end_is_near() -> None:
    """Follow the decisions against a server that refuses everything, in each of its ways."""
    for status, said in [
        (401, INVALID),
        (401, None),
        (403, WRITE),
        (401, WRITE),
        (401, challenge("dpop", error="use_dpop_nonce")),
    ]:
        tried: list[str] = []
        while True:
            decision = decide(
                case(
                    status,
                    used="t",
                    held=HELD,
                    can_refresh=True,
                    tried=tried,
                    challenge=said,
                    brings_nonce=True,
                )
            )
            if not isinstance(decision, Try):
                break
            tried.append(decision.what)
        assert isinstance(decision, GiveUp)
        assert len(tried) <= 3
        assert len(set(tried)) == len(tried)

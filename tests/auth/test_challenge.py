"""Reading of WWW-Authenticate."""

from __future__ import annotations

import random

import pytest

from mcp_sync.auth._challenge import Challenge, parse_challenges, relevant_challenge


def bearer(*values: str) -> dict[str, str]:
    challenge = relevant_challenge(list(values), schemes=("bearer",))
    assert challenge is not None
    return dict(challenge.params)


def test_a_comma_inside_quotes_separates_nothing():
    value = 'Basic realm="a, b", Bearer scope="x y", resource_metadata="https://h/p?a=1,2"'
    assert parse_challenges([value]) == [
        Challenge("basic", {"realm": "a, b"}),
        Challenge("bearer", {"scope": "x y", "resource_metadata": "https://h/p?a=1,2"}),
    ]


def test_parameters_of_another_scheme_are_not_taken():
    assert bearer('DPoP algs="ES256", Bearer error="invalid_token"') == {"error": "invalid_token"}
    assert bearer('Basic scope="bad", Bearer') == {}


@pytest.mark.parametrize(
    "values",
    [
        ['Negotiate, Bearer scope="good"'],
        ['Negotiate dG9rZW4=, Bearer scope="good"'],
        ["Negotiate", 'Bearer scope="good"'],
        ['Basic realm="x"', 'bearer SCOPE="good"'],
        ["BEARER scope=good"],
        ['Bearer scope = "good"'],
        ['Bearer scope\t=\t"good"'],
        ['Bearer xscope="bad", scope="good"'],
        [', , Bearer , ,scope="good",'],
        ['Bearer "stray" scope="good"'],
        ['()Bearer scope="good"'],
        ['lost="x", Bearer scope="good"'],
    ],
)
def test_the_scope_is_found_in_every_legal_form_and_in_some_others(values):
    assert bearer(*values) == {"scope": "good"} or bearer(*values) == {"xscope": "bad", "scope": "good"}


def test_quoted_pairs_lose_their_backslash():
    params = bearer('Bearer error_description="say \\"hi, there\\" \\\\o/", scope="x"')
    assert params == {"error_description": 'say "hi, there" \\o/', "scope": "x"}


def test_an_unquoted_url_is_taken_up_to_the_comma():
    params = bearer("Bearer resource_metadata=https://h/p?a=1, scope=x")
    assert params == {"resource_metadata": "https://h/p?a=1", "scope": "x"}


def test_a_missing_comma_is_forgiven():
    assert bearer('Bearer error="e" scope="x y" realm=z') == {"error": "e", "scope": "x y", "realm": "z"}


def test_a_parameter_that_came_twice_with_different_values_does_not_count():
    params = bearer('Bearer resource_metadata="https://h/1", scope="x", resource_metadata="https://h/2"')
    assert params == {"scope": "x"}
    assert bearer('Bearer scope="x", scope="x"') == {"scope": "x"}
    assert bearer('Bearer scope="x", scope="y", scope="x"') == {}


def test_the_headers_may_be_given_in_any_case():
    assert relevant_challenge({"WWW-authenticate": "Bearer scope=x"}) == Challenge("bearer", {"scope": "x"})
    assert relevant_challenge({"Content-Type": "text/html"}) is None


def test_a_challenge_that_tells_something_comes_before_one_that_does_not():
    silent_bearer = 'Bearer, DPoP algs="ES256", resource_metadata="https://h/p"'
    dpop = {"algs": "ES256", "resource_metadata": "https://h/p"}
    assert relevant_challenge([silent_bearer]) == Challenge("dpop", dpop)
    first = relevant_challenge(['Bearer realm="x"', 'Bearer error="invalid_token"'])
    assert first == Challenge("bearer", {"error": "invalid_token"})
    assert relevant_challenge(['Bearer realm="x"']) == Challenge("bearer", {"realm": "x"})


def test_bearer_comes_before_dpop_unless_asked_otherwise():
    value = 'DPoP error="a", Bearer error="b"'
    assert relevant_challenge([value]) == Challenge("bearer", {"error": "b"})
    assert relevant_challenge([value], schemes=("dpop", "bearer")) == Challenge("dpop", {"error": "a"})


def test_no_challenge_of_these_schemes_is_none():
    assert relevant_challenge(['Basic realm="x"']) is None
    assert relevant_challenge([]) is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        ",",
        "=",
        '"',
        'Bearer scope="never closed',
        "Bearer =",
        "Bearer ==",
        "\x00\xff",
        "Bearer a=b=c",
    ],
)
def test_garbage_raises_nothing(value):
    parse_challenges([value])


def test_an_open_quotation_mark_hides_what_follows():
    assert bearer('Bearer error="e", scope="never closed, x=y') == {"error": "e"}


def test_what_is_no_text_is_skipped():
    assert parse_challenges([None, "Bearer"]) == [Challenge("bearer", {})]  # type: ignore[list-item]


def test_random_garbage_raises_nothing_and_takes_no_time():
    dice = random.Random(9110)
    for _ in range(2000):
        text = "".join(dice.choice('Bearer scope="x",\\ \t=;\x00é') for _ in range(dice.randrange(60)))
        for challenge in parse_challenges([text]):
            assert challenge.scheme == challenge.scheme.lower()
    for piece in ("a ", "a=", '"', '\\"', "a=b ", "Bearer x= ", 'a="', "=" * 9 + " "):
        parse_challenges([piece * 20_000])

"""Whether a request is sent again after a failure, and when a broken stream is taken up."""

from __future__ import annotations

import pytest

from mcp_sync._protocol.methods import CALL_TOOL, INITIALIZE, LIST_TOOLS, METHODS, spec_of
from mcp_sync._protocol.recovery import (
    Again,
    Attempts,
    Drops,
    Outage,
    after_failure,
    ends_resumption,
    may_have_acted,
    means_lost_session,
    outage_delay,
    reopening_delay,
    resume_delay,
)
from mcp_sync.errors import (
    AuthorizationRequired,
    CallCancelled,
    CallTimeout,
    ClientClosed,
    ConnectFailed,
    ConnectionLost,
    Forked,
    HTTPStatusError,
    InternalError,
    InvalidMessage,
    MessageTooLarge,
    MethodNotFound,
    NegotiationFailed,
    NotSupported,
    SessionExpired,
    TokenRequestFailed,
)
from mcp_sync.options import Retry

RETRY = Retry()


def status(number, retry_after=None):
    return HTTPStatusError("refused", status=number, retry_after=retry_after)


def decide(*failures, spec=CALL_TOOL, retry=RETRY, left=100.0, reopens=True, shared=False, chance=0.5):
    return after_failure(failures, spec, retry, left, reopens=reopens, shared=shared, chance=chance)


EXPIRED = SessionExpired("unknown session", request_sent=False)
LOST = ConnectionLost("broke", request_sent=True)
UNSENT = ConnectionLost("gone before", request_sent=False)


@pytest.mark.parametrize(
    ("error", "tool", "listing"),
    [
        (status(429), Again(1.0), Again(1.0)),
        (status(429, 7.0), Again(7.0), Again(7.0)),
        (status(429, 0.0), Again(0.0), Again(0.0)),
        (status(503, 7.0), Again(7.0), Again(7.0)),
        (status(503), None, Again(1.0)),
        (status(502), None, Again(1.0)),
        (status(504), None, Again(1.0)),
        (status(500), None, None),
        (status(500, 1.0), None, None),
        (status(401), None, None),
        (status(403), None, None),
        (status(404), None, None),
        (LOST, None, Again(1.0)),
        (ConnectionLost("who knows"), None, Again(1.0)),
        (UNSENT, Again(anew=True), Again(anew=True)),
        (ConnectFailed("refused"), None, None),
        (CallTimeout("late", request_sent=False), None, None),
        (InvalidMessage("rubbish"), None, None),
        (EXPIRED, Again(anew=True), Again(anew=True)),
        (SessionExpired("unknown", request_sent=True), None, None),
    ],
)
def test_what_follows_a_failure(error, tool, listing):
    assert decide(error) == tool
    assert decide(error, spec=LIST_TOOLS) == listing


def test_only_what_changes_nothing_may_be_sent_twice():
    changing = {spec.method for spec in METHODS.values() if not spec.idempotent}
    assert changing == {"initialize", "tools/call", "subscriptions/listen"}
    assert not spec_of("vendor/unknown").idempotent


def test_a_wait_that_is_too_long_is_the_callers():
    assert decide(status(429, 30.0)) == Again(30.0)
    assert decide(status(429, 30.1)) is None
    assert decide(status(429, 86400.0)) is None
    assert decide(status(429, 86400.0), retry=Retry(longest_wait=100_000), left=None) == Again(86400.0)


def test_nothing_waits_beyond_the_time_of_the_call():
    assert decide(status(429, 5.0), left=5.1) == Again(5.0)
    assert decide(status(429, 5.0), left=5.0) is None
    assert decide(status(429, 5.0), left=None) == Again(5.0)
    assert decide(LOST, spec=LIST_TOOLS, left=0.5) is None


def test_attempts_are_counted():
    assert decide(status(429, 1.0), status(429, 1.0)) == Again(1.0)
    assert decide(status(429, 1.0), status(429, 1.0), status(429, 1.0)) is None
    assert decide(status(429, 1.0), retry=Retry(attempts=1)) is None
    assert decide(UNSENT, retry=Retry(attempts=1)) is None


def test_the_wait_doubles_and_is_spread():
    assert decide(status(429), status(429)) == Again(2.0)
    assert decide(status(429), status(429), chance=0.0) == Again(1.0)
    assert decide(status(429), status(429), chance=1.0) == Again(3.0)
    assert decide(status(429), retry=Retry(backoff=0.1)) == Again(0.1)


def test_an_expired_session_is_replaced_once_whatever_else_fails():
    assert decide(EXPIRED, EXPIRED) is None
    assert decide(EXPIRED, status(429, 1.0), EXPIRED) is None
    assert decide(status(429, 1.0), status(429, 1.0), EXPIRED) == Again(anew=True)
    assert decide(EXPIRED, retry=Retry(attempts=1)) == Again(anew=True)


def test_who_may_not_reopen_does_not():
    assert decide(EXPIRED, reopens=False) is None
    assert decide(UNSENT, reopens=False) is None
    assert decide(status(429, 1.0), reopens=False) == Again(1.0)


def test_calls_on_a_shared_connection_that_breaks_fail_with_it():
    assert decide(LOST, spec=LIST_TOOLS, shared=True) is None
    assert decide(UNSENT, shared=True) == Again(anew=True)


def test_the_handshake_waits_only_where_the_server_says_so():
    assert decide(status(503, 1.0), spec=INITIALIZE) == Again(1.0)
    assert decide(status(502), spec=INITIALIZE) is None
    assert decide(LOST, spec=INITIALIZE) is None


def test_an_expired_session_is_no_attempt():
    retry = Retry(attempts=2)
    assert decide(EXPIRED, status(429), retry=retry) == Again(1.0)
    assert decide(EXPIRED, status(429), status(429), retry=retry) is None


@pytest.mark.parametrize(
    ("number", "in_session", "is_addressed", "lost"),
    [
        (404, True, False, True),
        (404, True, True, False),
        (404, False, False, False),
        (404, None, False, False),
        (400, True, False, False),
        (410, True, False, False),
        (500, True, False, False),
    ],
)
def test_what_means_that_a_session_is_lost(number, in_session, is_addressed, lost):
    assert means_lost_session(number, in_session, is_addressed) is lost


@pytest.mark.parametrize("number", [301, 307, 401, 404, 405, 406, 407, 413, 415, 429, 431])
def test_a_request_that_is_turned_away_has_not_been_acted_on(number):
    assert not may_have_acted(number, None)


@pytest.mark.parametrize("number", [200, 400, 403, 408, 409, 422, 500, 502, 503, 504])
def test_any_other_failure_may_have_come_up_halfway(number):
    assert may_have_acted(number, None)


def test_a_server_without_time_has_not_acted_if_it_says_when_it_will():
    assert not may_have_acted(503, 1.0)
    assert may_have_acted(502, 1.0)


@pytest.mark.parametrize("number", [400, 401, 403, 404, 405, 410])
def test_a_refused_resumption_is_not_tried_again(number):
    assert ends_resumption(number)


@pytest.mark.parametrize("number", [408, 425, 429, 500, 502, 503, 504])
def test_a_resumption_that_may_succeed_later_is_tried_again(number):
    assert not ends_resumption(number)


BROKEN = Attempts()


@pytest.mark.parametrize(
    ("messages", "moved", "seconds", "then"),
    [
        (1, True, 0.1, Attempts(0, 5, 0)),
        (1, False, 0.1, Attempts(0, 5, 3)),
        (0, True, 0.1, Attempts(0, 5, 0)),
        (0, False, 0.1, Attempts(2, 5, 3)),
        (0, False, 9.9, Attempts(2, 5, 3)),
        (0, False, 10.0, Attempts(0, 0, 0)),
        (1, False, 10.0, Attempts(0, 0, 0)),
    ],
)
def test_what_counts_as_a_failure_of_a_stream(messages, moved, seconds, then):
    assert Attempts(1, 4, 2).after(messages, moved, seconds) == then


def test_a_broken_stream_is_taken_up_after_the_time_that_the_server_asked_for():
    assert resume_delay(BROKEN, 250, RETRY) == 0.25
    assert resume_delay(BROKEN, 10, RETRY) == 0.01
    assert resume_delay(Attempts(2, 2), None, RETRY) == 1.0
    assert resume_delay(Attempts(3, 3), 250, RETRY) is None
    assert resume_delay(BROKEN, 250, Retry(resume=0)) is None


@pytest.mark.parametrize(
    ("brief", "seconds"), [(0, 0.01), (1, 0.02), (2, 0.04), (3, 0.08), (4, 0.16), (5, 0.25), (100_000, 0.25)]
)
def test_a_server_that_asks_for_haste_is_asked_less_often(brief, seconds):
    assert resume_delay(Attempts(0, brief), 0, RETRY) == seconds
    assert resume_delay(Attempts(0, brief), 1000, RETRY) == 1.0
    assert resume_delay(Attempts(0, brief), None, Retry(backoff=0.0)) == seconds


@pytest.mark.parametrize(("gaps", "seconds"), [(5, 0.32), (7, 1.28), (9, 5.0), (100_000, 5.0)])
def test_a_server_whose_streams_cannot_be_taken_up_is_asked_still_less_often(gaps, seconds):
    assert resume_delay(Attempts(0, gaps, gaps), 0, RETRY) == seconds
    assert resume_delay(Attempts(0, gaps, gaps), 9000, RETRY) == 9.0


# --- subscriptions --------------------------------------------------------------------------------------


def reopen(error, drops=Drops(0, 1), retry=RETRY, chance=0.5):  # noqa: B008  (immutable)
    return reopening_delay(drops, error, retry, chance=chance)


@pytest.mark.parametrize(
    "error",
    [
        LOST,
        UNSENT,
        EXPIRED,
        ConnectFailed("nobody there"),
        CallTimeout("no acknowledgement"),
        MessageTooLarge("too large", limit=1),
        status(429),
        status(500),
        status(503),
        TokenRequestFailed("later", transient=True),
    ],
)
def test_a_subscription_is_opened_again_after_what_may_pass(error):
    assert reopen(error) == 1.0


@pytest.mark.parametrize(
    "error",
    [
        status(400),
        status(401),
        status(403),
        status(404),
        status(405),
        MethodNotFound(-32601, "no such method"),
        InternalError(-32603, "oh no"),
        NotSupported("no such method"),
        NegotiationFailed("no revision in common"),
        InvalidMessage("no stream"),
        AuthorizationRequired("log in"),
        TokenRequestFailed("never"),
        ClientClosed("closed"),
        Forked("forked"),
        CallCancelled("cancelled"),
    ],
)
def test_a_subscription_is_not_opened_again_after_what_stays(error):
    assert reopen(error) is None


def test_the_pauses_of_a_subscription_double_up_to_the_longest_and_are_jittered():
    waits = [reopen(LOST, Drops(0, brief)) for brief in range(1, 8)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert reopen(LOST, Drops(0, 10_000)) == 30.0
    assert (reopen(LOST, chance=0.0), reopen(LOST, chance=1.0)) == (0.5, 1.5)


def test_a_server_that_says_when_it_is_back_is_not_asked_sooner_and_not_waited_for_for_ever():
    assert reopen(status(503, 120.0)) == 120.0
    assert reopen(status(503, 0.0)) == 1.0
    assert reopen(status(503, 1e9)) == 3600.0


def test_a_subscription_is_given_up_after_so_many_failures_in_a_row():
    retry = Retry(listen=2)
    assert reopen(LOST, Drops(1, 2), retry) is not None
    assert reopen(LOST, Drops(2, 3), retry) is None
    assert reopen(LOST, Drops(0, 1), Retry(listen=0)) is None


def test_what_came_of_a_subscription_is_counted():
    drops = Drops(0, 1).after(True, 0.1, True, LOST)
    assert drops == Drops(0, 2)
    drops = drops.after(False, 60.0, False, LOST)
    assert drops == Drops(1, 3)
    # To acknowledge it, and close it at once, is no use to anybody.
    drops = drops.after(True, 0.1, False, LOST)
    assert drops == Drops(2, 4)
    # Of use, but nothing to be had as fast as one can.
    assert drops.after(True, 0.1, True, LOST) == Drops(0, 5)
    # It has stood, so the next pause is a short one.
    assert drops.after(True, 10.0, False, LOST) == Drops(0, 1)
    assert drops.after(False, 0.1, True, LOST) == Drops(3, 5)


def outage(error=LOST, failures=1, away=0.0, left=None, chance=0.5):
    return outage_delay(Outage(failures, 100.0), 100.0 + away, error, RETRY, left, chance=chance)


def test_the_pauses_between_looks_at_a_task_grow_to_a_bound_and_are_jittered():
    assert [outage(failures=number) for number in range(1, 6)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert (outage(chance=0.0), outage(chance=1.0)) == (0.5, 1.5)
    assert outage(failures=10_000) == 5.0
    assert outage(status(503, 8.0)) == 8.0


def test_a_task_is_looked_at_again_only_where_its_server_may_be_back():
    for error in (status(500), status(502), status(429), LOST, ConnectFailed("x"), CallTimeout("x")):
        assert outage(error) is not None
    for error in (status(403), status(404), status(302), MessageTooLarge("x", limit=1), SessionExpired("x")):
        assert outage(error) is None


def test_an_outage_has_an_end_and_so_has_the_call():
    assert outage(away=29.9) is not None
    assert outage(away=30.0) is None
    # A look in the middle of what is left, if the next one would come too late.
    assert outage(left=0.8) == 0.4
    assert outage(left=0.05) is None
    assert outage(status(503, 8.0), left=8.0) is None
    assert outage(status(503, 31.0)) is None


def test_an_outage_begins_with_its_first_failure():
    assert Outage().after(5.0).after(6.0) == Outage(2, 5.0)


@pytest.mark.parametrize("brought", [True, False])
def test_a_subscription_that_the_same_fault_breaks_off_again_and_again_is_given_up(brought):
    fault, drops = MessageTooLarge("x", limit=1), Drops(0, 1)
    for _ in range(2):
        assert reopen(fault, drops, Retry(listen=2)) is not None
        drops = drops.after(True, 0.1, brought, fault)
    assert reopen(fault, drops, Retry(listen=2)) is None
    assert drops.after(True, 60.0, brought, fault) == Drops(0, 1)

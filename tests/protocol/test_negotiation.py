"""The rules of negotiation, driven with plain values: what is asked, and what is made of the answers."""

from __future__ import annotations

from typing import Any, Optional

import pytest

from mcp_sync._protocol.negotiation import (
    Discover,
    FallBack,
    Initialize,
    LateAnswer,
    Negotiation,
    Restart,
    Step,
    Verdict,
    check_mode,
    discover,
    may_be_older,
    may_speak_older_transport,
    negotiate,
    take_up,
    unfit,
)
from mcp_sync._protocol.versions import HANDSHAKE_VERSIONS
from mcp_sync.errors import (
    AuthError,
    CallTimeout,
    ClientClosed,
    ConnectFailed,
    ConnectionLost,
    HTTPStatusError,
    InvalidMessage,
    InvalidResult,
    MessageTooLarge,
    MethodNotFound,
    NegotiationFailed,
    RemoteError,
    UnsupportedProtocolVersion,
    UsageError,
    remote_error,
)

NEW, LATEST, FIRST = "2026-07-28", "2025-11-25", "2024-11-05"
PROBE, OFFER = Discover(NEW, probe=True), Initialize(LATEST)
DISCOVERED = {"supportedVersions": [NEW], "capabilities": {}}


def accepts(version: Any = LATEST) -> dict[str, Any]:
    return {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}


def refuses(code: int, *supported: str) -> RemoteError:
    return remote_error(code, "no", {"supported": list(supported)} if supported else None)


def status(code: int, body: str = "") -> HTTPStatusError:
    return HTTPStatusError(f"HTTP {code}", status=code, body_excerpt=body)


class Conversation:
    """Drives a negotiation with the outcomes of its steps, in order."""

    def __init__(self, negotiation: Negotiation, *outcomes: Any) -> None:
        self.steps: list[Step] = []
        self.verdict: Optional[Verdict] = None
        waiting = [None, *outcomes]
        try:
            while waiting:
                self.steps.append(negotiation.send(waiting.pop(0)))
        except StopIteration as stop:
            self.verdict = stop.value
        assert not waiting, f"ended before {waiting} were asked for"

    @property
    def chosen(self) -> Verdict:
        assert self.verdict is not None, f"goes on with {self.steps[-1]}"
        return self.verdict


def fails(negotiation: Negotiation, *outcomes: Any) -> Exception:
    talk = Conversation(negotiation, *outcomes[:-1])
    assert talk.verdict is None, f"settled on {talk.verdict}"
    with pytest.raises(Exception) as caught:
        negotiation.send(outcomes[-1])
    return caught.value


# --- modes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["", "modern", "2099-01-01", None, 3])
def test_a_mode_that_means_nothing_is_refused_with_what_is_accepted(mode):
    with pytest.raises(UsageError, match="2026-07-28"):
        check_mode(mode)


def test_a_pinned_modern_revision_asks_nothing():
    assert Conversation(negotiate(NEW)).verdict == Verdict(NEW)


def test_a_pinned_handshake_revision_never_probes():
    talk = Conversation(negotiate("2025-06-18"), accepts("2025-06-18"))
    assert talk.steps == [Initialize("2025-06-18")]
    assert talk.chosen.version == "2025-06-18"


def test_the_legacy_mode_never_probes_and_offers_the_latest_handshake_revision():
    talk = Conversation(negotiate("legacy"), accepts("2024-11-05"))
    assert talk.steps == [OFFER]
    assert talk.chosen.version == "2024-11-05"


def test_a_session_that_is_taken_up_asks_nothing():
    assert Conversation(take_up("2025-06-18")).verdict == Verdict("2025-06-18")


# --- the probe -------------------------------------------------------------------------------------------


def test_a_discovery_settles_the_modern_revision_and_is_kept():
    talk = Conversation(negotiate("auto"), DISCOVERED)
    assert talk.steps == [PROBE]
    assert talk.chosen == Verdict(NEW, DISCOVERED)


def test_a_discovery_of_both_eras_prefers_the_modern_one():
    both = {"supportedVersions": [LATEST, NEW, "2099-01-01"]}
    assert Conversation(negotiate("auto"), both).chosen.version == NEW


@pytest.mark.parametrize(
    "answer",
    [
        refuses(-32601),
        refuses(-32602),
        refuses(-32600),
        refuses(-32700),
        refuses(-32000),
        refuses(-32001),
        refuses(0),
        CallTimeout("silence"),
        InvalidMessage("rubbish"),
        InvalidResult("null"),
        status(400),
        status(400, "Bad Request: Server not initialized"),
        status(404),
        status(405),
        status(406),
        status(500),
        {},
        {"supportedVersions": []},
        {"supportedVersions": "2026-07-28"},
        {"supportedVersions": [LATEST]},
        {"content": [{"type": "text", "text": "unknown tool"}]},
    ],
    ids=repr,
)
def test_whatever_no_modern_server_answers_leads_to_the_handshake(answer):
    talk = Conversation(negotiate("auto"), answer, accepts())
    assert talk.steps == [PROBE, OFFER]
    assert talk.chosen.version == LATEST


@pytest.mark.parametrize("code", [-32020, -32021])
def test_an_error_that_only_a_modern_server_sends_settles_the_era(code):
    talk = Conversation(negotiate("auto"), refuses(code))
    assert talk.steps == [PROBE]
    assert talk.chosen.version == NEW


@pytest.mark.parametrize("code", [401, 403, 407, 429, 503])
def test_a_status_that_no_other_revision_would_change_is_raised(code):
    problem = status(code)
    assert fails(negotiate("auto"), problem) is problem


@pytest.mark.parametrize(
    "problem",
    [
        ConnectFailed("refused"),
        ClientClosed("closed"),
        AuthError("denied"),
        MessageTooLarge("big", limit=1),
        UsageError("misused"),
    ],
    ids=repr,
)
def test_what_says_nothing_about_the_server_is_raised(problem):
    assert fails(negotiate("auto"), problem) is problem


def test_a_server_that_died_of_the_probe_is_started_again_and_greeted_first():
    talk = Conversation(negotiate("auto"), ConnectionLost("exited"), None, accepts("2025-06-18"))
    assert talk.steps == [PROBE, Restart(), OFFER]
    assert talk.chosen.version == "2025-06-18"


@pytest.mark.parametrize("code", [-32601, -32602, -32600])
def test_a_server_that_refused_the_probe_in_words_is_remembered(code):
    assert Conversation(negotiate("auto"), refuses(code), accepts()).chosen.remember


@pytest.mark.parametrize("answer", [CallTimeout("silence"), status(500)], ids=repr)
def test_a_server_that_may_only_have_been_slow_or_broken_is_not_remembered(answer):
    assert not Conversation(negotiate("auto"), answer, accepts()).chosen.remember


# --- refused revisions -----------------------------------------------------------------------------------


def test_a_refused_revision_never_leads_to_the_handshake_when_only_unknown_modern_ones_are_named():
    problem = fails(negotiate("auto"), refuses(-32022, "2027-01-01", "2026-12-01"))
    assert isinstance(problem, NegotiationFailed)
    assert problem.server_versions == ("2027-01-01", "2026-12-01")
    assert NEW in problem.client_versions
    assert "2027-01-01" in str(problem)
    assert NEW in str(problem)


def test_a_refused_revision_without_a_list_is_an_error():
    assert isinstance(fails(negotiate("auto"), refuses(-32022)), NegotiationFailed)


def test_a_server_that_names_the_very_revision_it_refuses_is_asked_once_more_and_no_third_time():
    talk = Conversation(negotiate("auto"), refuses(-32022, NEW), DISCOVERED)
    assert talk.steps == [PROBE, Discover(NEW, probe=False)]
    assert talk.chosen.version == NEW
    again = refuses(-32022, NEW)
    assert fails(negotiate("auto"), refuses(-32022, NEW), again) is again


def test_a_refused_revision_with_handshake_revisions_listed_leads_to_the_handshake():
    talk = Conversation(negotiate("auto"), refuses(-32022, LATEST, "2025-06-18"), accepts())
    assert talk.steps == [PROBE, OFFER]


def test_another_modern_revision_that_the_server_lists_is_asked_for_once(monkeypatch):
    monkeypatch.setattr("mcp_sync._protocol.negotiation.MODERN_VERSIONS", ("2027-01-01", NEW))
    answer = {"supportedVersions": ["2027-01-01"]}
    talk = Conversation(negotiate("auto"), refuses(-32022, "2027-01-01"), answer)
    assert talk.steps == [PROBE, Discover("2027-01-01", probe=False)]
    assert talk.chosen == Verdict("2027-01-01", answer)


def test_a_second_refusal_of_a_listed_modern_revision_is_raised(monkeypatch):
    monkeypatch.setattr("mcp_sync._protocol.negotiation.MODERN_VERSIONS", ("2027-01-01", NEW))
    again = refuses(-32022, NEW)
    assert fails(negotiate("auto"), refuses(-32022, "2027-01-01"), again) is again


def test_a_discovery_without_any_common_revision_is_an_error_that_names_both_sides():
    problem = fails(negotiate("auto"), {"supportedVersions": ["2099-01-01"]})
    assert isinstance(problem, NegotiationFailed)
    assert problem.server_versions == ("2099-01-01",)
    assert problem.client_versions


# --- the handshake ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_every_known_revision_that_the_server_chooses_is_accepted(version):
    assert Conversation(negotiate("auto"), refuses(-32601), accepts(version)).chosen.version == version


@pytest.mark.parametrize("version", ["2024-10-07", "2099-01-01", NEW, None, 7, ["2025-11-25"]])
def test_an_unknown_revision_that_the_server_chooses_is_an_error_that_names_both_sides(version):
    problem = fails(negotiate("legacy"), accepts(version))
    assert isinstance(problem, NegotiationFailed)
    assert LATEST in problem.client_versions
    assert problem.server_versions == ((version,) if isinstance(version, str) else ())
    assert str(version) in str(problem)


def test_a_missing_revision_is_an_error():
    assert isinstance(fails(negotiate("legacy"), {"capabilities": {}}), NegotiationFailed)


def test_a_pinned_revision_accepts_no_other():
    problem = fails(negotiate("2025-06-18"), accepts("2025-03-26"))
    assert isinstance(problem, NegotiationFailed)
    assert problem.client_versions == ("2025-06-18",)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    "refusal",
    [
        refuses(-32602, "2025-03-26", "2024-11-05"),
        refuses(-32022, "2024-11-05", "2025-03-26"),
        status(400, "Unsupported protocol version (supported versions: 2024-11-05, 2025-03-26)"),
    ],
    ids=repr,
)
def test_a_refusal_that_lists_older_revisions_is_followed_once_by_the_best_of_them(mode, refusal):
    before = [refuses(-32601)] if mode == "auto" else []
    late = [None] if mode == "auto" else []
    talk = Conversation(negotiate(mode), *before, refusal, *late, accepts("2025-03-26"))
    assert talk.steps[-1] == Initialize("2025-03-26")
    assert talk.chosen.version == "2025-03-26"


def test_a_second_refusal_is_raised_as_it_is():
    second = refuses(-32602, "2024-11-05")
    assert fails(negotiate("legacy"), refuses(-32602, "2025-03-26"), second) is second


def test_a_list_of_unknown_revisions_only_is_an_error_that_names_both_sides():
    problem = fails(negotiate("legacy"), refuses(-32602, "2023-01-01"))
    assert isinstance(problem, NegotiationFailed)
    assert problem.server_versions == ("2023-01-01",)


@pytest.mark.parametrize(
    "problem", [refuses(-32603), status(500), status(404), CallTimeout("silent")], ids=repr
)
def test_any_other_failure_of_the_handshake_is_raised_as_it_is(problem):
    assert fails(negotiate("legacy"), problem) is problem


def test_versions_in_the_text_of_another_status_than_400_mean_nothing():
    problem = status(500, "crashed at 2025-03-26")
    assert fails(negotiate("legacy"), problem) is problem


def test_a_pinned_revision_is_not_exchanged_for_one_that_the_server_lists():
    refusal = refuses(-32602, "2025-03-26")
    problem = fails(negotiate("2025-06-18"), refusal)
    assert isinstance(problem, NegotiationFailed)
    assert problem.__cause__ is refusal


# --- modes that leave out what the server speaks ----------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "answer", "named"),
    [
        ("legacy", refuses(-32022, NEW), (NEW,)),
        ("2025-06-18", refuses(-32022, NEW), (NEW,)),
        ("2025-06-18", refuses(-32602, "2025-03-26", "2024-11-05"), ("2025-03-26", "2024-11-05")),
        ("2025-06-18", accepts("2025-03-26"), ("2025-03-26",)),
    ],
)
def test_a_mode_that_leaves_out_what_the_server_offers_is_told_with_a_mode_that_does_not(mode, answer, named):
    problem = fails(negotiate(mode), answer)
    assert isinstance(problem, NegotiationFailed)
    assert problem.server_versions == named
    assert problem.client_versions == (HANDSHAKE_VERSIONS if mode == "legacy" else (mode,))
    assert f"offers protocol revision {', '.join(named)}, but mode={mode!r} admits only" in str(problem)
    assert f"mode='auto' finds {named[0]}" in str(problem)


@pytest.mark.parametrize("mode", ["legacy", "2025-06-18"])
def test_a_server_that_does_not_know_the_handshake_is_told_with_a_mode_that_needs_none(mode):
    refusal = refuses(-32601)
    problem = fails(negotiate(mode), refusal)
    assert isinstance(problem, NegotiationFailed)
    assert problem.__cause__ is refusal
    assert "mode='auto'" in str(problem)


@pytest.mark.parametrize(
    "refusal", [refuses(-32600), refuses(-32602), refuses(-32601), status(400)], ids=repr
)
@pytest.mark.parametrize("answer", [refuses(-32600), refuses(-32601), status(400)], ids=repr)
def test_a_server_that_refuses_a_modern_request_and_the_question_what_it_speaks_is_unfit(refusal, answer):
    assert may_be_older(refusal)
    problem = unfit(NEW, refusal, answer)
    assert isinstance(problem, NegotiationFailed)
    assert NEW in str(problem)
    assert "mode='auto'" in str(problem)


@pytest.mark.parametrize(
    ("refusal", "answer"),
    [
        (refuses(-32022, LATEST), refuses(-32601)),
        (refuses(-32600), refuses(-32022, LATEST)),
        (refuses(-32600), {"supportedVersions": [LATEST]}),
        (refuses(-32600), status(400, f"Unsupported protocol version (supported versions: {LATEST})")),
    ],
    ids=repr,
)
def test_an_unfit_server_is_told_with_the_revisions_that_it_names_anywhere(refusal, answer):
    problem = unfit(NEW, refusal, answer)
    assert problem is not None
    assert problem.server_versions == (LATEST,)
    assert problem.client_versions == (NEW,)
    assert f"mode='auto' finds {LATEST}" in str(problem)


@pytest.mark.parametrize(
    "answer",
    [DISCOVERED, refuses(-32020), refuses(-32021), status(503), CallTimeout("slow"), ConnectionLost("gone")],
    ids=repr,
)
def test_a_server_that_may_speak_the_revision_is_not_called_unfit(answer):
    assert unfit(NEW, refuses(-32602), answer) is None


@pytest.mark.parametrize(
    "refusal",
    [refuses(-32020), refuses(-32021), status(401), status(404), status(500), CallTimeout("slow")],
    ids=repr,
)
def test_other_refusals_say_nothing_about_the_revision(refusal):
    assert not may_be_older(refusal)


# --- modern servers that were taken for legacy ones ------------------------------------------------------


def test_a_refused_handshake_that_names_a_modern_revision_leads_back_to_it():
    talk = Conversation(negotiate("auto"), CallTimeout("slow"), refuses(-32022, NEW), None, DISCOVERED)
    assert talk.steps == [PROBE, OFFER, LateAnswer(), Discover(NEW, probe=False)]
    assert talk.chosen == Verdict(NEW, DISCOVERED)


def test_an_answer_to_the_probe_that_came_late_counts_when_the_handshake_is_refused():
    talk = Conversation(negotiate("auto"), CallTimeout("slow"), refuses(-32601), DISCOVERED)
    assert talk.steps == [PROBE, OFFER, LateAnswer()]
    assert talk.chosen == Verdict(NEW, DISCOVERED)


def test_a_handshake_that_succeeds_needs_no_late_answer():
    talk = Conversation(negotiate("auto"), CallTimeout("slow"), accepts())
    assert talk.steps == [PROBE, OFFER]


def test_the_legacy_mode_does_not_go_modern_by_itself():
    assert isinstance(fails(negotiate("legacy"), refuses(-32022, NEW)), NegotiationFailed)


# --- what is remembered ----------------------------------------------------------------------------------


def test_a_server_that_is_known_to_be_legacy_is_greeted_at_once_and_stays_remembered():
    talk = Conversation(negotiate("auto", known_legacy=True), accepts())
    assert talk.steps == [OFFER]
    assert talk.chosen.remember


def test_a_server_that_is_no_longer_legacy_and_says_so_is_asked_again():
    talk = Conversation(negotiate("auto", known_legacy=True), refuses(-32022, NEW), None, DISCOVERED)
    assert talk.steps[-1] == Discover(NEW, probe=False)
    assert talk.chosen.version == NEW


@pytest.mark.parametrize("refusal", [refuses(-32601), refuses(-32602), status(400), status(404)], ids=repr)
def test_a_server_that_is_no_longer_legacy_and_does_not_say_so_is_probed_again(refusal):
    talk = Conversation(negotiate("auto", known_legacy=True), refusal, None, DISCOVERED)
    assert talk.steps == [OFFER, LateAnswer(), PROBE]
    assert talk.chosen == Verdict(NEW, DISCOVERED)


def test_a_known_server_that_refuses_both_questions_is_greeted_no_third_time():
    problem = refuses(-32603)
    talk = negotiate("auto", known_legacy=True)
    assert fails(talk, refuses(-32603), None, refuses(-32601), problem, None) is problem


@pytest.mark.parametrize("problem", [status(401), status(503), ConnectionLost("gone")], ids=repr)
def test_a_known_server_that_is_out_of_order_is_not_probed(problem):
    assert fails(negotiate("auto", known_legacy=True), problem, None) is problem


# --- without falling back --------------------------------------------------------------------------------


def test_discovering_asks_without_the_short_bound_of_a_probe():
    talk = Conversation(discover(NEW), DISCOVERED)
    assert talk.steps == [Discover(NEW, probe=False)]
    assert talk.chosen == Verdict(NEW, DISCOVERED)


@pytest.mark.parametrize("problem", [refuses(-32601), status(404), CallTimeout("silence")], ids=repr)
def test_discovering_never_falls_back(problem):
    assert fails(discover(NEW), problem) is problem


@pytest.mark.parametrize("answer", [{}, {"supportedVersions": [LATEST]}, refuses(-32022, LATEST)], ids=repr)
def test_discovering_a_server_without_a_modern_revision_fails(answer):
    problem = fails(discover(NEW), answer)
    assert isinstance(problem, (NegotiationFailed, UnsupportedProtocolVersion))


# --- the older transport -------------------------------------------------------------------------------


def refused(code: int, http_status: int) -> RemoteError:
    return remote_error(code, "no", status=http_status)


@pytest.mark.parametrize(
    "error",
    [
        status(400),
        status(404, "<html>"),
        status(405),
        refused(-32000, 400),
        refused(-32600, 400),
        refused(-32001, 404),
    ],
)
def test_a_plain_refusal_of_initialize_leaves_the_older_transport(error: Exception) -> None:
    assert may_speak_older_transport(error)
    talk = Conversation(negotiate("legacy", falls_back=True), error, None, accepts())
    assert talk.steps == [OFFER, FallBack(), OFFER]
    assert talk.chosen == Verdict(LATEST, accepts(), older_transport=True)


@pytest.mark.parametrize(
    "error",
    [
        *(status(code) for code in (200, 301, 401, 403, 406, 407, 410, 415, 429, 500, 502, 503)),
        refused(-32022, 400),
        refused(-32020, 400),
        refused(-32021, 400),
        remote_error(-32602, "no"),
        refused(-32603, 500),
        ConnectFailed("refused"),
        ConnectionLost("gone"),
        InvalidMessage("html"),
        CallTimeout("late"),
    ],
)
def test_any_other_failure_is_told_as_it_is(error: Exception) -> None:
    assert not may_speak_older_transport(error)
    raised = fails(negotiate("legacy", falls_back=True), error)
    assert raised is error or isinstance(error, (UnsupportedProtocolVersion, MethodNotFound))


def test_without_an_older_transport_nothing_falls_back() -> None:
    error = status(405)
    assert fails(negotiate("legacy"), error) is error
    assert fails(negotiate("auto"), error, error, None) is error


@pytest.mark.parametrize("known", [False, True])
def test_a_pinned_handshake_revision_is_offered_over_the_older_transport_too(known: bool) -> None:
    first = () if known else (status(405),)
    talk = Conversation(negotiate(FIRST, falls_back=True, known_older=known), *first, None, accepts(FIRST))
    assert talk.steps == [*[Initialize(FIRST)] * len(first), FallBack(), Initialize(FIRST)]
    assert talk.chosen == Verdict(FIRST, accepts(FIRST), older_transport=True)


def test_a_pinned_modern_revision_does_not_fall_back() -> None:
    assert Conversation(negotiate(NEW, falls_back=True, known_older=True)).chosen == Verdict(NEW)


def test_only_initialize_counts_and_not_the_probe() -> None:
    talk = Conversation(negotiate("auto", falls_back=True), status(405), accepts())
    assert talk.steps == [PROBE, OFFER]
    assert not talk.chosen.older_transport
    talk = Conversation(negotiate("auto", falls_back=True), status(405), status(405), None, None, accepts())
    assert talk.steps == [PROBE, OFFER, LateAnswer(), FallBack(), OFFER]
    assert talk.chosen.older_transport


def test_a_refusal_that_names_revisions_is_no_older_transport() -> None:
    error = status(400, "Unsupported protocol version (supported: 2025-03-26)")
    talk = Conversation(negotiate("legacy", falls_back=True), error, accepts("2025-03-26"))
    assert talk.steps == [OFFER, Initialize("2025-03-26")]


def test_a_refusal_that_names_what_was_offered_is_no_older_transport() -> None:
    error = status(400, f"Bad request ({LATEST})")
    assert fails(negotiate("legacy", falls_back=True), error) is error


def test_if_both_transports_fail_the_first_failure_tells_of_the_second() -> None:
    first, second = status(404, "<html>"), ConnectFailed("no stream")
    raised = fails(negotiate("legacy", falls_back=True), first, second)
    assert isinstance(raised, HTTPStatusError)
    assert (raised.status, raised.body_excerpt) == (404, "<html>")
    assert str(raised).startswith("HTTP 404")
    assert "no stream" in str(raised)
    assert raised.__cause__ is second


def test_the_words_of_the_server_are_left_alone_if_both_fail() -> None:
    first, second = refused(-32000, 400), ConnectFailed("no stream")
    raised = fails(negotiate("legacy", falls_back=True), first, second)
    assert isinstance(raised, RemoteError)
    assert (raised.code, raised.message, raised.status) == (-32000, "no", 400)
    assert raised.__cause__ is second


def test_what_fails_on_the_older_transport_is_told_as_it_is() -> None:
    error = refuses(-32602)
    assert fails(negotiate("legacy", falls_back=True), status(405), None, error) is error


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_known_older_transport_is_tried_first(mode: str) -> None:
    talk = Conversation(negotiate(mode, falls_back=True, known_older=True), None, accepts())
    assert talk.steps == [FallBack(), OFFER]
    assert talk.chosen.older_transport


def test_a_server_that_has_left_the_older_transport_is_asked_as_any_other() -> None:
    gone = ConnectFailed("no stream")
    talk = Conversation(negotiate("auto", falls_back=True, known_older=True), gone, None, DISCOVERED)
    assert talk.steps == [FallBack(), Restart(), PROBE]
    assert talk.chosen.version == NEW
    assert not talk.chosen.older_transport

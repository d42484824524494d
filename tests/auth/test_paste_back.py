"""How a person is asked without a browser at hand: the address that is pasted."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.auth import PasteBack
from mcp_sync.auth._paste_back import pasted
from mcp_sync.errors import AuthError, AuthorizationRequired, CallTimeout

STATE = "the-state"
URL = f"https://as.example/authorize?client_id=me&state={STATE}"


def check() -> None:
    pass


CALLBACK = f"http://127.0.0.1:53682/callback?code=the%20code&state={STATE}"


def paste(*lines: str) -> tuple[Any, list[str]]:
    shown: list[str] = []
    waiting = iter(lines)

    def read() -> str:
        try:
            return next(waiting)
        except StopIteration:
            raise EOFError from None

    with PasteBack(show=shown.append, read=read).listening() as asking:
        return asking.ask(URL, Deadline(10), check), shown


@pytest.mark.parametrize(
    "lines",
    [
        [CALLBACK],
        [f"  '{CALLBACK}' "],
        [f"<{CALLBACK}>"],
        [CALLBACK.partition("?")[2]],
        ["?" + CALLBACK.partition("?")[2]],
        [CALLBACK[:50], CALLBACK[50:]],
        [CALLBACK[: CALLBACK.index(STATE) + 3], CALLBACK[CALLBACK.index(STATE) + 3 :]],
        [CALLBACK + "#_=_"],
    ],
    ids=[
        "address",
        "quoted",
        "in angle brackets",
        "query",
        "with a mark",
        "two lines",
        "cut in the state",
        "fragment",
    ],
)
def test_what_was_pasted_is_understood(lines) -> None:
    params, shown = paste(*lines)
    assert params == {"code": "the code", "state": STATE}
    assert URL in shown[0]


def test_a_code_alone_does() -> None:
    assert paste("  abc-123 ")[0] == {"code": "abc-123", "state": STATE}


def test_an_error_is_an_answer_too() -> None:
    assert paste(f"http://x/?error=access_denied&state={STATE}")[0]["error"] == "access_denied"


SLIPS = {
    "": "Nothing was entered",
    "   ": "Nothing was entered",
    "http://127.0.0.1:53682/callback": "has no code",
    "https://as.example/consent?id=5": "has no code",
    URL: "the address to be opened",
    "http://127.0.0.1:53682/callback?code=c&state=other": "the answer to another login",
    "I have logged in": "neither an address nor a code",
    "ok": "neither an address nor a code",
    "http://[x": "has no code",
}


@pytest.mark.parametrize("slip", SLIPS)
def test_who_slips_is_told_what_is_wrong_and_asked_again(slip) -> None:
    params, shown = paste(slip, slip, CALLBACK)
    assert params == {"code": "the code", "state": STATE}
    assert [SLIPS[slip] in text for text in shown] == [False, True, True]
    assert all("paste it here" in text for text in shown)


@pytest.mark.parametrize("cut", [CALLBACK[:50], CALLBACK + "&code=twice"])
def test_what_may_be_cut_off_is_waited_on_until_an_empty_line(cut) -> None:
    params, shown = paste(cut, "", CALLBACK)
    assert params == {"code": "the code", "state": STATE}
    assert ["has no code" in text for text in shown] == [False, True]


@pytest.mark.parametrize("line", ["", "http://127.0.0.1/callback", "what ?"])
def test_after_a_few_slips_it_is_over(line) -> None:
    with pytest.raises(AuthError, match="not the address"):
        paste(*[line] * 5, CALLBACK)


def test_lines_without_end_come_to_an_end() -> None:
    with pytest.raises(AuthError, match="not the address"):
        paste("http://127.0.0.1:53682/callback?x=", *["x"] * 1000)


def test_an_answer_that_comes_too_late_does_not_count() -> None:
    read = iter([CALLBACK]).__next__
    with PasteBack(show=lambda text: None, read=read).listening() as asking, pytest.raises(CallTimeout):
        asking.ask(URL, Deadline(0), check)


def test_the_redirect_uri_is_named() -> None:
    shown: list[str] = []
    paste_back = PasteBack(show=shown.append, read=lambda: CALLBACK, redirect_uri="http://localhost:9/cb")
    with paste_back.listening() as asking:
        asking.ask(URL, Deadline(10), check)
    assert "http://localhost:9/cb" in shown[0]


def test_where_nobody_answers_a_login_is_required() -> None:
    with pytest.raises(AuthorizationRequired) as caught:
        paste()
    assert caught.value.url == URL


def test_without_a_terminal_nobody_is_asked(monkeypatch) -> None:
    with open("/dev/null") as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        with PasteBack().listening() as asking, pytest.raises(AuthorizationRequired) as caught:
            asking.ask(URL, Deadline(10), check)
    assert caught.value.url == URL


def test_parameters_that_come_twice_are_no_answer() -> None:
    assert pasted(f"http://x/?code=a&code=b&state={STATE}", STATE) is None

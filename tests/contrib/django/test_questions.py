"""A call asks its user something, who answers in a form; any worker goes on with it."""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.contrib.auth import get_user_model
from django.db.models import F
from django.test import Client, RequestFactory, override_settings
from django.utils import timezone

from mcp_sync.contrib.django import answered
from mcp_sync.contrib.django.models import PendingInput
from mcp_sync.contrib.django.test import fake_server
from mcp_sync.testing import RpcError

from .conftest import browser_of

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2},
        "nights": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
        "size": {"type": "string", "enum": ["small", "large"]},
        "breakfast": {"type": "boolean", "title": "Breakfast?"},
    },
    "required": ["name"],
}
GOOD = {"action": "accept", "q0-field0": "Ada", "q0-field1": "3", "q0-field2": "large", "q0-field3": "on"}


def greet(context):
    answer = context.elicit("Who are you?", SCHEMA)
    if answer.get("action") != "accept":
        return f"nobody: {answer.get('action')}"
    return f"Hello {answer['content']}"


@pytest.fixture
def desk():
    with fake_server("desk", tools={"greet": greet}) as fake:
        yield fake


def asked(browser):
    answer = browser.get("/greet/")
    assert answer.status_code == 302, answer.content
    return answer["Location"]


def test_a_question_becomes_a_form_and_its_answer_ends_the_call(desk, ada):
    browser = browser_of(ada)
    place = asked(browser)
    page = browser.get(place).content.decode()
    assert "Who are you?" in page
    assert "Your name" in page
    assert re.search(r'<input type="number"[^>]* max="9"', page)
    assert re.findall(r"<button[^>]*>([^<]+)<", page) == ["Send", "Decline", "Cancel"]
    assert (page.count("(required)"), page.count(">Choose one<")) == (1, 1)
    assert "may do it twice" not in page
    done = browser.post(place, GOOD)
    assert (done.status_code, done["Location"]) == (302, place)
    shown = browser.get(place).content.decode()
    assert "Ada" in shown
    onward = re.search(r'href="(/greet/[^"]*)"', shown)[1]
    answer = browser.get(onward).content.decode()
    assert answer == "Hello {'name': 'Ada', 'nights': 3, 'size': 'large', 'breakfast': True}"
    assert len(desk.received("tools/call")) == 2


def test_a_wrong_answer_is_shown_beside_its_field_and_sends_nothing(desk, ada):
    browser = browser_of(ada)
    place = asked(browser)
    answer = browser.post(place, {**GOOD, "q0-field0": "", "q0-field1": "12"})
    assert answer.status_code == 422
    assert answer.content.decode().count('class="errorlist"') == 2
    assert "<title>Not sent: desk has a question</title>" in answer.content.decode()
    assert len(desk.received("tools/call")) == 1
    assert browser.post(place, GOOD).status_code == 302


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_user_may_refuse(desk, ada, action):
    browser = browser_of(ada)
    place = asked(browser)
    browser.post(place, {"action": action})
    assert f"nobody: {action}" in browser.get(place).content.decode()


def test_what_is_typed_is_escaped(desk, ada):
    browser = browser_of(ada)
    place = asked(browser)
    answer = browser.post(place, {**GOOD, "q0-field0": "<script>", "q0-field1": "12"})
    assert "<script>" not in answer.content.decode()


def test_an_answer_counts_once(desk, ada):
    browser = browser_of(ada)
    place = asked(browser)
    browser.post(place, GOOD)
    again = browser.post(place, GOOD)
    assert again.status_code == 302
    assert len(desk.received("tools/call")) == 2


def test_a_question_of_somebody_else_is_not_there(desk, ada, bob):
    place = asked(browser_of(ada))
    assert browser_of(bob).get(place).status_code == 404
    assert browser_of(bob).post(place, GOOD).status_code == 404
    pk = place.rstrip("/").rpartition("/")[2]
    browser_of(ada).post(place, GOOD)
    assert "Ada" not in browser_of(bob).get(f"/greet/?mcp_input={pk}").content.decode()


def test_who_is_not_logged_in_answers_in_the_same_browser(desk):
    browser, other = Client(), Client()
    place = asked(browser)
    assert other.get(place).status_code == 302  # to log in
    assert other.post(place, GOOD).status_code == 302
    assert len(desk.received("tools/call")) == 1
    assert browser.post(place, GOOD).status_code == 302
    onward = re.search(r'href="(/greet/[^"]*)"', browser.get(place).content.decode())[1]
    assert other.get(onward).status_code == 302  # to a question of their own
    assert "Ada" in browser.get(onward).content.decode()


def test_a_program_gets_409_with_a_link(desk, ada):
    answer = browser_of(ada).get("/greet/", headers={"accept": "application/json"})
    assert answer.status_code == 409
    assert answer.json()["error"] == "input_required"
    assert "/mcp/input/" in answer.json()["url"]


def test_a_question_that_is_too_old_is_410(desk, ada):
    browser = browser_of(ada)
    place = asked(browser)
    PendingInput.objects.update(expires=timezone.now() - timedelta(seconds=1))
    old = browser.get(place)
    assert old.status_code == 410
    assert '<a href="/greet/">Back to where you were</a>' in old.content.decode()
    assert browser.post(place, GOOD).status_code == 410
    assert len(desk.received("tools/call")) == 1


def test_a_question_whose_key_is_gone_is_410(desk, ada):
    browser = browser_of(ada)
    place = asked(browser)
    with override_settings(MCP_SYNC={"ENCRYPTION_KEYS": ["another key"]}), fake_server("desk", desk):
        assert browser.get(place).status_code == 410


def test_a_page_to_visit_needs_no_more_than_to_go_on(ada):
    def pay(context):
        return context.elicit_url("Pay first", "https://pay.example.com/1")["action"]

    with fake_server("desk", tools={"greet": pay}):
        browser = browser_of(ada)
        place = asked(browser)
        page = browser.get(place).content.decode()
        assert re.findall(r"<button[^>]*>([^<]+)<", page) == ["Continue", "Decline", "Cancel"]
        assert "Choose Continue when you are done there." in page
        browser.post(place, {"action": "accept"})
        assert "accept" in browser.get(place).content.decode()


def test_what_a_worker_left_undone_is_taken_up_by_another(desk, ada):
    browser = browser_of(ada)
    place = asked(browser)
    PendingInput.objects.update(status=PendingInput.Status.RESUMING, updated=timezone.now())
    assert browser.post(place, GOOD).status_code == 409
    PendingInput.objects.update(updated=timezone.now() - timedelta(seconds=60))
    assert "may do it twice" in browser.get(place).content.decode()
    assert browser.post(place, GOOD).status_code == 302
    assert "Ada" in browser.get(place).content.decode()


def test_the_arguments_and_answers_are_encrypted(desk, ada):
    browser = browser_of(ada)
    place = asked(browser)
    # Three letters may be in a cipher by chance, and no space is.
    browser.post(place, {**GOOD, "q0-field0": "Ada Lovelace"})
    row = PendingInput.objects.get()
    assert "Ada Lovelace" not in repr(row.__dict__)
    assert "greet" not in row.envelope


def test_the_result_goes_to_the_page_that_made_the_call_and_to_no_other(desk, ada):
    browser = browser_of(ada)
    asked_at = "/greet/?seat=cheap"
    place = browser.get(asked_at)["Location"]
    browser.post(place, GOOD)
    mark = f"mcp_input={place.split('/')[-2]}"
    assert b"Ada" in browser.get(f"{asked_at}&{mark}").content
    # It is asked anew there.
    assert browser.get(f"/greet/?seat=best&{mark}").status_code == 302
    assert browser.get(f"/greet/?{mark}").status_code == 302


def test_a_view_may_say_which_call_it_means(desk, ada):
    browser = browser_of(ada)
    place = asked(browser)
    browser.post(place, GOOD)
    request = RequestFactory().get(f"/greet/?mcp_input={place.split('/')[-2]}")
    request.user = ada
    assert "Ada" in answered(request, alias="desk", tool="greet", arguments={}).text
    for other in ({"alias": "till"}, {"tool": "pay"}, {"arguments": {"sum": 1}}):
        assert answered(request, **other) is None


def test_who_comes_too_late_with_a_result_changes_nothing(desk, ada):
    browser = browser_of(ada)
    place = asked(browser)

    def taken_up_meanwhile(message):
        PendingInput.objects.update(status=PendingInput.Status.DONE, version=F("version") + 1)
        raise RpcError(-32000, "no matter what")

    desk.on("tools/call", taken_up_meanwhile)
    browser.post(place, GOOD)
    row = PendingInput.objects.get()
    assert (row.status, row.result) == (PendingInput.Status.DONE, "")


def test_a_question_that_is_gone_meanwhile_is_no_error_of_the_database(desk, ada):
    browser = browser_of(ada)
    place = asked(browser)

    def removed_meanwhile(message):
        PendingInput.objects.all().delete()
        return NotImplemented

    desk.on("tools/call", removed_meanwhile)
    assert browser.post(place, GOOD).status_code == 302


def test_what_a_server_says_is_kept_whatever_is_in_it(desk, ada):
    browser = browser_of(ada)
    place = asked(browser)

    def fails(message):
        raise RpcError(-32000, "<script>\0")

    desk.on("tools/call", fails)
    assert browser.post(place, GOOD).status_code == 302
    page = browser.get(place)
    assert page.status_code == 502
    assert b"&lt;script&gt;" in page.content
    assert b"<script>" not in page.content


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (RpcError(-32000, "No beds left"), "No beds left"),
        (RpcError(-32000, ""), "This was answered, and the call has failed."),
        ({"content": "nonsense"}, "This was answered, and the call has failed."),
    ],
)
def test_users_are_told_of_a_failure_but_not_where_the_server_is(desk, ada, caplog, wrong, told):
    browser = browser_of(ada)
    place = asked(browser)

    def fails(message):
        if isinstance(wrong, RpcError):
            raise wrong
        return wrong

    desk.on("tools/call", fails)
    assert browser.post(place, GOOD).status_code == 302
    page = browser.get(place)
    assert (page.status_code, told in page.content.decode()) == (502, True)
    assert "tools/call" not in page.content.decode()
    assert "tools/call" in caplog.text


def test_a_view_that_makes_several_calls_gets_the_answers_to_all_of_them(desk, ada):
    browser = browser_of(ada)
    marks = []
    for _ in range(2):
        place = browser.get("/greet/")["Location"]
        browser.post(place, {**GOOD, "q0-field0": f"Ada {len(marks)}"})
        marks.append(("mcp_input", place.split("/")[-2]))
    query = urlencode([*marks, ("mcp_input", "nonsense")])
    assert b"Ada 1" in browser.get(f"/greet/?{query}").content
    PendingInput.objects.filter(pk=marks[1][1]).update(alias="another")
    request = RequestFactory().get(f"/greet/?{query}")
    request.user = ada
    assert "Ada 0" in answered(request, alias="desk").text


def test_the_admin_shows_nothing_of_what_a_user_was_about(desk, ada):
    browser_of(ada).get("/greet/?about=hunter2")
    admin = browser_of(get_user_model().objects.create_superuser("root", password="x"))
    for place in ("", f"{PendingInput.objects.get().pk}/change/"):
        page = admin.get(f"/admin/mcp_sync/pendinginput/{place}").content.decode()
        assert "greet" in page
        assert "hunter2" not in page

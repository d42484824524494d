"""Helpers for elicitation: fields of a form, what was filled in, pages to visit, the prompt in a terminal."""

from __future__ import annotations

import io
import os
import sys
import threading

import pytest

from mcp_sync import AnswerInvalid, Client, InMemory, UnsafeURL, UsageError, _terminal, types
from mcp_sync.elicitation import (
    Choice,
    FormField,
    accept,
    cancel,
    check_url,
    decline,
    form_fields,
    terminal_prompt,
    validate_answer,
)
from mcp_sync.testing import FakeServer, ToolContext

COLOURS = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "description": "As on the card", "maxLength": 5},
        "mail": {"type": "string", "format": "email"},
        "age": {"type": "integer", "minimum": 18, "maximum": 99},
        "weight": {"type": "number"},
        "news": {"type": "boolean", "default": True},
        "colour": {"type": "string", "oneOf": COLOURS, "default": "g"},
        "shade": {"type": "string", "enum": ["d", "l"], "enumNames": ["dark", "light"]},
        "sizes": {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "items": {"type": "string", "enum": ["S", "M", "L"]},
        },
        "tints": {"type": "array", "items": {"anyOf": COLOURS}},
    },
    "required": ["name", "age"],
}


def form(schema=FORM):
    return types.ElicitRequestFormParams(message="?", requested_schema=schema)


def one(**field):
    return form({"type": "object", "properties": {"x": field}})


class MultiDict(dict):
    """What web frameworks make of a form."""

    def getlist(self, name):
        return dict.get(self, name, [])

    def get(self, name, default=None):
        values = dict.get(self, name, [])
        return values[-1] if values else default


# --- fields ---------------------------------------------------------------------------------------------


def test_fields_say_all_that_the_schema_does():
    fields = {field.name: field for field in form_fields(form())}
    assert list(fields) == list(FORM["properties"])
    name = fields["name"]
    assert (name.title, name.description, name.type, name.required) == (
        "Your name",
        "As on the card",
        "string",
        True,
    )
    assert (name.max_length, name.min_length, name.default) == (5, None, None)
    assert (fields["age"].minimum, fields["age"].maximum, fields["age"].title) == (18, 99, "age")
    assert (fields["mail"].format, fields["mail"].required) == ("email", False)
    assert (fields["news"].type, fields["news"].default) == ("boolean", True)
    assert fields["colour"].choices == (Choice("r", "Red"), Choice("g", "Green"))
    assert fields["shade"].choices == (Choice("d", "dark"), Choice("l", "light"))
    assert fields["sizes"].choices == (Choice("S", "S"), Choice("M", "M"), Choice("L", "L"))
    assert (fields["sizes"].type, fields["sizes"].min_items, fields["sizes"].max_items) == ("array", 1, 2)
    assert fields["tints"].choices == fields["colour"].choices


def test_a_request_will_do_as_well():
    assert form_fields(types.ElicitRequest(params=form())) == form_fields(form())


def test_references_and_fields_that_may_be_null_are_understood():
    schema = {
        "$defs": {"Size": {"type": "string", "enum": ["S", "L"], "title": "Size"}},
        "properties": {
            "size": {"$ref": "#/$defs/Size"},
            "age": {
                "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
                "title": "Age",
                "default": None,
            },
            "note": {"type": ["string", "null"]},
            "own": {"allOf": [{"$ref": "#/$defs/Size"}], "title": "Own"},
        },
    }
    size, age, note, own = form_fields(form(schema))
    assert (size.type, size.title, [each.value for each in size.choices]) == ("string", "Size", ["S", "L"])
    assert (age.type, age.title, age.minimum, age.nullable) == ("integer", "Age", 1, True)
    assert (note.type, note.nullable) == ("string", True)
    assert (own.title, [each.value for each in own.choices]) == ("Own", ["S", "L"])
    assert age.fault(None) is None
    assert size.fault(None) == "an answer is needed"


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": 3},
        {"properties": {}},
        {"type": "object", "required": 3},
    ],
)
def test_a_form_without_fields_asks_for_consent_alone(schema):
    assert form_fields(form(schema)) == ()


@pytest.mark.parametrize(
    "field",
    [
        3,
        None,
        {},
        {"type": 3, "title": 3, "minimum": "x", "enum": 3, "oneOf": [3], "format": 3, "default": {}},
        {"$ref": "#/$defs/none"},
        {"$ref": "#/properties/x"},
        {"$ref": "http://elsewhere.example/schema"},
        {"anyOf": [{"type": "null"}]},
        {"type": "string", "enum": ["a"], "enumNames": ["b", "c"]},
        {"type": "integer", "minimum": 10**400},
    ],
)
def test_rubbish_in_a_schema_is_no_reason_to_fail(field):
    (read,) = form_fields(form({"properties": {"x": field}, "required": [3, None]}))
    assert isinstance(read, FormField)
    assert not read.required
    read.fault("a")
    read.fault(3)


@pytest.mark.parametrize(
    "other", [None, 3, {}, types.ElicitRequestURLParams(message="?", url="https://x.example/")]
)
def test_what_is_no_form_is_refused(other):
    with pytest.raises(UsageError):
        form_fields(other)


# --- what was filled in -----------------------------------------------------------------------------------


def test_text_becomes_what_its_field_asks_for():
    values = {
        "name": "Ada",
        "mail": "ada@example.com",
        "age": " 36 ",
        "weight": "54.5",
        "news": "n",
        "colour": "r",
        "sizes": ["S", "L"],
        "tints": "r",
        "csrf_token": "abc",
    }
    assert validate_answer(form(), values) == {
        "name": "Ada",
        "mail": "ada@example.com",
        "age": 36,
        "weight": 54.5,
        "news": False,
        "colour": "r",
        "sizes": ["S", "L"],
        "tints": ["r"],
    }


def test_values_of_the_right_types_stay_as_they_are():
    values = {"name": "Ada", "age": 36, "weight": 1, "news": False, "sizes": ("S",)}
    cleaned = validate_answer(form(), values)
    assert cleaned == {"name": "Ada", "age": 36, "weight": 1, "news": False, "colour": "g", "sizes": ["S"]}


def test_blanks_are_left_out_and_get_their_defaults():
    values = {"name": "Ada", "age": "36", "mail": "  ", "colour": "", "weight": None}
    assert validate_answer(form(), values) == {"name": "Ada", "age": 36, "news": True, "colour": "g"}


def test_all_that_is_wrong_is_told_at_once():
    values = {
        "name": "Grace Hopper",
        "mail": "nobody",
        "age": "old",
        "weight": "1_0",
        "news": "perhaps",
        "colour": "b",
        "sizes": ["S", "M", "L"],
        "tints": ["x"],
    }
    with pytest.raises(AnswerInvalid) as caught:
        validate_answer(form(), values)
    assert caught.value.faults == {
        "name": "at most 5 characters",
        "mail": "must be an e-mail address",
        "age": "'old' is not of type integer",
        "weight": "'1_0' is not of type number",
        "news": "'perhaps' is not of type boolean",
        "colour": "choose from r, g",
        "sizes": "at most 2",
        "tints": "choose from r, g",
    }
    with pytest.raises(AnswerInvalid) as caught:
        validate_answer(form(), {})
    assert caught.value.faults == {"name": "an answer is needed", "age": "an answer is needed"}


def test_a_form_of_a_web_framework_says_nothing_of_what_is_not_ticked():
    posted = MultiDict(name=["Ada"], age=["36"], sizes=["S", "M"])
    assert validate_answer(form(), posted) == {
        "name": "Ada",
        "age": 36,
        "news": False,
        "colour": "g",
        "sizes": ["S", "M"],
        "tints": [],
    }
    assert validate_answer(form(), posted, html=False)["news"] is True
    assert validate_answer(one(type="boolean", default=True), {}, html=True) == {"x": False}


@pytest.mark.parametrize("typed", ["on", "true", "True", "yes", "y", "1"])
def test_a_ticked_box_is_true(typed):
    assert validate_answer(one(type="boolean"), {"x": typed}) == {"x": True}


@pytest.mark.parametrize(
    ("typed", "number"),
    [("12", 12), ("-3", -3), ("+4", 4), ("2.0", 2), ("1e3", 1000), ("9" * 30, int("9" * 30))],
)
def test_whole_numbers_are_read(typed, number):
    (value,) = validate_answer(one(type="integer"), {"x": typed}).values()
    assert value == number
    assert type(value) is int


@pytest.mark.parametrize("typed", ["1.5", "nan", "inf", "1e999", "0x10", "1,5", "9" * 5000, "\u0661\u0662x"])
def test_what_is_no_whole_number_is_told(typed):
    with pytest.raises(AnswerInvalid):
        validate_answer(one(type="integer"), {"x": typed})


def test_choices_need_not_be_texts():
    field = one(enum=[1, 2, True])
    assert validate_answer(field, {"x": "2"}) == {"x": 2}
    assert validate_answer(field, {"x": "true"}) == {"x": True}
    with pytest.raises(AnswerInvalid):
        validate_answer(one(enum=[0]), {"x": False})


@pytest.mark.parametrize(
    ("format", "good", "bad"),
    [
        ("email", ["a@b", "a.b+c@d.example"], ["a", "a@", "@b", "a b@c", "a@b@c", "a@.b"]),
        (
            "uri",
            ["https://x.example/?q=1#f", "urn:a:b", "mailto:a@b"],
            ["x.example", "//x", "a b:c", ":x", "http:"],
        ),
        ("date", ["2024-02-29"], ["2023-02-29", "24-1-1", "2024-02-29T00:00:00Z", "tomorrow"]),
        (
            "date-time",
            ["2024-02-29T23:59:60Z", "2024-02-29t10:00:00.5+01:00", "2024-02-29 10:00:00z"],
            ["2024-02-29", "2024-02-29T10:00:00", "2024-02-30T10:00:00Z", "2024-02-29T25:00:00Z"],
        ),
        ("of the future", ["anything"], []),
    ],
)
def test_formats_are_checked(format, good, bad):
    for text in good:
        assert validate_answer(one(type="string", format=format), {"x": text}) == {"x": text}
    for text in bad:
        with pytest.raises(AnswerInvalid):
            validate_answer(one(type="string", format=format), {"x": text})


def test_other_rules_of_json_schema_count_as_well():
    with pytest.raises(AnswerInvalid, match="does not match"):
        validate_answer(one(type="string", pattern="^[a-z]+$"), {"x": "A"})
    assert validate_answer(one(type="string", pattern="^[a-z]+$"), {"x": "a"}) == {"x": "a"}
    with pytest.raises(AnswerInvalid):
        validate_answer(one(type="integer", multipleOf=5), {"x": "7"})


def test_a_rule_that_cannot_be_used_is_passed_over():
    assert validate_answer(one(type="string", pattern="("), {"x": "a"}) == {"x": "a"}


def test_values_must_be_a_mapping():
    with pytest.raises(UsageError, match="mapping"):
        validate_answer(form(), [1])


def test_the_three_answers():
    assert accept({"a": 1}).to_wire() == {"action": "accept", "content": {"a": 1}}
    assert accept().to_wire() == {"action": "accept"}
    assert (decline().action, cancel().action) == ("decline", "cancel")


# --- pages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Example.com/a?b=c#d", "example.com"),
        ("https://example.com:8443/", "example.com"),
        ("http://localhost:3000/x", "localhost"),
        ("http://127.0.0.1/x", "127.0.0.1"),
        ("http://[::1]:80/x", "::1"),
    ],
)
def test_a_page_may_be_shown(url, host):
    page = check_url(types.ElicitRequestURLParams(message="?", url=url))
    assert (page.host, page.readable_host) == (host, host)
    assert page.url.lower() == url.lower()
    assert bool(page.warnings) == url.startswith("http:")


def test_names_in_other_letters_are_shown_in_ascii_and_warned_of():
    for url in ("https://b\u00fccher.example/x", "https://xn--bcher-kva.example/x"):
        page = check_url(url)
        assert page.url == "https://xn--bcher-kva.example/x"
        assert (page.host, page.readable_host) == ("xn--bcher-kva.example", "b\u00fccher.example")
        assert "may look like another one" in page.warnings[0]


def test_addresses_are_warned_of():
    for host in ("192.0.2.1", "192.0.2.1.", "[2001:db8::1]", "\uff11\uff19\uff12.0.2.1"):
        assert "address of a machine" in check_url(f"https://{host}/x").warnings[0]
    for host in ("1.example", "0x7f.example", "127.0.0.1.example"):
        assert check_url(f"https://{host}/x").warnings == ()


ODD_ADDRESSES = (
    "2130706433",
    "127.1",
    "0177.0.0.1",
    "0x7f.1",
    "0x7f000001",
    "0X7F.0.0.1",
    "127.0.0.01",
    "1.2.3.4.5",
)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://example.com/", "https://"),
        ("http://localhost.example.com/", "https://"),
        ("ftp://example.com/", "https://"),
        ("javascript:alert(1)", "https://"),
        ("data:text/html,x", "https://"),
        ("example.com", "https://"),
        ("", "https://"),
        ("https://", "no host"),
        ("https:///path", "no host"),
        ("https://bank.example@evil.example/", "user name"),
        ("https://@evil.example/", "user name"),
        ("https://bank.example\\@evil.example/", "control characters"),
        ("https://example.com/\x1b[31m", "control characters"),
        ("https://exam\nple.com/", "control characters"),
        (" https://example.com/", "control characters"),
        ("https://example.com:port/", "malformed"),
        ("https://[::1/", "malformed"),
        ("https://example.com/\u202egnp.exe", "characters that no URL may"),
        ("https://" + "\u00fc" * 300 + ".example/", "no name"),
        ("https://example.com/" + "x" * 9000, "8192"),
        ("https://paypal.com%2eevil.example/", "percent signs"),
        ("https://%65vil.example/", "percent signs"),
        ("https://evil.example\uff0500.paypal.com/", "percent signs"),
        *((f"https://{host}/x", "does not look like one") for host in ODD_ADDRESSES),
        ("http://127.1/", "https://"),
        ("https://paypal.com,evil.example/", "its host is no name"),
        ("https://[fe80::1%25eth0]/", "percent signs"),
    ],
)
def test_a_page_must_not_be_shown(url, words):
    with pytest.raises(UnsafeURL, match=words) as caught:
        check_url(url)
    assert caught.value.url == url


@pytest.mark.parametrize("other", [None, 3, form()])
def test_what_is_no_url_is_refused(other):
    with pytest.raises(UsageError):
        check_url(other)


# --- the prompt -------------------------------------------------------------------------------------------


class Keyboard(io.StringIO):
    """A terminal on which somebody has typed already."""

    def isatty(self):
        super().isatty()
        return True


def ask_form(context: ToolContext) -> str:
    """Ask with a form."""
    return str(context.elicit("About you", FORM))


def ask_page(context: ToolContext) -> str:
    """Ask for a visit."""
    return str(context.elicit_url("Sign in", "https://example.com/x")["action"])


def ask_trap(context: ToolContext) -> str:
    """Ask for a visit that nobody should make."""
    return str(context.elicit_url("Sign in", "https://bank.example@evil.example/")["action"])


def answered(monkeypatch, tool, typed):
    screen = Keyboard()
    monkeypatch.setattr(sys, "stdin", typed)
    monkeypatch.setattr(sys, "stderr", screen)
    server = InMemory(FakeServer(tools=[ask_form, ask_page, ask_trap]))
    with Client(server, elicitation_callback=terminal_prompt) as client:
        return client.call_tool(tool.__name__).text, screen.getvalue()


def test_a_form_is_asked_in_the_terminal(monkeypatch):
    typed = Keyboard("Ada\n\n17\n36\n\nno\nr\n\nS, M\n\n")
    answer, screen = answered(monkeypatch, ask_form, typed)
    wanted = {"name": "Ada", "age": 36, "news": False, "colour": "r", "sizes": ["S", "M"]}
    assert answer == str({"action": "accept", "content": wanted})
    assert "Your name (As on the card): " in screen
    assert "at least 18" in screen
    assert "age [integer]: " in screen
    assert "sizes [optional, several: separate them by commas]: " in screen


@pytest.mark.parametrize(
    ("typed", "action"), [("y\n", "accept"), ("no\n", "decline"), ("\n", "decline"), ("", "cancel")]
)
def test_a_visit_is_asked_for_and_the_host_is_shown(monkeypatch, typed, action):
    answer, screen = answered(monkeypatch, ask_page, Keyboard(typed))
    assert answer == action
    assert "https://example.com/x" in screen
    assert "It belongs to example.com" in screen


def test_a_visit_that_nobody_should_make_is_declined(monkeypatch):
    answer, screen = answered(monkeypatch, ask_trap, Keyboard("y\n"))
    assert answer == "decline"
    assert "user name before its host" in screen


def closed():
    stream = Keyboard()
    stream.close()
    return stream


@pytest.mark.parametrize("stdin", [None, io.StringIO("y\n"), closed()], ids=["none", "no terminal", "closed"])
def test_without_a_terminal_everything_is_declined(monkeypatch, stdin):
    answer, screen = answered(monkeypatch, ask_page, stdin)
    assert (answer, screen) == ("decline", "")


@pytest.mark.skipif(os.name != "posix", reason="needs pseudo-terminals")
def test_a_question_ends_when_the_client_is_closed(monkeypatch):
    ours, theirs = os.openpty()
    context = type("Context", (), {"session": type("Session", (), {"closed": True})})
    monkeypatch.setattr(sys, "stderr", Keyboard())
    try:
        with os.fdopen(theirs, "r", encoding="utf-8") as terminal:
            monkeypatch.setattr(sys, "stdin", terminal)
            params = types.ElicitRequestURLParams(message="?", url="https://example.com/")
            assert terminal_prompt(context, params).action == "cancel"
    finally:
        os.close(ours)


def test_a_forked_child_may_ask_although_its_parent_was_asking(monkeypatch):
    monkeypatch.setattr(_terminal.PROMPT, "_turn", threading.Lock())
    _terminal.PROMPT._turn.acquire()
    _terminal.PROMPT.after_fork_in_child()
    assert answered(monkeypatch, ask_page, Keyboard("y\n"))[0] == "accept"

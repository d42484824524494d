"""Secrets do not get into a recording; what is none stays as it is."""

from __future__ import annotations

import json

import pytest

from mcp_sync.testing._masking import HIDDEN, Mask

CANARY = "canary-5f1c"
# Looks like JSON, and is nested too deep to be read.
DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "message",
    [
        {"params": {"arguments": {"password": CANARY}}},
        {"params": {"arguments": {"login": {"apiKey": CANARY, "api-key": CANARY, "access_token": CANARY}}}},
        {"result": {"structuredContent": {"session_id": CANARY, "clientSecret": [CANARY]}}},
        {"result": {"content": [{"type": "text", "text": json.dumps({"deep": [{"token": CANARY}]})}]}},
        {"result": {"content": [{"type": "text", "text": f"use password={CANARY} or api_key: {CANARY}"}]}},
        {"result": {"content": [{"type": "text", "text": f"say 'token': '{CANARY}'"}]}},
        {"result": {"text": f"Authorization: Bearer {CANARY}"}},
        {"result": {"text": f"https://anna:{CANARY}@example.com/a and https://example.com/?code={CANARY}"}},
        {"result": {"text": f"eyJhbGciOi.{CANARY}.{CANARY}"}},
        {"params": {"argument": {"name": "password", "value": CANARY}}},
        {"params": {"requestState": CANARY}},
        {"schema": {"properties": {"password": {"type": "string", "default": CANARY, "enum": [CANARY]}}}},
        {"schema": {"properties": {"password": CANARY}}},
        {"params": {"arguments": {"pin": 123456}}},
        {"params": {"arguments": {"pin_code": CANARY, "session": CANARY, "csrf": CANARY, "ssn": CANARY}}},
        {"params": {"arguments": {"dbPwd": CANARY, "passphrase": CANARY, "mfa_code": CANARY}}},
        {"params": {"arguments": {"command": ["run", "--password", CANARY]}}},
        {"result": {"text": f"run --password {CANARY}, or <password>{CANARY}</password>"}},
        {"result": {"text": f"{DEEP}password={CANARY}"}},
    ],
)
def test_a_canary_is_found_wherever_it_sits(message):
    shown = json.dumps(Mask()(message))
    assert CANARY not in shown
    assert "123456" not in shown
    assert json.loads(shown).keys() == message.keys()


def test_what_a_user_names_is_hidden_too():
    mask = Mask(["Customer"], ["Anna Example", "Anna"])
    message = {"customer": "x", "text": "Anna Example wrote to Anna", "list": ["Anna"], "number": 5}
    assert mask(message) == {
        "customer": HIDDEN,
        "text": f"{HIDDEN} wrote to {HIDDEN}",
        "list": [HIDDEN],
        "number": 5,
    }


@pytest.mark.parametrize(
    "message",
    [
        {"inputSchema": {"type": "object", "properties": {"password": {"type": "string"}, "token": True}}},
        {"_meta": {"progressToken": 5}, "nextCursor": "abc", "required": ["password"]},
        {"text": "a text about tokens, passwords and the like", "uri": "demo://x?page=2"},
        {"text": '{"sum":  3}', "list": [1, 2.5, None, True, "x" * 200_000]},
        {"password": None, "token": ""},
        {"max_tokens": 100, "usage": {"prompt_tokens": 5, "tokens": 7}, "text": "max_tokens=100"},
        {"deep": {"er": [[[[{"a": {"b": ["c"] * 5000}}]]]]}},
    ],
)
def test_what_is_no_secret_stays_exactly_as_it_is(message):
    assert Mask()(message) == message


def test_the_message_itself_is_not_changed():
    message = {"params": {"password": CANARY}}
    Mask()(message)
    assert message["params"]["password"] == CANARY

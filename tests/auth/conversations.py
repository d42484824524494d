"""Leads conversations with authorization servers: answers come from a table, requests are written down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Union

from mcp_sync.auth._records import ClientRecord, ServerRecord
from mcp_sync.auth._steps import Answer, Conversation, Fetch, Learned, Pause
from mcp_sync.errors import AuthError

ISSUER = "https://as.example"
SERVER = "https://h.example/mcp"
NOW = 1_800_000_000.0

METADATA: dict[str, Any] = {
    "issuer": ISSUER,
    "authorization_endpoint": ISSUER + "/authorize",
    "token_endpoint": ISSUER + "/token",
    "registration_endpoint": ISSUER + "/register",
    "revocation_endpoint": ISSUER + "/revoke",
    "code_challenge_methods_supported": ["S256"],
}

Reply = Union[Answer, AuthError, Mapping[str, Any], int]


class Outcome(NamedTuple):
    """What a conversation returned or raised, what it asked, how long it waited, and what it learned."""

    value: Any
    asked: list[Fetch]
    pauses: list[float]
    learned: list[ClientRecord]

    @property
    def urls(self) -> list[str]:
        return [step.url for step in self.asked]


def answer(body: Any = None, status: int = 200, headers: Mapping[str, str] = {}) -> Answer:
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    return Answer(status, dict(headers), raw, "")


def lead(conversation: Conversation[Any], replies: Mapping[str, Union[Reply, list[Reply]]]) -> Outcome:
    """Lead a conversation to its end.

    Args:
        conversation: The generator.
        replies: By URL: an answer, a JSON object (status 200), a status without a body, an error that is
            thrown in, or a list of these for one request after the other. Anything else is 404.
    """
    waiting = {url: list(reply) if isinstance(reply, list) else reply for url, reply in replies.items()}
    asked: list[Fetch] = []
    pauses: list[float] = []
    learned: list[ClientRecord] = []
    try:
        step = next(conversation)
        while True:
            if isinstance(step, Learned):
                learned.append(step.client)
                step = next(conversation)
                continue
            if isinstance(step, Pause):
                pauses.append(step.seconds)
                step = next(conversation)
                continue
            asked.append(step)
            reply = waiting.get(step.url, 404)
            if isinstance(reply, list):
                reply = reply.pop(0)
            if isinstance(reply, AuthError):
                step = conversation.throw(reply)
            else:
                step = conversation.send(_answer(reply))
    except StopIteration as stop:
        return Outcome(stop.value, asked, pauses, learned)
    except Exception as error:
        return Outcome(error, asked, pauses, learned)


def _answer(reply: Any) -> Answer:
    if isinstance(reply, Answer):
        return reply
    return answer(status=reply) if isinstance(reply, int) else answer(reply)


def server(**metadata: Any) -> ServerRecord:
    """Return a server as discovery has found it; ``None`` takes a member out of the metadata."""
    values = {name: value for name, value in {**METADATA, **metadata}.items() if value is not None}
    return ServerRecord(values["issuer"], "https://h.example/mcp", values)


def client(**values: Any) -> ClientRecord:
    return ClientRecord(**{"issuer": ISSUER, "client_id": "me", **values})

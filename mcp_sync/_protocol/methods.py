"""The methods of the protocol that a client calls, one row each."""

from __future__ import annotations

from typing import NamedTuple


class MethodSpec(NamedTuple):
    """What the engine has to know of a method.

    Attributes:
        method: The name on the wire.
        input_rounds: Whether the server may answer that it needs input first (2026-07-28).
        handshake: Whether the revisions with a handshake have it.
        stateless: Whether 2026-07-28 has it.
    """

    method: str
    input_rounds: bool = False
    handshake: bool = True
    stateless: bool = True


INITIALIZE = MethodSpec("initialize", stateless=False)
DISCOVER = MethodSpec("server/discover", handshake=False)
PING = MethodSpec("ping", stateless=False)
LIST_TOOLS = MethodSpec("tools/list")
CALL_TOOL = MethodSpec("tools/call", input_rounds=True)
LIST_RESOURCES = MethodSpec("resources/list")
LIST_RESOURCE_TEMPLATES = MethodSpec("resources/templates/list")
READ_RESOURCE = MethodSpec("resources/read", input_rounds=True)
SUBSCRIBE = MethodSpec("resources/subscribe", stateless=False)
UNSUBSCRIBE = MethodSpec("resources/unsubscribe", stateless=False)
LIST_PROMPTS = MethodSpec("prompts/list")
GET_PROMPT = MethodSpec("prompts/get", input_rounds=True)
COMPLETE = MethodSpec("completion/complete")
SET_LEVEL = MethodSpec("logging/setLevel", stateless=False)
LISTEN = MethodSpec("subscriptions/listen", handshake=False)

METHODS: dict[str, MethodSpec] = {
    spec.method: spec for spec in list(globals().values()) if isinstance(spec, MethodSpec)
}


def spec_of(method: str) -> MethodSpec:
    """Return the row of a method; one that is unknown counts as existing everywhere."""
    return METHODS.get(method) or MethodSpec(method)

"""The methods of the protocol that a client calls, one row each."""

from __future__ import annotations

from typing import NamedTuple, Optional


class MethodSpec(NamedTuple):
    """What the engine has to know of a method.

    Attributes:
        method: The name on the wire.
        input_rounds: Whether the server may answer that it needs input first (2026-07-28).
        handshake: Whether the revisions with a handshake have it.
        stateless: Whether 2026-07-28 has it.
        idempotent: Whether it may be sent twice without harm.
        name_param: The param that names what it works on, sent as the header ``Mcp-Name`` too (2026-07-28).
        cacheable: Whether its results say how long they may be kept (2026-07-28).
    """

    method: str
    input_rounds: bool = False
    handshake: bool = True
    stateless: bool = True
    idempotent: bool = True
    name_param: Optional[str] = None
    cacheable: bool = False


INITIALIZE = MethodSpec("initialize", stateless=False, idempotent=False)
DISCOVER = MethodSpec("server/discover", handshake=False)
PING = MethodSpec("ping", stateless=False)
LIST_TOOLS = MethodSpec("tools/list", cacheable=True)
CALL_TOOL = MethodSpec("tools/call", input_rounds=True, idempotent=False, name_param="name")
LIST_RESOURCES = MethodSpec("resources/list", cacheable=True)
LIST_RESOURCE_TEMPLATES = MethodSpec("resources/templates/list", cacheable=True)
READ_RESOURCE = MethodSpec("resources/read", input_rounds=True, name_param="uri", cacheable=True)
SUBSCRIBE = MethodSpec("resources/subscribe", stateless=False)
UNSUBSCRIBE = MethodSpec("resources/unsubscribe", stateless=False)
LIST_PROMPTS = MethodSpec("prompts/list", cacheable=True)
GET_PROMPT = MethodSpec("prompts/get", input_rounds=True, name_param="name")
COMPLETE = MethodSpec("completion/complete")
SET_LEVEL = MethodSpec("logging/setLevel", stateless=False)
LISTEN = MethodSpec("subscriptions/listen", handshake=False, idempotent=False)

METHODS: dict[str, MethodSpec] = {
    spec.method: spec for spec in list(globals().values()) if isinstance(spec, MethodSpec)
}


def spec_of(method: str) -> MethodSpec:
    """Return the row of a method. An unknown one counts as existing everywhere, and as changing things."""
    return METHODS.get(method) or MethodSpec(method, idempotent=False)

"""Input rounds: how a stateless revision asks the client for input in the middle of a request."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any

from ._rpc import INVALID_PARAMS, Message, RpcError

if TYPE_CHECKING:
    from ._context import NeedsInput
    from ._exchange import Exchange

_SIGNATURE_LENGTH = 64


def input_required(exchange: Exchange, need: NeedsInput) -> Message:
    """Build the result that asks for input, with all earlier answers in its state."""
    result: Message = {"resultType": "input_required"}
    if need.requests:
        result["inputRequests"] = dict(need.requests)
    if exchange.connection.server.request_state or not need.requests:
        known = {**exchange.answers, **{key: {} for key in need.passed}}
        result["requestState"] = _seal(exchange, {"for": _fingerprint(exchange), "answers": known})
    return result


def answers(exchange: Exchange) -> dict[str, Message]:
    """Return the answers that came with a request: of this round, and of earlier ones by its state.

    Raises:
        RpcError: The state is not what this server gave out for this request, or the answers are none.
    """
    found: dict[str, Message] = {}
    state = exchange.params.get("requestState")
    if state is not None:
        opened = _open(exchange, state)
        if opened.get("for") != _fingerprint(exchange):
            raise RpcError(INVALID_PARAMS, "The requestState belongs to another request")
        found.update(opened["answers"])
    given = exchange.params.get("inputResponses", {})
    if not isinstance(given, dict) or not all(isinstance(answer, dict) for answer in given.values()):
        raise RpcError(INVALID_PARAMS, "inputResponses must be an object of results")
    return {**found, **given}


def _fingerprint(exchange: Exchange) -> str:
    named = {key: exchange.params.get(key) for key in ("name", "uri", "arguments")}
    text = json.dumps([exchange.method, named, exchange.principal], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _seal(exchange: Exchange, state: Message) -> str:
    body = base64.urlsafe_b64encode(json.dumps(state).encode()).decode("ascii")
    return _signature(exchange, body) + body


def _open(exchange: Exchange, sealed: Any) -> Message:
    # A server has to take the state for an attacker's input, so that a client which alters it must notice.
    if isinstance(sealed, str):
        signature, body = sealed[:_SIGNATURE_LENGTH], sealed[_SIGNATURE_LENGTH:]
        if hmac.compare_digest(signature.encode(), _signature(exchange, body).encode()):
            opened: Message = json.loads(base64.urlsafe_b64decode(body))
            return opened
    raise RpcError(INVALID_PARAMS, "The requestState is not what the server gave out")


def _signature(exchange: Exchange, body: str) -> str:
    return hmac.new(exchange.connection.server.secret, body.encode(), hashlib.sha256).hexdigest()

"""Calls that wait for their user to fill in a form. Any process that shares the store goes on with them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from flask import has_request_context, request

from ... import types
from ...auth import Key
from ...auth._store_edge import StoreEdge
from ...errors import AuthError, InputRequired, MCPError

if TYPE_CHECKING:
    from ._state import AppState

_now = time.time

PARAMETER = "mcp_input"  # of a page that is shown again, with the result at hand
_MOST_ANSWERS = 8  # that a page can have
WAITING, RESUMING, DONE, FAILED = "waiting", "resuming", "done", "failed"
_RESULTS: dict[str, Any] = {
    "tools/call": types.CallToolResult,
    "prompts/get": types.GetPromptResult,
    "resources/read": types.ReadResourceResult,
}
_METHODS = {"call_tool": "tools/call", "get_prompt": "prompts/get", "read_resource": "resources/read"}


class Pending:
    """One call that waits, as it was when it was read.

    Args:
        state: The application.
        id: Its name, which nobody can guess.
        value: What is kept.
        version: Which version of that it is, ``None`` for a new one.
    """

    def __init__(self, state: AppState, id: str, value: dict[str, Any], version: Optional[str]) -> None:
        self.id = id
        self.value = value
        self._state = state
        self._version = version

    @property
    def is_over(self) -> bool:
        """Whether nobody may answer any more."""
        life = self._state.settings.seconds("INPUT_LIFE")
        return bool(_now() - self.value["created_at"] > life)

    @property
    def is_stuck(self) -> bool:
        """Whether whoever went on with it has died: the server may have acted."""
        patience = self._state.settings.seconds("DEADLINE") + 10
        return bool(self.value["status"] == RESUMING) and _now() - self.value["changed_at"] > patience

    def waiting(self) -> InputRequired:
        """Return what the server asks."""
        return InputRequired.from_json(self.value["envelope"], key=self._state.sealer.envelope_key)

    @property
    def subject(self) -> str:
        """What was called: the name of a tool, say."""
        params = self.value["params"]
        return str(params.get("name") or params.get("uri") or self.value["method"])

    def result(self) -> Any:
        """Return what came of the call, ``None`` if nothing has yet."""
        raw = self.value.get("result")
        return None if raw is None else _RESULTS[self.value["method"]].model_validate(raw)

    def change(self, **values: Any) -> bool:
        """Keep new values, unless somebody else was faster."""
        value = {**self.value, **values, "changed_at": _now()}
        store = StoreEdge(self._state.store)
        if not store.put(_key(self.id), value, self._version):
            return False
        stored = store.get(_key(self.id))
        self.value, self._version = value, None if stored is None else stored.version
        return True

    def resume(self, client: Any, answers: Mapping[str, Any]) -> Any:
        """Go on with the call. Only one may: see that `change` has said so.

        Raises:
            InputRequired: The server asks once more: that is kept, under the same name.
            MCPError: The call failed. If the server has not got it, it waits on.
        """
        key, life = self._state.sealer.envelope_key, self._state.settings.seconds("INPUT_LIFE")
        try:
            result = client.resume(self.value["envelope"], answers, key=key, max_age=life)
        except InputRequired as again:
            self.change(status=WAITING, envelope=again.to_json(key=key))
            raise
        except MCPError as error:
            # Nor has it where the user must log in first.
            is_unsent = isinstance(error, AuthError) or getattr(error, "request_sent", None) is False
            self.change(status=WAITING if is_unsent else FAILED)
            raise
        self.change(status=DONE, result=result.to_wire())
        return result


def keep(
    state: AppState, waiting: InputRequired, alias: str, principal: str, place: str, is_shown_again: bool
) -> Pending:
    """Keep a call that waits.

    Args:
        state: The application.
        waiting: The call.
        alias: The server.
        principal: Who has to answer.
        place: The page that the user is at.
        is_shown_again: Whether that page shows the result, and not one of ours.

    Raises:
        AuthError: The store cannot be written.
    """
    value = {
        "status": WAITING,
        "alias": alias,
        "owner": principal,
        "method": waiting.method,
        "params": waiting.params,
        "for_principal": waiting.principal,
        "envelope": waiting.to_json(key=state.sealer.envelope_key),
        "place": place,
        "is_shown_again": is_shown_again,
        "created_at": _now(),
        "changed_at": _now(),
    }
    pending = Pending(state, secrets.token_urlsafe(24), value, None)
    pending.change()
    return pending


def load(state: AppState, id: str, principal: str) -> Optional[Pending]:
    """Return a call that waits, ``None`` if there is none, or it is somebody else's.

    Raises:
        AuthError: The store cannot be read.
    """
    stored = StoreEdge(state.store).get(_key(id))
    if stored is None or stored.value.get("owner") != principal:
        return None
    return Pending(state, id, dict(stored.value), stored.version)


def forget(state: AppState, pending: Pending) -> None:
    """Drop one that is over."""
    StoreEdge(state.store).put(_key(pending.id), None, pending._version)


def answered(
    state: AppState,
    alias: str,
    principal: Optional[str],
    verb: str,
    args: tuple[Any, ...],
    options: Mapping[str, Any],
) -> Any:
    """Return the result of a call that this page made before, and that its user has answered since.

    ``None`` if there is none: the same page, server, user and arguments count, and nothing else.
    """
    if not has_request_context():
        return None
    call = {
        "status": DONE,
        "alias": alias,
        "for_principal": principal,
        "method": _METHODS[verb],
        "params": _params(verb, args, options),
    }
    # A page that makes several calls has an answer for each of them.
    for id in request.args.getlist(PARAMETER)[-_MOST_ANSWERS:]:
        pending = load(state, id, state.principal())
        if pending is None or pending.is_over:
            continue
        if all(pending.value[name] == value for name, value in call.items()):
            return pending.result()
    return None


def _params(verb: str, args: tuple[Any, ...], options: Mapping[str, Any]) -> dict[str, Any]:
    named = dict(zip(("uri",) if verb == "read_resource" else ("name", "arguments"), args))
    named = {**{name: options[name] for name in ("uri", "name", "arguments") if name in options}, **named}
    if verb != "read_resource":
        named["arguments"] = dict(named.get("arguments") or {})
    return named


def _key(id: str) -> Key:
    return Key("input", resource=id)

"""Goes on with a call that waited for input: may it, and with which params."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Optional, Union

from . import types
from ._arguments import as_dict
from ._engine.credentials import bound_to
from ._engine.plan import Plan
from ._envelope import Key, expired, server_key, unseal
from ._input_answers import answer_to_wire
from ._protocol import methods
from ._protocol.brief import excerpt
from ._protocol.input_rounds import next_params
from .errors import EnvelopeRejected, InputRequired, UsageError
from .options import check_seconds

_RESULTS: dict[str, Any] = {
    methods.CALL_TOOL.method: types.CallToolResult,
    methods.GET_PROMPT.method: types.GetPromptResult,
    methods.READ_RESOURCE.method: types.ReadResourceResult,
}
# What the params of each method hold, by which the rest of the library takes them apart.
_NAMED: dict[str, dict[str, type]] = {
    methods.CALL_TOOL.method: {"name": str, "arguments": dict},
    methods.GET_PROMPT.method: {"name": str},
    methods.READ_RESOURCE.method: {"uri": str},
}


class PausedCall:
    """A call that a client may resume, as its envelope has it.

    Args:
        envelope: The exception, or the envelope.
        key: The key of its seal.
        max_age: The most seconds since it was made.
        plan: That of the client.

    Attributes:
        spec: The method to call.
        model: The model of its result.
        meta: What the caller had in ``_meta``.
        task: What is kept of the task that the call had become, ``None`` where it had not.

    Raises:
        EnvelopeRejected: It is none, or not for this client.
        UsageError: ``max_age`` or ``key`` is none.
    """

    def __init__(
        self,
        envelope: Union[InputRequired, Mapping[str, Any], str, bytes],
        key: Key,
        max_age: Optional[float],
        plan: Plan,
    ) -> None:
        check_seconds("max_age", max_age)
        data = envelope.to_json(key=key) if isinstance(envelope, InputRequired) else envelope
        kept = InputRequired.from_json(data, key=key)
        self._requests = kept.requests
        self._kept = unseal(data, key)
        self._check(plan, max_age)
        method = self._kept["method"]
        if method not in _RESULTS or not _has(self._kept["params"], _NAMED[method]):
            raise EnvelopeRejected(f"the envelope cannot be resumed: it is for no call of {method!r}")
        self.spec = methods.METHODS[method]
        self.model = _RESULTS[method]
        self.meta: Mapping[str, Any] = self._kept["meta"]
        self.task: Optional[Mapping[str, Any]] = self._kept.get("task")
        if self.task is not None and not _has(self.task, {"id": str, "asked": dict}):
            raise EnvelopeRejected("the envelope cannot be resumed: it has another form")

    def _check(self, plan: Plan, max_age: Optional[float]) -> None:
        if expired(self._kept, max_age, time.time()):
            text = f"the envelope cannot be resumed: it is older than {max_age:g} s (max_age); call again"
            raise EnvelopeRejected(text, reason="expired")
        if self._kept["server"].get("key") != server_key(plan.target):
            text = f"the envelope cannot be resumed: it belongs to another server than {plan.target!r}"
            raise EnvelopeRejected(text, reason="server")
        if (self._kept["principal"], self._kept["credentials"]) != (plan.principal, bound_to(plan)):
            text = (
                "the envelope cannot be resumed: it was made for another principal; resume it with the "
                "client of the user who made the call (client.for_principal)"
            )
            raise EnvelopeRejected(text, reason="principal")

    def check_revision(self, version: str) -> None:
        """Refuse to go on in another revision.

        Raises:
            EnvelopeRejected: The call was made in another one.
        """
        made = self._kept["revision"]
        if made != version:
            text = f"it was made with protocol revision {made}, the connection speaks {version}; call again"
            raise EnvelopeRejected(f"the envelope cannot be resumed: {text}", reason="revision")

    def params(self, answers: Mapping[str, Any]) -> dict[str, Any]:
        """Return the params with which to make the request again.

        Raises:
            UsageError: The answers are not those that were asked for.
        """
        given = as_dict("answers", answers)
        missing, unknown = self._requests.keys() - given.keys(), given.keys() - self._requests.keys()
        if missing:
            text = "each key of InputRequired.requests needs one"
            raise UsageError(f"there is no answer to {_listed(missing)}: {text}")
        if unknown:
            raise UsageError(f"the server did not ask for {_listed(unknown)}, only {_listed(self._requests)}")
        responses = {key: answer_to_wire(key, self._requests[key], given[key]) for key in self._requests}
        return next_params(self._kept["params"], {"requestState": self._kept["state"]}, responses)


def _listed(keys: Any) -> str:
    return ", ".join(sorted(excerpt(repr(key)) for key in keys))


def _has(params: Any, members: Mapping[str, type]) -> bool:
    is_object = isinstance(params, Mapping)
    return is_object and all(isinstance(params.get(name), kind) for name, kind in members.items())

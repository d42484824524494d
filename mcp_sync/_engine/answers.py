"""Answers to what the server asks of the client: sampling, elicitation, roots."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union

from pydantic import BaseModel, ValidationError

from .. import types
from .._protocol.form_defaults import fill_defaults
from ..errors import InvalidParams, MethodNotFound, UsageError, remote_error
from ..handlers import CallbackContext, Callbacks
from ..types._lenient import first_problem

if TYPE_CHECKING:
    from ..session import ClientSession

M = TypeVar("M", bound=BaseModel)


class Answers:
    """Holds the user's callbacks, and runs those that answer requests.

    Args:
        callbacks: The callbacks of the client.
        session: The client, for the context that the callbacks get.

    Attributes:
        callbacks, session: See above.
    """

    def __init__(self, callbacks: Callbacks, session: weakref.ref[ClientSession]) -> None:
        self.session = session
        self.callbacks = callbacks
        self._runners: dict[str, Callable[[CallbackContext, Mapping[str, Any]], Any]] = {}
        if callbacks.sampling is not None:
            self._runners["sampling/createMessage"] = _sampling(callbacks.sampling)
        if callbacks.elicitation is not None:
            self._runners["elicitation/create"] = _elicitation(callbacks.elicitation)
        if callbacks.list_roots is not None:
            self._runners["roots/list"] = _roots(callbacks.list_roots)

    def has(self, method: str) -> bool:
        """Whether there is a callback for this method."""
        return method in self._runners

    def answer(self, request: Mapping[str, Any], request_id: Union[str, int]) -> dict[str, Any]:
        """Run the callback for a request and return its result as it goes on the wire.

        Raises:
            RemoteError: The callback refused with ``ErrorData``, or there is no callback.
            Exception: Whatever the callback raised.
        """
        method = request.get("method")
        runner = self._runners.get(method) if isinstance(method, str) else None
        if runner is None:
            raise MethodNotFound(-32601, "Method not found")
        params = request.get("params")
        params = params if isinstance(params, dict) else {}
        session = self.session()
        if session is None:
            raise UsageError("the client is gone")
        meta = params.get("_meta")
        context = CallbackContext(session, request_id, meta if isinstance(meta, dict) else {})
        return _to_wire(runner(context, params))


def _sampling(callback: Any) -> Callable[[CallbackContext, Mapping[str, Any]], Any]:
    return lambda context, params: callback(context, _read(types.CreateMessageRequestParams, params))


def _roots(callback: Any) -> Callable[[CallbackContext, Mapping[str, Any]], Any]:
    return lambda context, params: callback(context)


def _elicitation(callback: Any) -> Callable[[CallbackContext, Mapping[str, Any]], Any]:
    def run(context: CallbackContext, params: Mapping[str, Any]) -> Any:
        is_url = params.get("mode") == "url"
        model: Any = types.ElicitRequestURLParams if is_url else types.ElicitRequestFormParams
        result = callback(context, _read(model, params))
        answer = result if isinstance(result, types.ErrorData) else _to_wire(result)
        if isinstance(answer, dict) and answer.get("action") == "accept" and not is_url:
            answer["content"] = fill_defaults(params.get("requestedSchema") or {}, answer.get("content"))
        return answer

    return run


def _read(model: type[M], params: Mapping[str, Any]) -> M:
    try:
        return model.model_validate(params)
    except ValidationError as error:
        raise InvalidParams(-32602, f"Invalid params: {first_problem(error)}") from error


def _to_wire(result: Any) -> dict[str, Any]:
    if isinstance(result, types.ErrorData):
        raise remote_error(result.code, result.message, result.data)
    if isinstance(result, dict):
        return dict(result)
    to_wire: Optional[Callable[[], dict[str, Any]]] = getattr(result, "to_wire", None)
    if to_wire is None:
        raise UsageError(f"a callback returned {type(result).__name__} instead of a result of mcp_sync.types")
    return to_wire()

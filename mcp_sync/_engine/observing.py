"""Telling an observer of calls (`mcp_sync.tracing`)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional
from urllib.parse import urlsplit

from .._concurrency.deadline import Deadline
from .._protocol.methods import MethodSpec
from .._protocol.urls import DEFAULT_PORTS
from ..tracing import ObservedCall, Observer, Peer
from .call_options import CallOptions

if TYPE_CHECKING:
    from .engine import Engine

logger = logging.getLogger("mcp_sync.tracing")


class Tracing:
    """Tells an observer of the calls of one client.

    Args:
        observer: The observer.
        target: Where the server is.
    """

    def __init__(self, observer: Observer, target: Any) -> None:
        self._observer = observer
        self._peer = _peer_of(target)

    def final_result(
        self,
        engine: Engine,
        spec: MethodSpec,
        params: dict[str, Any],
        options: CallOptions,
        deadline: Deadline,
    ) -> tuple[bool, dict[str, Any]]:
        """Do what ``engine.final_result`` does, and tell the observer."""
        call = self._call(engine, spec, params)
        begun: Any = None
        try:
            begun = self._observer.begin(call)
        except Exception:
            logger.exception("The observer failed when %s began", spec.method)
        try:
            is_first, result = engine.final_result(spec, params, options._replace(observed=call), deadline)
        except BaseException as error:
            self._end(call, begun, None, error)
            raise
        self._end(call, begun, result, None)
        return is_first, result

    def _call(self, engine: Engine, spec: MethodSpec, params: Mapping[str, Any]) -> ObservedCall:
        name, uri = params.get("name"), params.get("uri")
        return ObservedCall(
            client=engine.plan.settings.name,
            method=spec.method,
            name=name if isinstance(name, str) and spec.method in _NAMED else "",
            uri=uri if isinstance(uri, str) else "",
            params=params,
            peer=self._peer,
            principal=engine.plan.principal,
        )

    def _end(
        self,
        call: ObservedCall,
        begun: Any,
        result: Optional[Mapping[str, Any]],
        error: Optional[BaseException],
    ) -> None:
        try:
            self._observer.end(call, begun, result, error)
        except Exception:
            logger.exception("The observer failed when %s ended", call.method)


_NAMED = ("tools/call", "prompts/get")


def _peer_of(target: Any) -> Peer:
    kind = target.identity()
    url = getattr(target, "url", None)
    if isinstance(url, str):
        parts = urlsplit(url)
        is_websocket = parts.scheme.lower() in ("ws", "wss")
        port = parts.port or DEFAULT_PORTS.get(parts.scheme.lower())
        return Peer("tcp", "websocket" if is_websocket else "http", parts.hostname or "", port)
    return Peer("pipe") if isinstance(kind, tuple) and kind[:1] == ("stdio",) else Peer()

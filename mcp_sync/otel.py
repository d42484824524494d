"""OpenTelemetry: a span and a duration for each call, and the trace context for the server (extra ``otel``).

>>> client = Client(url, tracing=mcp_sync.otel.OpenTelemetry())

Names are those of the conventions for MCP (``docs/gen-ai/mcp.md`` of semantic-conventions-genai).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

from ._concurrency.fork import no_fork
from ._masking import masked, masked_text, public_uri
from ._version import __version__
from .errors import HTTPStatusError, RemoteError, UsageError
from .errors._printable import printable
from .tracing import ObservedCall

_SCOPE = "mcp_sync"
_BOUNDARIES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
# The most characters of an attribute that a server or a caller has filled.
_LONGEST = 4096


class _Begun(NamedTuple):
    span: Any
    token: Any
    at: float


class OpenTelemetry:
    """Tells OpenTelemetry of the calls of any number of clients.

    Each call is a span of the kind CLIENT, named ``tools/call add``, current while the call runs, so that
    spans of HTTP instrumentations and of callbacks on the calling thread are its children. Its context is
    sent to the server in ``_meta``, with the baggage. The histogram ``mcp.client.operation.duration`` counts
    seconds.

    Args:
        tracer_provider: Default: the global one.
        meter_provider: Default: the global one.
        baggage: Whether servers are sent the baggage, too, which may be about your users.
        content: Whether arguments and results of tools become attributes, and URIs of resources with their
            queries. They may be confidential. As in a trace, what is named like a secret or looks like one is
            masked, which is a help and no proof; so are the words of errors.

    Raises:
        UsageError: The package ``opentelemetry-api`` is missing.
    """

    def __init__(
        self,
        tracer_provider: Any = None,
        meter_provider: Any = None,
        *,
        baggage: bool = True,
        content: bool = False,
    ) -> None:
        try:
            with no_fork():
                from opentelemetry import context, metrics, trace
                from opentelemetry.baggage.propagation import W3CBaggagePropagator
                from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise UsageError('OpenTelemetry needs its API: pip install "mcp-sync-client[otel]"') from error
        self._api, self._context = trace, context
        self._tracer = trace.get_tracer(_SCOPE, __version__, tracer_provider)
        self._content = content
        # Those of the specification, whatever propagators this process uses elsewhere (SEP-414).
        self._propagators: list[Any] = [TraceContextTextMapPropagator()]
        if baggage:
            self._propagators.append(W3CBaggagePropagator())
        self._duration = _histogram(metrics.get_meter(_SCOPE, __version__, meter_provider))

    def begin(self, call: ObservedCall) -> _Begun:
        """Begin a span. See `Observer`."""
        shared = _shared_attributes(call)
        span = self._tracer.start_span(
            f"{call.method} {call.name}" if call.name else call.method,
            kind=self._api.SpanKind.CLIENT,
            attributes={**shared, **self._own_attributes(call)},
        )
        around = self._api.set_span_in_context(span)
        for propagator in self._propagators:
            propagator.inject(call.meta, context=around)
        return _Begun(span, self._context.attach(around), time.perf_counter())

    def end(
        self,
        call: ObservedCall,
        begun: Optional[_Begun],
        result: Optional[Mapping[str, Any]],
        error: Optional[BaseException],
    ) -> None:
        """End the span, and count how long it took. See `Observer`."""
        if begun is None:
            return
        fault, description = _fault(result, error)
        shared = {**_shared_attributes(call), **fault}
        # While the span is still the current one, of which the duration is an example.
        self._duration.record(time.perf_counter() - begun.at, shared)
        self._context.detach(begun.token)
        span = begun.span
        if span.is_recording():
            span.set_attributes(shared)
            if call.request_id is not None:
                span.set_attribute("jsonrpc.request.id", str(call.request_id))
            if call.session_id is not None:
                span.set_attribute("mcp.session.id", call.session_id)
            if self._content and result is not None and call.method == "tools/call":
                span.set_attribute("gen_ai.tool.call.result", _as_json(result))
            if fault:
                span.set_status(self._api.Status(self._api.StatusCode.ERROR, description))
        span.end()

    def _own_attributes(self, call: ObservedCall) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        if call.uri:
            uri = call.uri if self._content else public_uri(call.uri)
            attributes["mcp.resource.uri"] = masked_text(uri[:_LONGEST])
        if self._content and call.method == "tools/call":
            attributes["gen_ai.tool.call.arguments"] = _as_json(call.params.get("arguments"))
        return attributes


def _histogram(meter: Any) -> Any:
    options: dict[str, Any] = {
        "unit": "s",
        "description": "How long calls of the client took, from the request to the final result",
    }
    try:
        options["explicit_bucket_boundaries_advisory"] = _BOUNDARIES
        return meter.create_histogram("mcp.client.operation.duration", **options)
    except TypeError:  # Before version 1.30 of the API.
        del options["explicit_bucket_boundaries_advisory"]
        return meter.create_histogram("mcp.client.operation.duration", **options)


def _shared_attributes(call: ObservedCall) -> dict[str, Any]:
    """Return the attributes that spans and the histogram have, as far as they are known."""
    peer = call.peer
    attributes: dict[str, Any] = {
        "mcp.method.name": call.method,
        "mcp.protocol.version": call.protocol_version,
        "network.transport": peer.transport,
        "network.protocol.name": peer.protocol,
        "server.address": peer.address,
        "server.port": peer.port if peer.address else None,
    }
    if call.method == "tools/call":
        attributes["gen_ai.operation.name"] = "execute_tool"
        attributes["gen_ai.tool.name"] = call.name
    elif call.method == "prompts/get":
        attributes["gen_ai.prompt.name"] = call.name
    return {name: value for name, value in attributes.items() if value}


def _fault(
    result: Optional[Mapping[str, Any]], error: Optional[BaseException]
) -> tuple[dict[str, Any], Optional[str]]:
    """Return the attributes of a failure, none of a success, and what the status says."""
    if isinstance(error, RemoteError):
        code = str(error.code)
        return {"error.type": code, "rpc.response.status_code": code}, _words(error.message)
    if isinstance(error, HTTPStatusError):
        return {"error.type": str(error.status)}, _words(str(error))
    if error is not None:
        return {"error.type": type(error).__name__}, _words(str(error))
    if result is not None and result.get("isError") is True:
        return {"error.type": "tool_error"}, None
    return {}, None


def _words(text: str) -> str:
    return printable(masked_text(text[:_LONGEST]), 500)


def _as_json(value: Any) -> str:
    return json.dumps(masked(value), default=str)[:_LONGEST]

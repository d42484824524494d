"""A call that waits for input and is to go on elsewhere: what is kept of it."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from typing import Any

from .._envelope import KIND, VERSION, server_key
from .._protocol import codec
from .._protocol.input_rounds import original_params
from .._protocol.methods import MethodSpec
from ..errors import InputRequired, InvalidResult
from ..types.input_required import parse_input_requests
from .credentials import bound_to
from .plan import Plan


def paused(
    plan: Plan,
    version: str,
    spec: MethodSpec,
    params: Mapping[str, Any],
    meta: Mapping[str, Any],
    result: Mapping[str, Any],
) -> InputRequired:
    """Return what is raised instead of answering the input requests of a result.

    Args:
        plan: That of the client.
        version: The revision that the result is of.
        spec: The method of the call.
        params: Its params, perhaps with the answers of an earlier round.
        meta: What the caller has in ``_meta``.
        result: The result that asks for input.

    Raises:
        InvalidResult: One of the requests is malformed.
    """
    requests = result["inputRequests"]
    if parse_input_requests(requests) is None:
        raise InvalidResult(f"{spec.method}: the server's request for input is malformed", result=result)
    as_sent = json.loads(codec.encode({"params": original_params(params), "meta": dict(meta)}))
    state = result.get("requestState")
    envelope = {
        "kind": KIND,
        "version": VERSION,
        "id": secrets.token_hex(16),
        "created_at": int(time.time()),
        "server": {"key": server_key(plan.target)},
        "revision": version,
        "method": spec.method,
        **as_sent,
        "requests": requests,
        "state": state if isinstance(state, str) else None,
        "principal": plan.principal,
        "credentials": bound_to(plan),
    }
    count = f"{len(requests)} requests" if len(requests) > 1 else "a request"
    return InputRequired(
        f"{spec.method} waits for input: {count} of the server to answer, then client.resume()",
        envelope=envelope,
    )

"""What a server sends on a connection beside its answers: notifications, and requests of its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Optional, Union

from .._concurrency.pending import PendingCall
from .._protocol import codec
from .._protocol.eras import SUBSCRIPTION_ID_KEY
from .._protocol.frames import Frame
from ..errors import UsageError
from .call_table import CallTable
from .outbox import Outbox
from .router import Router, error_response

logger = logging.getLogger("mcp_sync.session")


class Unasked:
    """Has the calls that such a message concerns take note of it, and passes it on to the router.

    Its methods take a message and the call on whose own stream it came, ``None`` if on no call's.

    Args:
        calls: Those of the connection.
        router: Takes notifications and requests to the callbacks.
        outbox: Sends the answers to the requests.
    """

    def __init__(self, calls: CallTable, router: Router, outbox: Outbox) -> None:
        self._calls = calls
        self._router = router
        self._outbox = outbox
        # The methods of the requests that are being answered, by their ids.
        self._serving: dict[Union[str, int], str] = {}

    def notification(self, message: dict[str, Any], own: Optional[PendingCall]) -> None:
        """Take a notification."""
        method, params = message["method"], message.get("params")
        params = params if isinstance(params, dict) else {}
        if method == "notifications/progress":
            self._progress(params, own)
        elif method == "notifications/cancelled":
            self._take_back(params.get("requestId"))
        call = own if own is not None else self._subscription(params)
        if call is not None and call.on_notification is not None:
            call.on_notification(message)
        self._router.notification(message, own)

    def _progress(self, params: dict[str, Any], own: Optional[PendingCall]) -> None:
        call = self._calls.of_id(params.get("progressToken"))
        if call is None and own is not None and own.resumes:
            call = own
        if call is None:
            logger.debug("Ignored progress for no call in flight")
            return
        call.deadline.touch()
        if call.progress is not None:
            call.progress(params, own)

    def _take_back(self, request_id: Any) -> None:
        """Let go of a request of the server; or end one of ours, as it does to tear a subscription down."""
        if not isinstance(request_id, (str, int)):
            return
        self._serving.pop(request_id, None)
        call = self._calls.of_id(request_id)
        if call is not None and call.on_notification is not None:
            call.settle({"result": {}})

    def _subscription(self, params: Mapping[str, Any]) -> Optional[PendingCall]:
        """Return the long-lived request that a notification on a shared stream comes for, if for one."""
        meta = params.get("_meta")
        return self._calls.of_id(meta.get(SUBSCRIPTION_ID_KEY)) if isinstance(meta, dict) else None

    def request(self, message: dict[str, Any], own: Optional[PendingCall]) -> None:
        """Take a request of the server, and have it answered unless it is taken back first."""
        if message["method"] == "ping":
            self._outbox.post(Frame(codec.encode({"jsonrpc": "2.0", "id": message["id"], "result": {}})))
            return
        self._serving[message["id"]] = message["method"]
        calls = [own] if own is not None else list(self._calls.values())
        if not self._router.request(message, calls, self._respond):
            logger.debug("Dropped the answer to %s: too many wait to be sent", message["method"])
            self._serving.pop(message["id"], None)

    def _respond(self, response: dict[str, Any]) -> None:
        method = self._serving.pop(response["id"], None)
        if method is None:
            return  # The server took its request back.
        try:
            body = codec.encode(response)
        except UsageError as fault:
            logger.error("The answer to %s cannot be sent: %s", method, fault)
            body = codec.encode(error_response(response["id"], -32603, "Internal error"))
        self._outbox.send(Frame(body))

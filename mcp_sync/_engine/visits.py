"""A request that is refused until the user has visited a page (``-32042``, 2025-11-25).

Source: specification of 2025-11-25, "Elicitation", sections "Completion Notifications for URL Mode
Elicitation" and "URL Elicitation Required Error": the request was not processed, and may be made again once
all visits are over.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from .._protocol.methods import MethodSpec
from ..errors import UrlElicitationRequired
from .call_options import CallOptions
from .connection import Connection

if TYPE_CHECKING:
    from .engine import Engine

_ELICIT = "elicitation/create"
_COMPLETE = "notifications/elicitation/complete"


def visit_first(
    engine: Engine,
    connection: Connection,
    spec: MethodSpec,
    options: CallOptions,
    deadline: Deadline,
    refusal: UrlElicitationRequired,
) -> Connection:
    """Have the user make the visits that a server asks for, wait until it says that they are over.

    Returns:
        The connection on which to make the request again.

    Raises:
        UrlElicitationRequired: ``refusal``: nobody can be asked, the user did not agree, or the visits
            were not over in time. The request can be made again later.
        MCPError: What ends the wait: the token, the end of the client or of the connection.
        Exception: What the callback raised.
    """
    pages = {page.elicitation_id: page for page in refusal.elicitations if page.elicitation_id}
    has_all = len(pages) == _count(refusal.data) > 0
    if not connection.era.handshake or not engine.answers.has(_ELICIT) or not has_all:
        raise refusal
    visits = _Visits(set(pages))
    deadline.hold()
    try:
        # Before anybody is asked: the user may be quicker than the callback.
        engine.router.watch(visits.notified)
        for elicitation_id, page in pages.items():
            request = {"method": _ELICIT, "params": {**page.to_wire(), "mode": "url"}}
            if engine.answers.answer(request, elicitation_id).get("action") != "accept":
                raise refusal
        connection.wait(spec, None, options.cancel, deadline, visits.wake)
    finally:
        engine.router.unwatch(visits.notified)
        deadline.release()
    if not visits.over:
        raise refusal
    return engine.connection(deadline, options.cancel)


def _count(data: Any) -> int:
    listed = data.get("elicitations") if isinstance(data, Mapping) else None
    return len(listed) if isinstance(listed, list) else 0


class _Visits:
    """The visits that are not over yet, and the call that waits for them."""

    def __init__(self, waiting: set[str]) -> None:
        self._waiting = waiting
        self._waiter: Optional[PendingCall] = None
        # Guards both: the reading thread takes visits out while the caller begins to wait.
        self._lock = threading.RLock()

    @property
    def over(self) -> bool:
        """Whether all visits are."""
        return not self._waiting

    def notified(self, message: Mapping[str, Any]) -> None:
        """Take a notification of the server."""
        if message.get("method") != _COMPLETE:
            return
        params = message.get("params")
        elicitation_id = params.get("elicitationId") if isinstance(params, Mapping) else None
        if not isinstance(elicitation_id, str):
            return
        with self._lock:
            self._waiting.discard(elicitation_id)
            waiter = self._waiter if self.over else None
        if waiter is not None:
            waiter.settle({})

    def wake(self, waiter: PendingCall) -> None:
        """Have the end of the last visit settle a call."""
        with self._lock:
            self._waiter = waiter
            over = self.over
        if over:
            waiter.settle({})

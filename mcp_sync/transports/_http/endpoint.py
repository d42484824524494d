"""An MCP endpoint: the POST, GET and DELETE of the protocol, with the headers of session and revision."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Optional

from ..._protocol.urls import public_url
from .._base import Frame, Wire
from .adapter.adapter import BoundedAdapter
from .exchange import Exchange
from .reply import Reply
from .senders import Cookies, DirectSender, Shared, sender_for
from .target import StreamableHTTP, is_visible_ascii

logger = logging.getLogger("mcp_sync.transports.http")

SESSION_ID = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"
EVENTS = "text/event-stream"
POST_HEADERS = {"Accept": f"application/json, {EVENTS}", "Content-Type": "application/json"}


class Endpoint:
    """Sends what the protocol sends: POST, GET and DELETE. Knows nothing of engine and calls.

    Attributes:
        peer: How the server is named.
        wire: What the revision asks for.
        session_id: The session that the server opened.
    """

    def __init__(self, target: StreamableHTTP, shared: Optional[Shared] = None) -> None:
        self.peer = public_url(target.url)
        self.wire = Wire()
        self.session_id = target.session_id
        self._sender = sender_for(target) if shared is None else DirectSender(target, shared=shared)

    @property
    def adapter(self) -> Optional[BoundedAdapter]:
        """What sends its requests, ``None`` where that is the user's."""
        return self._sender.adapter if isinstance(self._sender, DirectSender) else None

    @property
    def cookies(self) -> Cookies:
        """Those that go with a request now."""
        return self._sender.cookies

    @property
    def in_session(self) -> bool:
        """Whether requests carry a session id."""
        return self.wire.sessions and self.session_id is not None

    def carries_session(self, frame: Frame) -> bool:
        """Whether a message is sent with a session id; that which opens a session is not."""
        return self.in_session and frame.method != "initialize"

    def post(self, frame: Frame, exchange: Exchange) -> Reply:
        """Send a message; take the session id from the answer to ``initialize``."""
        is_opening = frame.method == "initialize"
        headers = {**frame.headers, **POST_HEADERS}
        self._add_state(headers, self.carries_session(frame))
        doing = frame.method or "a response"
        reply = self._sender.send("POST", headers, frame.body, exchange, doing)
        if is_opening and 200 <= reply.status < 300:
            self._adopt_session(reply.headers)
        return reply

    def get(self, last_event_id: str, exchange: Exchange) -> Reply:
        """Ask for the standalone stream, or with an event id for the rest of a broken one."""
        headers = {"Accept": EVENTS}
        if last_event_id:
            # Its UTF-8, as it came.
            headers["Last-Event-ID"] = last_event_id.encode().decode("iso-8859-1")
        self._add_state(headers)
        return self._sender.send("GET", headers, None, exchange, "GET")

    def delete(self, exchange: Exchange) -> None:
        """End the session, whatever the server says to that."""
        headers: dict[str, str] = {}
        self._add_state(headers)
        self._sender.send("DELETE", headers, None, exchange, "DELETE").close()

    def _add_state(self, headers: dict[str, str], in_session: bool = True) -> None:
        wire, session_id = self.wire, self.session_id
        if wire.version_header is not None:
            headers[VERSION_HEADER] = wire.version_header
        if wire.sessions and in_session and session_id is not None:
            headers[SESSION_ID] = session_id

    def _adopt_session(self, headers: Mapping[str, str]) -> None:
        session_id = headers.get(SESSION_ID)
        if session_id is not None and not is_visible_ascii(session_id):
            logger.warning("%s sent a session id with characters that none may have", self.peer)
            session_id = None
        self.session_id = session_id

    def close(self) -> None:
        """Close the connections."""
        self._sender.close()

    def abandon(self) -> None:
        """In a forked child: drop the inherited connections."""
        self._sender.abandon()

"""What receivers can be told, with the application as the sender.

- ``grant_created``, ``grant_revoked``: ``server``, ``principal``;
- ``authorization_required``: ``server``, ``principal``;
- ``input_required``, ``input_answered``: ``server``, ``principal``, ``id``;
- ``tool_called``: ``server``, ``principal``, ``tool``, ``seconds``, ``ok``.
"""

from __future__ import annotations

import logging
from typing import Any

from blinker import Namespace
from flask import current_app

logger = logging.getLogger("mcp_sync.flask")

_names = Namespace()
grant_created = _names.signal("mcp-grant-created")
grant_revoked = _names.signal("mcp-grant-revoked")
authorization_required = _names.signal("mcp-authorization-required")
input_required = _names.signal("mcp-input-required")
input_answered = _names.signal("mcp-input-answered")
tool_called = _names.signal("mcp-tool-called")


def send(signal: Any, **values: Any) -> None:
    """Tell receivers; what they raise is logged, and harms nobody."""
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    for receiver in signal.receivers_for(app):
        try:
            receiver(app, **values)
        except Exception as error:
            logger.warning("The receiver %r of a signal failed: %s", receiver, type(error).__name__)

"""What receivers can be told. The sender is the class that sends; all is sent with ``send_robust``.

- ``grant_created``, ``grant_refreshed``, ``grant_revoked``: ``alias``, ``principal``, ``user_id``;
- ``authorization_required``: ``alias``, ``user``; ``input_required``: ``pending`` (`PendingInput`);
- ``tool_called``: ``alias``, ``tool``, ``user``, ``seconds``, ``ok``;
- ``tools_changed``: ``alias``; ``resource_updated``: ``alias``, ``uri`` (both by ``manage.py mcp_listen``);
- ``task_finished``: ``task`` (`TaskRecord`).
"""

from __future__ import annotations

import logging
from typing import Any

from django.dispatch import Signal

logger = logging.getLogger("mcp_sync.django")

grant_created = Signal()
grant_refreshed = Signal()
grant_revoked = Signal()
authorization_required = Signal()
input_required = Signal()
tool_called = Signal()
tools_changed = Signal()
resource_updated = Signal()
task_finished = Signal()


def send(signal: Signal, sender: Any, **values: Any) -> None:
    """Tell receivers; what they raise is logged, and harms nobody."""
    for receiver, answer in signal.send_robust(sender, **values):
        if isinstance(answer, Exception):
            logger.warning("The receiver %r of a signal failed: %s", receiver, type(answer).__name__)

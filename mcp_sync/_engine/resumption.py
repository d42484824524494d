"""Calls that can be taken up where the stream of their response broke, and those that take one up."""

from __future__ import annotations

import logging
from typing import Callable

from .._concurrency.pending import PendingCall
from .._protocol.eras import Era
from .._protocol.frames import Frame
from ..errors import NotSupported
from ..transports._base import Channel
from .call_options import CallOptions

logger = logging.getLogger("mcp_sync.session")


def with_resumption(
    frame: Frame, call: PendingCall, era: Era, options: CallOptions, channel: Channel
) -> Frame:
    """Have a call tell its caller where it could be taken up, or take up an earlier one itself.

    Returns:
        The frame that is to be sent.

    Raises:
        NotSupported: An earlier call cannot be taken up on this channel in this era.
    """
    token, take = options.resumption_token, options.on_resumption_token
    can_resume = channel.is_http and not channel.duplex and era.wire(False).resumable
    if token and not can_resume:
        raise NotSupported(
            f"{call.method}: {channel.peer} cannot take up a call (protocol revision {era.version})",
            method=call.method,
            version=era.version,
        )
    if take is not None and can_resume:
        call.on_event_id = lambda event_id: _hand_over(take, event_id)
    call.resumes = bool(token)
    return frame._replace(resume_from=token)


def _hand_over(take: Callable[[str], None], token: str) -> None:
    try:
        take(token)
    except Exception:
        logger.exception("on_resumption_token_update failed")

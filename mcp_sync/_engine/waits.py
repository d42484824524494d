"""Waiting for something else than an answer, so that whatever ends a call ends the wait."""

from __future__ import annotations

from typing import Optional

from .._concurrency.cancel import CancelToken
from .._concurrency.pending import PendingCall


def settled_in_time(waiter: PendingCall, cancel: Optional[CancelToken]) -> bool:
    """Wait with a call that is never sent, until somebody settles it; return whether that was in time.

    Args:
        waiter: The call.
        cancel: The token that ends the wait, if there is one.

    Raises:
        MCPError: What the waiter failed with: the token was cancelled, or the client closed.
    """
    try:
        if cancel is not None:
            cancel.watch(waiter)
        if not waiter.wait():
            return False
        waiter.result()
        return True
    finally:
        waiter.forget_outcome()

"""Cancelling a call from another thread."""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from typing import Optional

from ..errors import CallCancelled, UsageError
from .pending import PendingCall


class CancelToken:
    """Cancels the calls that it was passed to, from any thread.

    Pass it as ``cancel=`` to one call or to many. The waiting callers wake at once with
    `CallCancelled`, and the server is told. A call that gets a token which is cancelled already fails
    without being sent.

    Example:
        >>> token = CancelToken()
        >>> threading.Timer(5, token.cancel, ["took too long"]).start()
        >>> client.call_tool("build", cancel=token)
    """

    def __init__(self) -> None:
        self.cancelled = False
        self.reason: Optional[str] = None
        self._calls: weakref.WeakSet[PendingCall] = weakref.WeakSet()
        # The tokens that `follow` this one.
        self._followers: list[weakref.ref[CancelToken]] = []
        # Guards the set, the list and the flag; calls are failed after it is released. Re-entrant, because a
        # signal handler may cancel on the very thread that is just in here.
        self._lock = threading.RLock()

    def cancel(self, reason: Optional[str] = None) -> None:
        """Cancel all calls of this token, now and later. Does not block; only the first reason counts.

        Raises:
            UsageError: The reason is no string.
        """
        if reason is not None and not isinstance(reason, str):
            raise UsageError(f"the reason must be a str, not {type(reason).__name__}")
        with self._lock:
            if not self.cancelled:
                self.cancelled, self.reason = True, reason
            # Also the second time: a signal handler may have interrupted the first.
            calls = list(self._calls)
            followers, self._followers = self._followers, []
        for call in calls:
            call.fail(self.error(call.method, call.request_sent))
        for reference in followers:
            follower = reference()
            if follower is not None:
                follower.cancel(self.reason)

    def follow(self, other: CancelToken) -> None:
        """Be cancelled as soon as another token is."""
        with other._lock:
            late = other.cancelled
            if not late:
                # When it goes, so does its entry: one token may serve any number of calls.
                other._followers.append(weakref.ref(self, other._forget))
        if late:
            self.cancel(other.reason)

    def _forget(self, reference: weakref.ref[CancelToken]) -> None:
        with suppress(ValueError):
            self._followers.remove(reference)

    def watch(self, call: PendingCall) -> None:
        """Have `cancel` fail this call; fail it at once if the token is cancelled."""
        with self._lock:
            self._calls.add(call)
            late = self.cancelled
        if late:
            call.fail(self.error(call.method, call.request_sent))

    def error(self, method: str, request_sent: bool) -> CallCancelled:
        """Return what a cancelled call raises."""
        text = f"{method} was cancelled" + (f": {self.reason}" if self.reason else "")
        return CallCancelled(text, reason=self.reason, request_sent=request_sent)

"""What is done after a failure: whether a request is sent again, and when a broken stream is taken up.

Decisions only, from plain values. The engine sends requests again, the HTTP transport takes up streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

from ..errors import ConnectionLost, HTTPStatusError, MCPError, SessionExpired
from ..options import Retry
from .methods import MethodSpec

# The server, or what stands before it, has not let the request in (RFC 6585 section 4).
_TOO_MANY = 429
# It may come from a proxy that lost the server halfway; only who says when to come back has not acted.
_UNAVAILABLE = 503
# What passes, and hurts nobody where the request changes nothing.
_PASSING = (_TOO_MANY, 502, _UNAVAILABLE, 504)


class Again(NamedTuple):
    """Send the request again, as a new one.

    Attributes:
        wait: Seconds until then.
        anew: Whether to open a new session or connection for it.
    """

    wait: float = 0.0
    anew: bool = False


def after_failure(
    failures: Sequence[MCPError],
    spec: MethodSpec,
    retry: Retry,
    left: Optional[float],
    *,
    reopens: bool,
    shared: bool,
    chance: float = 0.5,
) -> Optional[Again]:
    """Decide what follows a failed request; ``None`` means that its caller is told.

    Never sends a request twice on which the server may have acted, unless its method changes nothing.

    Args:
        failures: What came of each attempt so far, the last one last.
        spec: The method.
        retry: What the user allows.
        left: Seconds that the call has left, ``None`` for no bound.
        reopens: Whether a new session or connection may be opened.
        shared: Whether all calls share the connection that failed, so that it is gone for all of them.
        chance: A random number from 0 to 1, so that many callers do not come back at once.
    """
    error = failures[-1]
    if isinstance(error, SessionExpired):
        is_first = not any(isinstance(each, SessionExpired) for each in failures[:-1])
        return Again(anew=True) if error.request_sent is False and is_first and reopens else None
    if len(failures) >= retry.attempts:
        return None
    backoff = retry.backoff * 2 ** (len(failures) - 1) * (0.5 + chance)
    if isinstance(error, HTTPStatusError):
        if not _may_repeat(error, spec):
            return None
        wait = backoff if error.retry_after is None else error.retry_after
        return Again(wait) if _is_bearable(wait, retry, left) else None
    if not isinstance(error, ConnectionLost):
        return None
    if error.request_sent is False:
        return Again(anew=True) if reopens else None
    if spec.idempotent and not shared:
        return Again(backoff) if _is_bearable(backoff, retry, left) else None
    return None


def _may_repeat(error: HTTPStatusError, spec: MethodSpec) -> bool:
    if spec.idempotent:
        return error.status in _PASSING
    return error.status == _TOO_MANY or (error.status == _UNAVAILABLE and error.retry_after is not None)


def _is_bearable(wait: float, retry: Retry, left: Optional[float]) -> bool:
    return wait <= retry.longest_wait and (left is None or wait < left)


def resume_delay(failures: int, asked: Optional[int], retry: Retry) -> Optional[float]:
    """Return the seconds until a broken stream is taken up again, ``None`` to give it up.

    Args:
        failures: How many attempts in a row brought nothing.
        asked: The milliseconds that the server asked for (its ``retry`` field), if it did.
        retry: What the user allows.
    """
    if failures >= retry.resume:
        return None
    return retry.backoff if asked is None else asked / 1000

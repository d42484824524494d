"""What is done after a failure: whether a request is sent again, and whether a broken stream is taken up.

Decisions only, from plain values. The engine sends requests again; the HTTP transport takes up streams and
tells what a refusal means. Beside these, three refusals lead to another request, each where its remedy is: a
revision that the server does not know (`engine`), headers that do not fit the body (`_tool_verbs`), a
connection that had closed before anything was sent (the HTTP adapter).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

from ..errors import (
    AuthError,
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    HTTPStatusError,
    MCPError,
    MessageTooLarge,
    SessionExpired,
    TransportError,
)
from ..options import Retry
from .methods import MethodSpec

# The server, or what stands before it, has not let the request in (RFC 6585 section 4).
_TOO_MANY = 429
# It may come from a proxy that lost the server halfway; only who says when to come back has not acted.
_UNAVAILABLE = 503
# What passes, and hurts nobody where the request changes nothing.
_PASSING = (_TOO_MANY, 502, _UNAVAILABLE, 504)
_TURNED_AWAY = (401, 404, 405, 406, 407, 411, 413, 414, 415, 421, 426, _TOO_MANY, 431)
# Refusals of a resumption after which another attempt may still succeed.
_NOT_YET = (408, 425, _TOO_MANY)
# A stream that stood so long has not failed, even if it brought nothing: proxies cut idle ones.
_LONG_ENOUGH = 10.0
# The least that is waited before a stream is taken up, what that grows to while none stands long, and what
# it grows to where nothing can be taken up, so that each new stream has all who listen ask for everything.
_LEAST_DELAY, _LEAST_DELAY_GROWN, _LEAST_DELAY_OF_GAPS = 0.01, 0.25, 5.0
_DOUBLINGS = 9
# The most that a server may have a subscription wait, in seconds.
_LONGEST_PAUSE = 3600.0
# For how long in a row a server may be away that is asked how a task is getting on, and the longest pause
# between two attempts meanwhile, in seconds. An attempt that could come only after the end of the call comes
# in the middle of what is left, down to the least.
_LONGEST_OUTAGE, _LONGEST_LOOK, _LEAST_LOOK = 30.0, 5.0, 0.05


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
    chance: float,
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
    attempts = sum(not isinstance(each, SessionExpired) for each in failures)
    if isinstance(error, SessionExpired):
        is_first = attempts == len(failures) - 1
        return Again(anew=True) if error.request_sent is False and is_first and reopens else None
    if attempts >= retry.attempts:
        return None
    backoff = retry.backoff * 2 ** (attempts - 1) * (0.5 + chance)
    if isinstance(error, HTTPStatusError):
        wait = backoff if error.retry_after is None else error.retry_after
        return Again(wait) if _may_repeat(error, spec) and _is_bearable(wait, retry, left) else None
    if isinstance(error, ConnectionLost):
        if error.request_sent is False:
            return Again(anew=True) if reopens else None
        if spec.idempotent and not shared and _is_bearable(backoff, retry, left):
            return Again(backoff)
    return None


def _may_repeat(error: HTTPStatusError, spec: MethodSpec) -> bool:
    if spec.idempotent:
        return error.status in _PASSING
    return error.status == _TOO_MANY or (error.status == _UNAVAILABLE and error.retry_after is not None)


def _is_bearable(wait: float, retry: Retry, left: Optional[float]) -> bool:
    return wait <= retry.longest_wait and (left is None or wait < left)


class Attempts(NamedTuple):
    """What came of the attempts in a row to take up a stream.

    A server may end a stream on purpose, again and again, in order to be asked later; it names another event
    then. That is no failure, but nothing to ask for as fast as one can either, whatever each stream brings.

    Attributes:
        failures: How many in a row brought nothing.
        brief: How many in a row did not stand long.
        gaps: How many of these in a row did not name another event either.
    """

    failures: int = 0
    brief: int = 0
    gaps: int = 0

    def after(self, messages: int, moved: bool, seconds: float) -> Attempts:
        """Count another one.

        Args:
            messages: How many it brought. Comments, and events without data, are none.
            moved: Whether it brought another event id.
            seconds: How long the stream stood.
        """
        if stood_long(seconds):
            return Attempts()
        failures = 0 if messages or moved else self.failures + 1
        return Attempts(failures, self.brief + 1, 0 if moved else self.gaps + 1)


def resume_delay(attempts: Attempts, asked: Optional[int], retry: Retry) -> Optional[float]:
    """Return the seconds until a broken stream is taken up again, ``None`` to give it up.

    Args:
        attempts: What came of those so far.
        asked: The milliseconds that the server asked for (its ``retry`` field), if it did.
        retry: What the user allows.
    """
    if attempts.failures >= retry.resume:
        return None
    least = min(_grown(attempts.brief), _LEAST_DELAY_GROWN)
    least = max(least, min(_grown(attempts.gaps), _LEAST_DELAY_OF_GAPS))
    return max(least, retry.backoff if asked is None else asked / 1000)


def _grown(times: int) -> float:
    return _LEAST_DELAY * (1 << min(times, _DOUBLINGS))


def stood_long(seconds: float) -> bool:
    """Whether a stream stood so long that its end is none of those that follow each other without end."""
    return seconds >= _LONG_ENOUGH


class Drops(NamedTuple):
    """What came of the attempts in a row to open a subscription again.

    Attributes:
        failures: How many in a row were of no use.
        brief: How many in a row did not stand long, of use or not.
    """

    failures: int = 0
    brief: int = 0

    def after(self, acknowledged: bool, seconds: float, brought: bool, error: MCPError) -> Drops:
        """Count another one.

        Args:
            acknowledged: Whether the server acknowledged it. Alone that is no use: a server may do so, and
                close it at once, for ever.
            seconds: How long it stood.
            brought: Whether it brought an event.
            error: What broke it off. A message that is too large comes again, whatever came before it.
        """
        if acknowledged and stood_long(seconds):
            return Drops(0, 1)
        is_of_use = acknowledged and brought and not isinstance(error, MessageTooLarge)
        return Drops(0 if is_of_use else self.failures + 1, self.brief + 1)


def reopening_delay(drops: Drops, error: MCPError, retry: Retry, *, chance: float) -> Optional[float]:
    """Return the seconds until a subscription that broke off is opened again, ``None`` to give it up.

    Args:
        drops: What came of the attempts, this one included.
        error: What broke it off.
        retry: What the user allows.
        chance: A random number from 0 to 1, so that many clients do not come back at once.
    """
    if drops.failures >= retry.listen or not _passes(error):
        return None
    # Doubling a float for ever ends in an error.
    grown = min(retry.backoff * 2.0 ** min(drops.brief - 1, 30), retry.longest_wait)
    asked = error.retry_after if isinstance(error, HTTPStatusError) else None
    return max(grown * (0.5 + chance), min(asked or 0.0, _LONGEST_PAUSE))


class Outage(NamedTuple):
    """A server that cannot be asked how a task is getting on.

    Attributes:
        failures: How many attempts in a row have failed.
        since: When the first of them had, by the clock of the caller.
    """

    failures: int = 0
    since: float = 0.0

    def after(self, now: float) -> Outage:
        """Count another one that has failed now."""
        return Outage(self.failures + 1, self.since if self.failures else now)


def outage_delay(
    outage: Outage, now: float, error: MCPError, retry: Retry, left: Optional[float], *, chance: float
) -> Optional[float]:
    """Return the seconds until a task is looked at again, ``None`` to give it up.

    Args:
        outage: What came of the attempts, this one included.
        now: What the clock of the caller shows.
        error: How this one failed.
        retry: What the user allows.
        left: Seconds that the call has left, ``None`` for no bound.
        chance: A random number from 0 to 1, so that many callers do not come back at once.
    """
    asked = error.retry_after if isinstance(error, HTTPStatusError) else None
    if now - outage.since >= _LONGEST_OUTAGE or not _may_be_away(error):
        return None
    if asked is not None and not _is_bearable(asked, retry, left):
        return None
    wait = min(retry.backoff * 2.0 ** min(outage.failures - 1, 30), _LONGEST_LOOK) * (0.5 + chance)
    wait = max(wait, asked or 0.0, _LEAST_LOOK)
    if left is None or wait < left:
        return wait
    return left / 2 if left / 2 > max(asked or 0.0, _LEAST_LOOK) else None


def _may_be_away(error: MCPError) -> bool:
    """Whether it says that the server restarts, or that a proxy lost it."""
    if isinstance(error, HTTPStatusError):
        return error.status in _NOT_YET or error.status >= 500
    if isinstance(error, AuthError):
        return error.transient
    return isinstance(error, (ConnectFailed, ConnectionLost, CallTimeout))


def _passes(error: MCPError) -> bool:
    """Whether another attempt may succeed where this one failed."""
    if isinstance(error, HTTPStatusError):
        return not ends_resumption(error.status)
    if isinstance(error, AuthError):
        return error.transient
    return isinstance(error, (TransportError, CallTimeout))


def ends_resumption(status: int) -> bool:
    """Whether it is of no use to ask again for a stream that was refused with this HTTP status."""
    return 400 <= status < 500 and status not in _NOT_YET


def may_have_acted(status: int, retry_after: Optional[float]) -> bool:
    """Whether a server that answered a request with this failure may have acted on it all the same.

    It has not where the status says that the request was turned away before anybody looked at what it asks
    for: a redirect, credentials that are missing, a wrong path, method, size or type, too many requests, and
    a server that has no time but says when it will. Any other failure may have come up halfway.
    """
    if status == _UNAVAILABLE:
        return retry_after is None
    return not (300 <= status < 400 or status in _TURNED_AWAY)


def means_lost_session(status: int, in_session: Optional[bool], is_addressed: bool = False) -> bool:
    """Whether a refusal says that the server does not know the session any more.

    Source: specification 2025-11-25, "Streamable HTTP", section "Session Management".

    Args:
        status: The HTTP status.
        in_session: Whether the message was sent with a session id; ``None`` where that does not matter.
        is_addressed: Whether the body is an error for this very request, and of another kind.
    """
    return status == 404 and bool(in_session) and not is_addressed

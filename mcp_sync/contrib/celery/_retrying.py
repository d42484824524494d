"""Which errors are worth a retry: never where a tool may have acted."""

from __future__ import annotations

import random
from typing import Any, Optional

from ...errors import (
    AuthError,
    AuthorizationRequired,
    CallTimeout,
    HTTPStatusError,
    InsufficientScope,
    SessionExpired,
    TransportError,
)

_LONGEST = 300.0  # between two attempts where the server has not said when, in seconds
# A message that a worker keeps for longer, brokers give to another one, too: RabbitMQ after half an hour,
# Redis after an hour. The tool would be called twice.
MOST_SECONDS = 1500.0
_TRANSIENT = (429, 502, 503, 504)


class LoginNeeded(Exception):
    """The user of a task has to log in to a server first. Results keep it whole, also in JSON.

    Attributes:
        server: The alias of the server.
        url: Where to send the user, empty if that is not known.
        text: What went wrong.
    """

    def __init__(self, server: str, url: str = "", text: str = "") -> None:
        super().__init__(server, url, text)
        self.server = server
        self.url = url
        self.text = text

    def __str__(self) -> str:
        return f"{self.server}: {self.text or 'somebody has to log in'}{f': {self.url}' if self.url else ''}"


# Results name the class by this, and whoever reads them has it loaded.
LoginNeeded.__module__ = "mcp_sync.contrib.celery"


def retry_kwargs_for(
    error: BaseException, *, attempt: int = 0, idempotent: bool = False, longest: float = MOST_SECONDS
) -> Optional[dict[str, Any]]:
    """Return the arguments of ``self.retry`` after an error, ``None`` if the task must fail.

    It is retried if the server has not got the call, or says that it has not let it in: a tool that may have
    acted is not called again. What the server asks for (``Retry-After``) becomes the countdown.

    Args:
        error: What the call raised.
        attempt: How many retries there were: ``self.request.retries``.
        idempotent: Whether it does no harm to do it all twice.
        longest: The most seconds that a retry waits (25 minutes: brokers give away anew what waits for
            longer); a server that asks for more gets none.
    """
    if not _is_worth_it(error) or not (idempotent or cannot_have_acted(error)):
        return None
    after: Optional[float] = getattr(error, "retry_after", None)
    if after is None:
        after = min(2.0**attempt, _LONGEST) * random.uniform(0.5, 1.0)
    return None if after > longest else {"exc": error, "countdown": after}


def _is_worth_it(error: BaseException) -> bool:
    if isinstance(error, AuthError):
        return error.transient and not isinstance(error, (AuthorizationRequired, InsufficientScope))
    if isinstance(error, HTTPStatusError):
        return error.status in _TRANSIENT
    return isinstance(error, (TransportError, CallTimeout))


def cannot_have_acted(error: BaseException) -> bool:
    """Whether a call that ended so has done nothing at the server."""
    if isinstance(error, (AuthError, SessionExpired)):
        return True
    return isinstance(error, (TransportError, CallTimeout)) and error.request_sent is False

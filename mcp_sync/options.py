"""Settings of a client, as immutable values."""

from __future__ import annotations

import enum
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional, Union

from .errors import UsageError

if TYPE_CHECKING:
    from .cache import CacheStore


class _Unset(enum.Enum):
    """The type of `UNSET`: "not given", where ``None`` means "no bound"."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET = _Unset.UNSET

# More seconds than this no lock can wait (about 292 years).
LONGEST = threading.TIMEOUT_MAX
Seconds = Optional[float]
TimeoutArgument = Union[float, None, _Unset]


def check_seconds(name: str, value: Any) -> None:
    """Refuse what is no number of seconds.

    Raises:
        UsageError: ``value`` is neither ``None`` nor a number of at least 0.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or value < 0:
        raise UsageError(f"{name} must be a number of seconds (0 or more) or None, not {value!r}")
    if value > LONGEST:
        raise UsageError(f"{name} is longer than any clock can wait; None means no bound")


def check_validation(mode: Any) -> None:
    """Refuse an unknown way to treat invalid output.

    Raises:
        UsageError: It is none of ``"warn"``, ``"strict"`` and ``"off"``.
    """
    if mode not in ("warn", "strict", "off"):
        raise UsageError(f'validation must be "warn", "strict" or "off", not {mode!r}')


@dataclass(frozen=True)
class Timeouts:
    """Bounds on time, in seconds; ``None`` means no bound.

    Attributes:
        connect: TCP and TLS until the connection stands.
        probe: The wait for an answer to ``server/discover`` before a server counts as an older one, on a
            stream that all requests share (stdio, WebSocket, HTTP+SSE). Over Streamable HTTP, where an older
            server refuses what it does not know, silence says less: there it is five times as long.
        open: The whole opening: connect, probe, handshake. What authorization takes meanwhile, a login by the
            user included, does not count here (`mcp_sync.auth`).
        silence: How long a call may stay without a sign of life. Progress resets this clock.
        total: The longest that a call may last, whatever it reports.
        close: The whole of ``close()``; also how long a callback may delay the return of its call, and how
            long the answer to a request of the server may take to be sent.
    """

    connect: Seconds = 10
    probe: Seconds = 2
    open: Seconds = 30
    silence: Seconds = 60
    total: Seconds = 1800
    close: Seconds = 5

    def __post_init__(self) -> None:
        for name in ("connect", "probe", "open", "silence", "total", "close"):
            check_seconds(f"Timeouts.{name}", getattr(self, name))


@dataclass(frozen=True)
class Limits:
    """Bounds on sizes and counts, far above what a real server needs.

    What exceeds one raises an error that names it. Three bounds are fixed, and named as well: JSON may be
    nested 200 levels deep, its integers may have 4300 digits (both pydantic-core), and the head of an HTTP
    response may have 100 headers of 64 KiB (``http.client``).

    Attributes:
        message_bytes: The largest message that is accepted, in bytes, after decompression, and the largest
            event of a stream. On a channel that all calls share (stdio, WebSocket, HTTP+SSE) a larger one
            costs the connection, elsewhere the call. Once a message has arrived, no timeout interrupts the
            reading of it; that takes up to a second per megabyte, where it consists of tiny entries.
        pages: How many pages an iterator follows.
        input_rounds: How often a server may ask for input within one call (2026-07-28).
        queue_length: How many messages may wait for the callbacks.
        handler_threads: How many server requests are answered at a time.
        submit_threads: How many calls of ``submit`` and ``stream_tool`` run at a time, besides those that may
            wait for others of them; more of them wait.
        stderr_lines: How many of the last lines of a server's standard error are kept.
    """

    message_bytes: int = 64 * 1024 * 1024
    pages: int = 1000
    input_rounds: int = 10
    queue_length: int = 10_000
    handler_threads: int = 4
    submit_threads: int = 32
    stderr_lines: int = 50

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"Limits.{name} must be a whole number of at least 1, not {value!r}")


@dataclass(frozen=True)
class Retry:
    """What is repeated by itself, always within the call's time. Never what could run a tool twice.

    A request is sent again, with a new id, where the server has certainly not acted on it:

    - it answered 429, or 503 with ``Retry-After``;
    - it does not know the session any more (a `Client` opens another one, once);
    - the connection was gone before a byte was sent.

    Requests that change nothing (lists, reads, prompts, completions, pings) are sent again after 502, 503 and
    504 and after a broken HTTP response, too. Calls of tools are not, and neither is what `request` sends.

    Attributes:
        attempts: How often a request is sent at most; 1 for no repetition. (A session that has expired
            does not count.)
        resume: How often in a row a broken response stream of a legacy server is taken up where it broke;
            the request itself is not repeated then. 0 for never.
        backoff: Seconds before a second attempt, where the server named none. It doubles with each further
            attempt, give or take a half at random.
        longest_wait: The most seconds that a server may have a call wait (``Retry-After``). Above it the call
            raises `HTTPStatusError` at once, with ``retry_after``. Also the longest pause before a
            subscription that broke off is opened again.
        listen: How often in a row it may fail to open a subscription (`listen`) again that broke off. One
            that breaks off within 10 seconds without an event has failed, too. 0 for never.
    """

    attempts: int = 3
    resume: int = 3
    backoff: float = 1.0
    longest_wait: float = 30.0
    listen: int = 20

    def __post_init__(self) -> None:
        for name, least in (("attempts", 1), ("resume", 0), ("listen", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise UsageError(f"Retry.{name} must be a whole number of at least {least}, not {value!r}")
        for name in ("backoff", "longest_wait"):
            if getattr(self, name) is None:
                raise UsageError(f"Retry.{name} must be a number of seconds, not None")
            check_seconds(f"Retry.{name}", getattr(self, name))


@dataclass(frozen=True)
class CacheOptions:
    """Which answers of a server are kept, and where: ``Client(..., cache=CacheOptions())``.

    Lists and resources are kept for as long as the server says (2026-07-28; "Caching" in the server utilities
    of the specification), and no longer than until it tells that they have changed. What it marks as public
    is shared by all who use the store. All else is for one principal only:

    - the ``principal`` that is named here, or by ``client.for_principal``;
    - else whoever the credentials are for: headers, a pair of user name and password, a client certificate,
      the token of a `BearerToken`, or the ``principal`` of an `OAuth` and its like, whatever token that has
      just now. A function that gives tokens is asked for each list and read;
    - else this client alone: where there is no telling, as with other ``auth`` objects, with ``session=``,
      and without a URL. A client whose ``auth`` presents now this user and now that one must have no cache.

    A call with ``meta=``, ``headers=`` or ``on_input="raise"`` leaves the cache aside, and ``request`` does.

    Attributes:
        store: A `CacheStore`; by default a `MemoryCache` of this client's own.
        principal: Whose answers they are. The same name means the same user to all that share the store.
        secret: A secret of your application, with which credentials are hashed. Processes that share a store
            find each other's private answers by the same secret or ``principal``; without both they do not.
        default_ttl: For how many seconds answers stay fresh about which the server says nothing, as all do
            before 2026-07-28. 0: they are not kept.
        max_ttl: The most seconds that any answer stays fresh, whatever the server says.
        stale_on_error: For how many seconds after that an answer may still be given, with a warning in the
            log, where the server cannot be reached, has an error of HTTP (5xx), or is too slow.
        share_public: Whether what the server marks as public is shared. ``False`` if servers are not to be
            trusted with that.

    Raises:
        UsageError: Something of it cannot work.
    """

    store: Optional[CacheStore] = None
    principal: Optional[str] = None
    secret: Union[str, bytes, None] = field(default=None, repr=False)
    default_ttl: float = 0.0
    max_ttl: float = 24 * 3600.0
    stale_on_error: float = 0.0
    share_public: bool = True

    def __post_init__(self) -> None:
        for name in ("default_ttl", "max_ttl", "stale_on_error"):
            check_seconds(f"CacheOptions.{name}", getattr(self, name))
            if getattr(self, name) is None:
                raise UsageError(f"CacheOptions.{name} must be a number of seconds, not None")
        for name in ("get_many", "put", "delete"):
            if self.store is not None and not callable(getattr(self.store, name, None)):
                raise UsageError(f"CacheOptions.store has no method {name}: see mcp_sync.cache.CacheStore")
        if self.principal is not None and (not isinstance(self.principal, str) or not self.principal):
            raise UsageError("CacheOptions.principal must be a string that is not empty")
        if self.secret is not None and (not isinstance(self.secret, (str, bytes)) or not self.secret):
            raise UsageError("CacheOptions.secret must be a str or bytes, and not empty")
        if not isinstance(self.share_public, bool):
            raise UsageError("CacheOptions.share_public must be True or False")

"""What a user says about a server that is reached over Streamable HTTP."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Optional, Union
from urllib.parse import urlsplit, urlunsplit

from ..._arguments import check_no_class
from ..._concurrency.fork import no_fork
from ..._protocol.headers import checked_headers
from ..._protocol.urls import origin, public_url
from ...errors import UsageError
from .._base import Channel, Settings

if TYPE_CHECKING:
    import requests

    from .senders import Shared


@dataclass(frozen=True, repr=False)
class HTTPTarget:
    """What every server has that is reached over HTTP. The arguments are those of `StreamableHTTP`."""

    url: str
    headers: Optional[Mapping[str, str]] = None
    auth: Any = None
    session: Optional[requests.Session] = None
    verify: Union[bool, str] = True
    cert: Union[str, tuple[str, str], None] = None
    proxies: Optional[Mapping[str, str]] = None

    def __post_init__(self) -> None:
        check_url(self.url, ("http", "https"))
        object.__setattr__(self, "headers", checked_headers(self.headers))
        check_no_class("auth", self.auth)
        if self.auth is not None and not callable(self.auth) and not _is_pair(self.auth):
            kind = type(self.auth).__name__
            raise UsageError(f"auth must be an AuthBase, a function, or a pair of strings, not {kind}")
        if self.session is not None and not callable(getattr(self.session, "request", None)):
            raise UsageError(f"session must be a requests.Session, not {type(self.session).__name__}")
        if self.session is not None and _sends_again(self.session, self.url):
            raise UsageError(
                "the session has an adapter that may send a POST again after the server got it, so that a "
                "tool could run twice: let it repeat connecting alone, by "
                "Retry(None, connect=3, read=0, status=0, other=0)"
            )
        if not isinstance(self.verify, (bool, str)):
            raise UsageError(f"verify must be True, False or a path, not {type(self.verify).__name__}")
        if self.cert is not None and not isinstance(self.cert, str) and not _is_pair(self.cert):
            raise UsageError("cert must be a path or a pair of paths")
        if self.proxies is not None and not isinstance(self.proxies, Mapping):
            raise UsageError(f"proxies must be a mapping, not {type(self.proxies).__name__}")

    def __hash__(self) -> int:
        return hash(self.url)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({public_url(self.url)!r})"


@dataclass(frozen=True, repr=False)
class StreamableHTTP(HTTPTarget):
    """A server that is reached over Streamable HTTP.

    ``HTTP_PROXY`` and its like, ``REQUESTS_CA_BUNDLE`` and ``~/.netrc`` count as they do for requests, with
    two exceptions: a loopback address is not sent to a proxy of the environment, and ``.netrc`` never
    replaces an ``Authorization`` that was given here.

    Args:
        url: The MCP endpoint.
        headers: Headers of every request.
        auth: Any authorization of requests: an ``AuthBase`` object, another callable, or a pair of user
            name and password.
        session: A ``requests.Session`` to be used as it is, with its adapters, hooks and cookies. It stays
            yours: it is neither changed nor closed. Reading through it is slower, and while it waits for
            the head of a response, only its own read timeout (which is set to what is left of the call's
            time) bounds it. An adapter whose ``Retry`` would send a POST again that the server may have got
            is refused: a tool could run twice.
        verify: As in requests: ``False``, or the path of a CA bundle; with ``True`` the usual one.
        cert: As in requests: the path of a client certificate, or a pair of certificate and key.
        proxies: As in requests.
        session_id: Take up this session of the server (revisions up to 2025-11-25).
        terminate_on_close: Whether the end of the client ends its session on the server (those revisions).
            ``False`` leaves it for another client to take up.

    Raises:
        UsageError: Something of it cannot work.
    """

    session_id: Optional[str] = None
    terminate_on_close: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.session_id is not None and not is_visible_ascii(self.session_id):
            raise UsageError("session_id must consist of visible ASCII characters")

    __hash__ = HTTPTarget.__hash__

    def identity(self) -> Hashable:
        """Return origin and path."""
        return ("http", origin(self.url), urlsplit(self.url).path or "/")

    def channel(self, settings: Settings, shared: Optional[Shared] = None) -> Channel:
        """Make a new channel. Opens nothing.

        Args:
            settings: Those of the client.
            shared: What it has in common with the channels of other principals.
        """
        with no_fork():
            from .channel import HTTPChannel

        return HTTPChannel(self, settings, shared)


# Headers that say nothing of who somebody is. Of any other one, a key of the server's own, nobody can tell.
_HARMLESS = ("user-agent", "accept-language")


def nobody(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Have a request go without credentials, those of ``.netrc`` included: an authorization of requests."""
    return request


def with_credentials(target: Any, auth: Any, headers: Optional[Mapping[str, str]]) -> Any:
    """Return a target with the credentials of somebody else, and none of those that it has.

    Args:
        target: One with ``url``, ``auth`` and ``headers``.
        auth: Its ``auth`` instead.
        headers: Its headers instead. Only ``User-Agent`` and ``Accept-Language`` stay, unless they are here.

    Raises:
        UsageError: They cannot be used.
    """
    given = checked_headers(headers) or {}
    left = set(_HARMLESS).difference(name.lower() for name in given)
    kept = {name: value for name, value in (target.headers or {}).items() if name.lower() in left}
    if auth is None and not any(name.lower() == "authorization" for name in given):
        auth = nobody
    changes: dict[str, Any] = {"auth": auth, "headers": {**kept, **given}}
    parts = urlsplit(target.url)
    if "@" in parts.netloc:
        changes["url"] = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    if getattr(target, "session_id", None) is not None:
        changes["session_id"] = None
    return replace(target, **changes)


def _sends_again(session: Any, url: str) -> bool:
    """Whether an adapter of a session, for this server, repeats a POST that the server may have acted on."""
    here = "{}://{}:{}/".format(*origin(url)), "{}://{}/".format(*origin(url)[:2])
    for prefix, adapter in dict(getattr(session, "adapters", None) or {}).items():
        prefix = str(prefix).lower()
        if any(each.startswith(prefix) or prefix.startswith(each.rstrip("/")) for each in here):
            retries = getattr(adapter, "max_retries", None)
            if retries is not None and _repeats(retries):
                return True
    return False


def _repeats(retries: Any) -> bool:
    """Whether urllib3 sends a POST again by this ``Retry`` after the server may have got it."""

    def allows(name: str) -> bool:
        limit = getattr(retries, name, None)
        return limit is None or (limit is not False and limit > 0)

    if getattr(retries, "total", None) is not None and not retries.total:
        return False
    methods = getattr(retries, "allowed_methods", None)
    # What is neither a failure to connect nor to read, such as broken TLS, is repeated whatever the method.
    return allows("other") or ((not methods or "POST" in methods) and (allows("read") or allows("status")))


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(item, str) for item in value)


def is_visible_ascii(value: Any) -> bool:
    """Whether a value can be a session id."""
    return isinstance(value, str) and bool(value) and all("!" <= letter <= "~" for letter in value)


def check_url(url: Any, schemes: tuple[str, ...]) -> None:
    """Refuse what is no URL of one of these schemes.

    Raises:
        UsageError: It is none.
    """
    if not isinstance(url, str):
        raise UsageError(f"the URL must be a string, not {type(url).__name__}")
    if any(letter.isspace() or letter < " " or letter == "\x7f" for letter in url):
        raise UsageError("the URL holds white space or control characters")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        # Its words quote what may be a password with a slash in it.
        raise UsageError(
            "the URL cannot be read: its port is no number, or its host no name (characters such as / ? # of "
            "a password have to be quoted)"
        ) from None
    if parts.scheme.lower() not in schemes or not host:
        wanted = " or ".join(f"{scheme}://host/path" for scheme in schemes)
        raise UsageError(f"the URL must look like {wanted}, not {public_url(url)!r}")

"""How requests are sent: with what is the same for each of a target, across redirects, with cookies kept."""

from __future__ import annotations

# Imported by the first request through requests otherwise, perhaps while another thread forks.
import netrc  # noqa: F401
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Optional
from urllib.parse import urlsplit, urlunsplit

import requests
from requests.auth import HTTPBasicAuth
from requests.cookies import RequestsCookieJar, extract_cookies_to_jar
from requests.hooks import dispatch_hook
from requests.structures import CaseInsensitiveDict
from requests.utils import get_auth_from_url, get_netrc_auth

from ..._concurrency.fork import no_fork
from ..._protocol.urls import is_loopback, public_url
from ..._version import __version__
from ...errors import UsageError
from .adapter.adapter import BoundedAdapter
from .adapter.response import Answer, Headers
from .errors import status_error
from .exchange import Exchange
from .redirects import KEEPING_THE_MESSAGE, MOST_REDIRECTS, REDIRECTS, redirect
from .reply import DirectReply, Reply
from .target import HTTPTarget
from .user_session import reply_of, send_through

_CONSTANT = {"User-Agent": f"mcp-sync/{__version__}", "Accept-Encoding": "gzip, deflate"}

# Domain, path, name and value of each.
Cookies = tuple[tuple[str, str, str, Optional[str]], ...]


class Sender:
    """Sends the requests of a channel. Safe for any number of threads.

    Attributes:
        url: Where to: the URL of the target.
        followed: The redirects that are followed, within the origin.
    """

    followed: tuple[int, ...] = KEEPING_THE_MESSAGE

    def __init__(self, url: str) -> None:
        self.url = url
        # Where the server has redirected to, by method. That of POST counts for all, but GET may move alone.
        self._moved: dict[str, str] = {}

    @property
    def cookies(self) -> Cookies:
        """Those that go with a request now."""
        return ()

    def send(
        self, method: str, headers: Mapping[str, str], body: Optional[bytes], exchange: Exchange, doing: str
    ) -> Reply:
        """Send a request and read the head of the response, across redirects within the origin.

        Raises:
            HTTPStatusError: A redirect that is not followed.
            requests.RequestException: It failed.
        """
        start = self._moved.get(method) or self._moved.get("POST", self.url)
        reply, url = self.send_to(start, method, headers, body, exchange, doing, self.followed)
        if url != start:
            self._moved[method] = url
        return reply

    def send_to(
        self,
        url: str,
        method: str,
        headers: Mapping[str, str],
        body: Optional[bytes],
        exchange: Exchange,
        doing: str,
        followed: tuple[int, ...] = KEEPING_THE_MESSAGE,
    ) -> tuple[Reply, str]:
        """Do what `send` does with a URL of the same origin.

        Args:
            followed: The redirects that are followed, within the origin.

        Returns:
            The response, and the URL that it came from.
        """
        for _ in range(MOST_REDIRECTS + 1):
            reply = self._send_once(url, method, headers, body, exchange)
            if reply.status not in REDIRECTS:
                return reply, url
            reply.release()
            next_url, refusal = redirect(reply.status, url, reply.headers.get("location"), followed)
            if refusal is not None:
                raise status_error(reply.status, reply.headers, url, "", doing, refusal)
            url = next_url
        raise status_error(reply.status, reply.headers, url, "", doing, "too many redirects")

    def _send_once(
        self, url: str, method: str, headers: Mapping[str, str], body: Optional[bytes], exchange: Exchange
    ) -> Reply:
        raise NotImplementedError

    def close(self) -> None:
        """Close idle connections."""

    def abandon(self) -> None:
        """In a forked child: drop what was inherited."""


def bound(auth: Any, exchange: Exchange, server: str) -> Any:
    """Return an authorization for one exchange with a server.

    One of ours has the deadline of the exchange count for what it has to do, and is for the URL of the
    target, whatever path its requests go to.
    """
    bind = getattr(auth, "_bound_to", None)
    return auth if bind is None else bind(exchange, server)


def sender_for(target: HTTPTarget) -> Sender:
    """Return what sends the requests of a new channel."""
    return DirectSender(target) if target.session is None else SessionSender(target)


@dataclass(frozen=True)
class _Defaults:
    """What every request has, and what requests has to be told each time."""

    headers: Headers
    auth: Any
    options: dict[str, Any]


class Shared:
    """What senders for one endpoint share that differ in nothing but the credentials.

    Args:
        target: The endpoint.
        adapter: An adapter that is in use for it already.
    """

    def __init__(self, target: HTTPTarget, adapter: Optional[BoundedAdapter]) -> None:
        self.target = target
        self.url = _without_credentials(_prepared(target.url))
        self.adapter = BoundedAdapter() if adapter is None else adapter.share()
        self._environment: Optional[dict[str, Any]] = None

    def environment(self) -> dict[str, Any]:
        """Return what requests has to be told each time, which it takes files and the environment to know."""
        if self._environment is None:
            self._environment = _environment(self.target, self.url)
        return self._environment


class DirectSender(Sender):
    """Sends through an adapter of our own.

    Args:
        target: Where to.
        upgrading: Whether its requests have no message to lose and change to another protocol.
        shared: What it shares with others.

    Attributes:
        adapter: The adapter.
    """

    def __init__(self, target: HTTPTarget, upgrading: bool = False, shared: Optional[Shared] = None) -> None:
        super().__init__(_without_credentials(_prepared(target.url)) if shared is None else shared.url)
        self._target = target
        self._shared = shared
        self.adapter = BoundedAdapter(upgrading) if shared is None else shared.adapter.share()
        # Closed once, by whoever comes first.
        self._to_close = [self.adapter]
        if upgrading:
            self.followed = REDIRECTS
        self._cookies = RequestsCookieJar()
        self._has_cookies = False
        self._defaults: Optional[_Defaults] = None

    def _send_once(
        self, url: str, method: str, headers: Mapping[str, str], body: Optional[bytes], exchange: Exchange
    ) -> Reply:
        # Looked up at the first request: it reads the environment and files.
        defaults = self._defaults
        if defaults is None:
            shared = self._shared
            options = _environment(self._target, self.url) if shared is None else shared.environment()
            defaults = self._defaults = _defaults(self._target, self.url, options)
        request = self._request(url, method, headers, body, defaults, exchange)
        response = self.adapter.send(request, timeout=exchange, **defaults.options)
        if request.hooks["response"]:
            try:
                options = {"timeout": exchange, **defaults.options}
                response = dispatch_hook("response", request.hooks, response, **options)  # type: ignore[no-untyped-call]
            except BaseException:
                response.close()
                raise
        for answer in (*response.history, response):
            if "set-cookie" in answer.headers:
                self._keep_cookies(answer)
        if type(response) is Answer and not response._content_consumed:
            return DirectReply(response)
        return reply_of(response, exchange)

    def _request(
        self,
        url: str,
        method: str,
        headers: Mapping[str, str],
        body: Optional[bytes],
        defaults: _Defaults,
        exchange: Exchange,
    ) -> requests.PreparedRequest:
        request = requests.PreparedRequest()
        request.method, request.url, request.body = method, url, body
        request.headers = fields = defaults.headers.copy()
        for name, value in headers.items():
            fields[name] = value
        if body is not None:
            fields["Content-Length"] = str(len(body))
        if self._has_cookies:
            request.prepare_cookies(self._cookies)
        if defaults.auth is not None and not any(name.lower() == "authorization" for name in headers):
            request._cookies = self._cookies  # type: ignore[attr-defined]
            request.prepare_auth(bound(defaults.auth, exchange, self.url), url)
        return request

    @property
    def cookies(self) -> Cookies:
        """See `Sender`."""
        return _listed(self._cookies) if self._has_cookies else ()

    def _keep_cookies(self, answer: requests.Response) -> None:
        if isinstance(answer, Answer):
            answer.keep_cookies(self._cookies)
        else:
            extract_cookies_to_jar(self._cookies, answer.request, answer.raw)  # type: ignore[no-untyped-call]
        self._has_cookies = True

    def close(self) -> None:
        """Close idle connections."""
        with suppress(IndexError):
            self._to_close.pop().close()

    def abandon(self) -> None:
        """In a forked child: drop what was inherited."""
        self.adapter.abandon()


def _defaults(target: HTTPTarget, url: str, options: dict[str, Any]) -> _Defaults:
    headers = Headers()
    for name, value in {**_CONSTANT, **(target.headers or {})}.items():
        headers[name] = value
    auth = target.auth
    if isinstance(auth, tuple):
        auth = HTTPBasicAuth(*auth)
    if auth is None and "authorization" not in headers:
        known = get_auth_from_url(target.url)
        pair = known if any(known) else get_netrc_auth(url)
        auth = HTTPBasicAuth(*pair) if pair else None
    return _Defaults(headers, auth, options)


def _environment(target: HTTPTarget, url: str) -> dict[str, Any]:
    proxies: dict[str, str] = dict(target.proxies or {})
    with requests.Session() as session:
        options = session.merge_environment_settings(
            url,
            proxies.copy(),
            True,
            target.verify,
            target.cert,
        )
    if is_loopback(urlsplit(url).hostname):
        options["proxies"] = proxies
    return dict(options)


def _prepared(url: str) -> str:
    """Return a URL as requests sends it: quoted, and its host as IDNA."""
    request = requests.PreparedRequest()
    try:
        # It imports what a host beyond ASCII needs.
        with no_fork():
            request.prepare_url(url, None)
    except requests.RequestException as error:
        raise UsageError(f"the URL {public_url(url)!r} cannot be used") from error
    return request.url or url


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))


class SessionSender(Sender):
    """Sends through a session that the user brought."""

    def __init__(self, target: HTTPTarget) -> None:
        super().__init__(target.url)
        assert target.session is not None
        self._session = target.session
        self._headers = dict(target.headers or {})
        self._auth = target.auth
        self._options = {
            "verify": None if target.verify is True else target.verify,
            "cert": target.cert,
            "proxies": dict(target.proxies) if target.proxies else None,
        }

    def _send_once(
        self, url: str, method: str, headers: Mapping[str, str], body: Optional[bytes], exchange: Exchange
    ) -> Reply:
        fields = CaseInsensitiveDict(self._headers)
        fields.update(headers)
        options = {**self._options, "auth": bound(self._authorization(fields), exchange, self.url)}
        return send_through(self._session, method, url, fields, body, exchange, options)

    @property
    def cookies(self) -> Cookies:
        """See `Sender`."""
        return _listed(getattr(self._session, "cookies", ()))

    def _authorization(self, headers: Mapping[str, str]) -> Any:
        if self._auth is not None:
            return self._auth
        session = self._session
        # Without any, requests would look into .netrc, and replace the header that is given.
        is_given = "authorization" in headers or (not session.auth and "authorization" in session.headers)
        return _leave if is_given else None


def _listed(jar: Any) -> Cookies:
    return tuple(sorted((each.domain, each.path, each.name, each.value) for each in jar))


def _leave(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request

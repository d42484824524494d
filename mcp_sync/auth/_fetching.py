"""Sends what conversations with authorization servers ask for."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Mapping
from typing import Any, Callable, Optional, TypeVar, Union
from urllib.parse import urljoin, urlsplit

import requests
from requests.utils import select_proxy

from .._concurrency.deadline import Deadline
from .._protocol.urls import is_loopback, origin, public_url
from .._version import __version__
from ..errors import AuthError, CallTimeout, ConnectFailed, ConnectionLost, MCPError, TokenRequestFailed
from ..transports._http.adapter.adapter import BoundedAdapter
from ..transports._http.adapter.response import Answer as HeadAnswer
from ..transports._http.errors import FOREIGN, translated
from ..transports._http.exchange import Exchange
from ..transports._http.reply import DirectReply
from ._addresses import Guard
from ._errand import Errand
from ._records import ClientRecord
from ._rules import is_secure
from ._settings import is_proxy
from ._steps import Answer, Conversation, Fetch, Learned, Pause

T = TypeVar("T")

LARGEST_BODY = 1_048_576
MOST_REDIRECTS = 3
CONNECT_SECONDS = 10.0
_REDIRECTS = (301, 302, 303, 307, 308)
_HEADERS = {"User-Agent": f"mcp-sync/{__version__}", "Accept-Encoding": "gzip, deflate"}


class Fetcher:
    """Runs conversations: sends their requests, and waits where they want to.

    Requests go to https, or http on this machine, and to no address that the guard objects to; without
    cookies, ``.netrc`` or any credentials but those of the step itself. Proxies and CA bundles count as they
    do for requests. Safe for any number of threads.

    Args:
        allow_private: Whether private addresses may be asked; see `Guard`.
        verify, proxies, cert: As in requests.
    """

    def __init__(
        self,
        allow_private: bool = False,
        verify: Union[bool, str] = True,
        proxies: Optional[Mapping[str, str]] = None,
        cert: Any = None,
    ) -> None:
        self.allow_private = allow_private
        self._verify = verify
        self._proxies = dict(proxies or {})
        self._cert = cert

    def run(
        self,
        conversation: Conversation[T],
        deadline: Deadline,
        *,
        errand: Optional[Errand] = None,
        guard: Optional[Guard] = None,
        server: Any = None,
        learn: Optional[Callable[[ClientRecord], None]] = None,
    ) -> T:
        """Run a conversation to its end and return its outcome.

        Args:
            deadline: When all of it has to be done.
            errand: Whom it is done for; they may give up.
            guard: Says where requests may go; by default nowhere but to public addresses.
            server: The origin of the MCP server: what is asked there is sent as the errand's request is.
            learn: Takes what has turned out about the client.

        Raises:
            CallTimeout: It was not done in time.
            ConnectionLost: Whoever it was for has given up.
            MCPError: What the conversation raises.
        """
        guard = guard or Guard("", (), self.allow_private)
        sending = _Sending(self, deadline, errand or Errand(), guard, server)
        try:
            return _drive(conversation, sending, learn)
        finally:
            conversation.close()
            sending.adapter.close()

    def options(self, url: str) -> dict[str, Any]:
        """Return what requests has to be told for a URL: from the environment, where nothing was said."""
        with requests.Session() as session:
            options = session.merge_environment_settings(
                url, self._proxies.copy(), True, self._verify, self._cert
            )
        if is_loopback(urlsplit(url).hostname):
            options["proxies"] = self._proxies.copy()
        return dict(options)


def _drive(
    conversation: Conversation[T], sending: _Sending, learn: Optional[Callable[[ClientRecord], None]]
) -> T:
    outcome: Any = None
    fault: Optional[AuthError] = None
    try:
        while True:
            step = conversation.throw(fault) if fault is not None else conversation.send(outcome)
            outcome = fault = None
            if isinstance(step, Pause):
                sending.pause(step.seconds)
                continue
            if isinstance(step, Learned):
                if learn is not None:
                    learn(step.client)
                continue
            try:
                outcome = sending.fetch(step)
            except AuthError as error:
                fault = error
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        fault = None  # A frame that knows its own error is a circle.


class _TooLarge(Exception):
    """An answer is larger than any that makes sense."""


class _Sending:
    """What one conversation sends."""

    def __init__(
        self, fetcher: Fetcher, deadline: Deadline, errand: Errand, guard: Guard, server: Any
    ) -> None:
        self.adapter = BoundedAdapter()
        self._server = server
        self._fetcher = fetcher
        self._deadline = deadline
        self._errand = errand
        self._guard = guard

    def pause(self, seconds: float) -> None:
        """Wait as the authorization server asks for."""
        self._errand.pause(seconds, self._deadline, "authorization")

    def fetch(self, step: Fetch) -> Answer:
        """Send a request, and follow redirects where nothing is sent along that others must not see.

        Raises:
            AuthError: There is no answer, and why.
        """
        url = step.url
        for _ in range(MOST_REDIRECTS + 1):
            answer = self._fetch_once(step, url)
            location = answer.headers.get("location")
            if step.method != "GET" or answer.status not in _REDIRECTS or not location:
                return answer
            url = _redirected(step, url, location)
        raise _fault(step, url, "too many redirects")

    def _fetch_once(self, step: Fetch, url: str) -> Answer:
        self._check_time(step, url)
        if not is_secure(url) and not (url.startswith("http://") and self._guard.trusts(url)):
            raise _fault(step, url, "that is not https")
        request = _prepared(step, url)
        options = self._options(url)
        exchange = _Bound(self._deadline, self._errand, self._guard)
        self._check_name(step, url, exchange, options.get("proxies"))
        try:
            return self._send(request, exchange, options)
        except _TooLarge:
            raise _fault(step, url, f"its answer is too large: more than {LARGEST_BODY} bytes") from None
        except FOREIGN as error:
            if isinstance(error, requests.RequestException):
                error.request = None  # It holds secrets, and stays with the error.
            raise self._explained(step, url, error, exchange) from error
        except MCPError as error:
            if isinstance(error, (CallTimeout, AuthError)):
                raise
            raise _fault(step, url, str(error)) from error

    def _options(self, url: str) -> dict[str, Any]:
        """Return how a request is sent: to the MCP server as the user's own request is."""
        options = self._fetcher.options(url)
        if origin(url) == self._server:
            own = self._errand.options
            options.update({name: own[name] for name in ("verify", "cert", "proxies") if name in own})
        return options

    def _check_time(self, step: Fetch, url: str) -> None:
        """Raise if the conversation has no time left, or whoever it is for has none."""
        self._errand.check(self._errand.deadline, step.purpose)
        if self._deadline.expired:
            raise _fault(step, url, f"no answer within {self._deadline.timeout or 0:g} s", transient=True)

    def _check_name(self, step: Fetch, url: str, exchange: _Bound, proxies: Any) -> None:
        """Look at the host of a URL; its addresses are looked at when the connection is made."""
        parts = urlsplit(url)
        proxy = select_proxy(url, proxies)
        if proxy and not is_proxy(proxy):
            raise _fault(step, url, "the proxy for it is no URL with a host and, if any, a port")
        exchange.is_proxied = bool(proxy)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        if not exchange.is_proxied:
            return
        objection = self._guard.objection_to_name(parts.hostname or "", port)
        if objection:
            raise _fault(step, url, f"{objection}; see allow_private")

    def _send(
        self, request: requests.PreparedRequest, exchange: _Bound, options: Mapping[str, Any]
    ) -> Answer:
        response = self.adapter.send(request, timeout=exchange, **options)
        assert isinstance(response, HeadAnswer)
        reply = DirectReply(response)
        try:
            body = bytearray()
            for chunk in iter(reply.read1, b""):
                body += chunk
                if len(body) > LARGEST_BODY:
                    raise _TooLarge
                if exchange.deadline.expired:
                    raise socket.timeout("too late")
            else:
                if exchange.aborted or response.head.length:
                    raise http.client.IncompleteRead(b"", response.head.length)
                reply.release()
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status_code, headers, bytes(body), request.url or "")
        finally:
            reply.close()

    def _explained(self, step: Fetch, url: str, error: Exception, exchange: _Bound) -> Exception:
        """Say in our terms why there was no answer."""
        if isinstance(error, MCPError):
            return error
        try:
            self._check_time(step, url)
        except MCPError as ended:
            return ended
        if exchange.objection:
            return _fault(step, url, exchange.objection)
        fault = translated(error, exchange, step.purpose, public_url(url))
        why = str(fault) if isinstance(fault, (ConnectFailed, ConnectionLost)) else type(error).__name__
        return _fault(step, url, why.partition(": ")[2] or why, transient=True)


class _Bound(Exchange):
    """The exchange of a conversation's request: it ends with the one that it is for.

    Attributes:
        objection: Why an address was refused.
        is_proxied: Whether a proxy makes the connection, so that the addresses seen here are the proxy's.
    """

    __slots__ = ("_errand", "_guard", "is_proxied", "objection")

    def __init__(self, deadline: Deadline, errand: Errand, guard: Guard) -> None:
        self._errand = errand
        super().__init__(deadline, CONNECT_SECONDS)
        self._guard = guard
        self.objection = ""
        self.is_proxied = False

    @property
    def aborted(self) -> bool:
        """Whether whoever it is for has given up."""
        return self._errand.exchange is not None and bool(self._errand.exchange.aborted)

    @aborted.setter
    def aborted(self, value: bool) -> None:
        pass

    def publish(self, sock: Any) -> None:
        """Name a socket that has to be shut down when they give up."""
        if self._errand.exchange is not None:
            self._errand.exchange.publish(sock)
        else:
            super().publish(sock)

    def withdraw(self, sock: Any) -> bool:
        """Take a socket back; return ``False`` if it was shut down meanwhile."""
        if self._errand.exchange is not None:
            return bool(self._errand.exchange.withdraw(sock))
        return super().withdraw(sock)

    def admitted(self, host: str, port: int, addresses: list[Any]) -> list[Any]:
        """Return the addresses, unless one of them may not be connected to.

        Raises:
            OSError: One may not.
        """
        if self.is_proxied:
            return addresses
        for *_, address in addresses:
            objection = self._guard.objection(host, port, str(address[0]))
            if objection:
                self.objection = f"{host} has the address {address[0]}, and {objection}; see allow_private"
                raise OSError(self.objection)
        return addresses


def _prepared(step: Fetch, url: str) -> requests.PreparedRequest:
    request = requests.Request(step.method, url, headers={**_HEADERS, **step.headers})
    if step.form is not None:
        request.data = dict(step.form)
    if step.json is not None:
        request.json = dict(step.json)
    try:
        return request.prepare()
    except (requests.RequestException, UnicodeError, http.client.HTTPException) as error:
        raise _fault(step, url, "its URL or a header cannot be sent") from error


def _redirected(step: Fetch, url: str, location: str) -> str:
    try:
        target = urljoin(url, location)
        parts = urlsplit(target)
        has_port = parts.port != 0
    except ValueError:
        has_port = False
    if not has_port:
        raise _fault(step, url, "it redirects to what is no URL")
    if parts.scheme != urlsplit(url).scheme:
        raise _fault(step, url, f"a redirect to {public_url(target)} is not followed: another scheme")
    return target


def _fault(step: Fetch, url: str, why: str, transient: bool = False) -> AuthError:
    where = public_url(url)
    message = f"{step.purpose} could not be had from {where}: {why}"
    if step.method == "POST":
        return TokenRequestFailed(message, url=where, transient=True)
    return AuthError(message, url=where, transient=transient)

"""Foreign exceptions and HTTP failures as errors of this library. Their messages hold no secrets."""

from __future__ import annotations

import email.utils
import http.client
import socket
import ssl
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, Optional

import requests
from urllib3.connection import CertificateError  # type: ignore[attr-defined]
from urllib3.exceptions import HTTPError, NewConnectionError, ProxySchemeUnknown

from ..._protocol.recovery import may_have_acted
from ..._protocol.urls import public_url
from ...errors import (
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    HTTPStatusError,
    InvalidMessage,
    MCPError,
    MessageTooLarge,
    UsageError,
)
from .exchange import Exchange

EXCERPT_LENGTH = 500
# A year. What is longer means never, and with hundreds of digits it would be no number any more.
_LONGEST_WAIT = 31_536_000.0
FOREIGN = (OSError, http.client.HTTPException, HTTPError, zlib.error)
"""What the libraries below raise when an exchange fails; `CallTimeout` is an ``OSError`` too."""

# What tells for sure that a session of the user has sent nothing.
_CONNECTING = (
    requests.ConnectTimeout,
    NewConnectionError,
    socket.gaierror,
    ssl.SSLCertVerificationError,
    ConnectionRefusedError,
)


def raise_translated(error: Exception, exchange: Exchange, doing: str, peer: str) -> NoReturn:
    """Raise what `translated` makes of an error, with what is at the bottom of it as its cause.

    Raises:
        MCPError: The library's word for it.
    """
    fault = translated(error, exchange, doing, peer)
    cause = root_of(error, exchange.handled)
    try:
        if fault is error:
            raise error
        raise fault from cause
    finally:
        # A frame that knows its own error is a circle, and keeps connections alive.
        del error, fault, cause


def translated(error: Exception, exchange: Exchange, doing: str, peer: str) -> Exception:
    """Say in our terms why an exchange failed; what is no failure of HTTP is returned as it is.

    Args:
        error: What was raised.
        exchange: The exchange that failed.
        doing: The method of the message, or of HTTP.
        peer: How the server is named.
    """
    if isinstance(error, (InvalidMessage, MessageTooLarge)):
        return _named(error, doing, peer)
    # What http.client says of a header that a hook of the user's session has set.
    is_bad_header = type(error) is ValueError and str(error).startswith("Invalid header")
    if isinstance(error, MCPError) or not (
        is_bad_header or isinstance(error, (*FOREIGN, UnicodeEncodeError))
    ):
        return error
    if is_bad_header or isinstance(error, (requests.exceptions.InvalidHeader, UnicodeEncodeError)):
        return UsageError(f"{doing}: a header cannot be sent: it holds a line end or is not Latin-1")
    if isinstance(error, requests.exceptions.InvalidSchema) and "SOCKS" in str(error):
        return UsageError(f"{doing}: a SOCKS proxy needs the package PySocks")
    if isinstance(error, (requests.exceptions.InvalidProxyURL, ProxySchemeUnknown)):
        return UsageError(f"{doing}: the proxy for {peer} has no host, or a scheme that is unknown here")
    if exchange.aborted:
        text = f"{doing}: the connection to {peer} was closed on this side"
        return ConnectionLost(text, request_sent=exchange.call_sent)
    if exchange.deadline.expired:
        return timed_out(exchange, doing, peer)
    wrapped = list(_chain(error, exchange.handled))
    cause = _described(wrapped)
    if not exchange.sent or (exchange.session and any(isinstance(each, _CONNECTING) for each in wrapped)):
        exchange.unmark_sent()
        way = f" through the proxy {exchange.proxy}" if exchange.proxy else ""
        return ConnectFailed(f"{doing}: no connection to {peer}{way}: {cause}", request_sent=False)
    # A session of the user does not tell whether TLS broke before or after the request.
    is_unknown = exchange.session and any(isinstance(each, ssl.SSLError) for each in wrapped)
    sent = None if is_unknown else True
    return ConnectionLost(f"{doing}: the connection to {peer} broke: {cause}", request_sent=sent)


def _named(error: MCPError, doing: str, peer: str) -> MCPError:
    """Have an error of the body, which knows neither, name the method and the server."""
    if not str(error).startswith(f"{doing}: "):
        error.args = (f"{doing}: {peer}: {error}", *error.args[1:])
    return error


def timed_out(exchange: Exchange, doing: str, peer: str) -> CallTimeout:
    """Say that the deadline has passed."""
    bound = exchange.deadline.reached
    text = f"{doing}: no answer from {peer} within {bound:g} s" if bound is not None else f"{doing}: too late"
    return CallTimeout(text, timeout=bound, request_sent=exchange.call_sent)


def _chain(error: BaseException, handled: int) -> Iterator[BaseException]:
    """Yield an error and what it wraps, in whichever way; without what was ``handled`` when it was raised."""
    seen = {handled} - {id(error)}
    queue: list[Any] = [error]
    while queue:
        item = queue.pop(0)
        if not isinstance(item, BaseException) or id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        queue += [*item.args, getattr(item, "reason", None), item.__cause__, item.__context__]


def root_of(error: Optional[BaseException], handled: int = 0) -> Optional[BaseException]:
    """Return what may be shown as a cause: an error of ours, or the innermost one of the standard library.

    The words of requests and urllib3 hold the URL with its query, and headers.

    Args:
        error: What was raised.
        handled: Which one the thread was handling before, see `Exchange`.
    """
    if error is None or isinstance(error, MCPError):
        return error
    foreign = (requests.RequestException, HTTPError)
    chain = _chain(error, handled)
    found = [each for each in chain if isinstance(each, FOREIGN) and not isinstance(each, foreign)]
    return found[-1] if found else None


def _described(wrapped: Sequence[BaseException]) -> str:
    """Say what the innermost error is, in words that hold neither URL nor header."""
    for item in reversed(wrapped):
        if isinstance(item, (ssl.SSLCertVerificationError, CertificateError)):
            return f"the certificate was refused: {getattr(item, 'verify_message', item)}"
        if isinstance(item, ssl.SSLError) and item.reason == "WRONG_VERSION_NUMBER":
            return f"{item.strerror} (does the server speak plain http?)"
        if isinstance(item, socket.timeout):
            return "it took too long"
        if isinstance(item, OSError) and item.strerror and not isinstance(item, requests.RequestException):
            return item.strerror
    for item in wrapped:
        if not isinstance(item, (requests.RequestException, HTTPError)):
            return f"{type(item).__name__}: {str(item)[:200]}" if str(item) else type(item).__name__
    return type(wrapped[-1]).__name__


def status_error(
    status: int, headers: Any, url: str, body: str, doing: str, why: str = "", hint: str = ""
) -> HTTPStatusError:
    """Build the error of an HTTP failure.

    Args:
        body: What is known of the body.
        why: What to say instead of the body.
        hint: What may help.
    """
    where = public_url(url)
    text = why or _one_line(body)
    wait = retry_after(headers.get("retry-after"))
    hint = hint or (f"it asks to come back in {wait:g} s" if wait is not None else "")
    return HTTPStatusError(
        f"{doing}: {where} answered {status}{': ' + text if text else ''}{f' ({hint})' if hint else ''}",
        status=status,
        headers=public_headers(headers),
        body_excerpt=body[:EXCERPT_LENGTH],
        retry_after=wait,
        url=where,
        request_sent=may_have_acted(status, wait),
    )


def public_headers(headers: Any) -> dict[str, str]:
    """Return headers with their names in lower case, without cookies and without the query of a redirect."""
    lower = {name.lower(): value for name, value in headers.items()}
    if "location" in lower:
        lower["location"] = public_url(lower["location"])
    return {name: value for name, value in lower.items() if name not in ("set-cookie", "set-cookie2")}


def _one_line(body: str) -> str:
    text = " ".join(body[:EXCERPT_LENGTH].split())
    return text if len(text) <= 120 else f"{text[:117]}..."


def retry_after(value: Optional[str]) -> Optional[float]:
    """Read ``Retry-After``: seconds, or a date, as seconds from now."""
    if not value:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), _LONGEST_WAIT)
    try:
        moment = email.utils.parsedate_to_datetime(text)
        return max(0.0, moment.timestamp() - time.time())
    except (TypeError, ValueError, IndexError, OverflowError):
        return None

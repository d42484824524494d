"""The way to a server, from its name to an HTTP status, looked at without the library's own HTTP."""

from __future__ import annotations

import http.client
import json
import os
import queue
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import Any, Callable, NamedTuple, Optional
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from .._concurrency.threads import spawn
from .._protocol.urls import DEFAULT_PORTS, public_url
from .._protocol.versions import LATEST_MODERN
from .._version import __version__

_SKEW = 60.0
_SOON = 14 * 86400.0
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": LATEST_MODERN,
    "Mcp-Method": "server/discover",
    "User-Agent": "mcp-sync",
}
_META = {
    "io.modelcontextprotocol/protocolVersion": LATEST_MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "mcp-sync doctor", "version": __version__},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_ASKING = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": _META}}
_CLOCK = "is the clock of this machine right? Certificates count by it"


class Finding(NamedTuple):
    """What a step has found.

    Attributes:
        step: What was looked at.
        state: ``"ok"``, ``"note"``, ``"warning"`` or ``"failed"``.
        text: What was found.
        advice: What may help, empty if nothing is to be done.
    """

    step: str
    state: str
    text: str
    advice: str = ""


class Report:
    """What was found so far.

    Args:
        show: Called with each finding.
    """

    def __init__(self, show: Optional[Callable[[Finding], None]]) -> None:
        self.all: list[Finding] = []
        self._show = show

    def add(self, step: str, state: str, text: str, advice: str = "") -> None:
        """Add a finding."""
        finding = Finding(step, state, text, advice)
        self.all.append(finding)
        if self._show is not None:
            self._show(finding)

    def last(self, state: str) -> Optional[Finding]:
        """Return the last finding of a state."""
        return next((each for each in reversed(self.all) if each.state == state), None)


class _Place(NamedTuple):
    scheme: str
    host: str
    port: int


def look_at_network(url: str, headers: Mapping[str, str], seconds: float, report: Report) -> bool:
    """Look at name, connection, certificate, HTTP status and clock.

    Args:
        url: The URL of the server.
        headers: Headers for the request.
        seconds: How long each step may take.
        report: Where what is found goes.

    Returns:
        Whether it makes sense to go on.
    """
    parts = urlsplit(url)
    secure = parts.scheme.lower() in ("https", "wss")
    place = _Place(
        "https" if secure else "http", parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
    )
    proxy = _proxy(place)
    if proxy is not None:
        report.add(
            "proxy", "note", f"all goes through {proxy.host}:{proxy.port}", "NO_PROXY makes exceptions"
        )
    elif any(key in getproxies() for key in ("http", "https", "all")):
        report.add("proxy", "note", "there is one, but not for this server")
    near = proxy or place
    if not _resolve(near, seconds, report):
        return False
    plain = _connect(near, seconds, report)
    if plain is None:
        return False
    if proxy is not None or parts.scheme.lower() in ("ws", "wss"):
        plain.close()
        return True
    stream = _secure(plain, place, seconds, report) if secure else plain
    if stream is None:
        return False
    with stream:
        return _ask(stream, place, parts, headers, seconds, report)


def _proxy(place: _Place) -> Optional[_Place]:
    proxies = getproxies()
    found = proxies.get(place.scheme) or proxies.get("all")
    if (
        not found
        or proxy_bypass(f"{place.host}:{place.port}")
        or place.host in ("localhost", "127.0.0.1", "::1")
    ):
        return None
    parts = urlsplit(found if "://" in found else f"http://{found}")
    return _Place("http", parts.hostname or "", parts.port or 8080)


def _resolve(place: _Place, seconds: float, report: Report) -> bool:
    """Look the name up, on a thread of its own: nothing else bounds the time."""
    answers: queue.Queue[Any] = queue.Queue()

    def look_up() -> None:
        try:
            answers.put(socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answers.put(error)

    spawn("doctor", "names", look_up)
    try:
        found = answers.get(timeout=seconds)
    except queue.Empty:
        found = TimeoutError(f"no answer within {seconds:g} s")
    if isinstance(found, Exception):
        reason = getattr(found, "strerror", None) or str(found)
        report.add(
            "name", "failed", f"{place.host}: {reason}", "is it written right? is there a network, a VPN?"
        )
        return False
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    report.add("name", "ok", f"{place.host} is {', '.join(addresses[:4])}")
    return True


def _connect(place: _Place, seconds: float, report: Report) -> Optional[socket.socket]:
    begun = time.perf_counter()
    try:
        stream = socket.create_connection((place.host, place.port), timeout=seconds)
    except OSError as error:
        reason = error.strerror or str(error)
        advice = ""
        if isinstance(error, ConnectionRefusedError):
            advice = "nobody listens there: does the server run, and on this port?"
        elif isinstance(error, (TimeoutError, socket.timeout)):  # On Python 3.9 those are two.
            advice = "something swallows the connection: a firewall, or a VPN that is off"
        report.add("connection", "failed", f"port {place.port}: {reason}", advice)
        return None
    took = (time.perf_counter() - begun) * 1000
    report.add("connection", "ok", f"port {place.port} of {stream.getpeername()[0]}, in {took:.1f} ms")
    return stream


@contextmanager
def _bounded(stream: socket.socket, seconds: float) -> Iterator[threading.Event]:
    """End a connection when its time is over; the event says that it was.

    The timeout of a socket is for each byte: a server that sends one now and then would keep us for ever.
    """
    done, is_over = threading.Event(), threading.Event()

    def watch() -> None:
        if not done.wait(seconds):
            is_over.set()
            with suppress(OSError):
                # Not that of TLS, which would take its state away from whoever reads.
                socket.socket.shutdown(stream, socket.SHUT_RDWR)

    watching = spawn("doctor", "time", watch)
    try:
        yield is_over
    except socket.timeout:
        # The timeout of the socket may be faster by a moment.
        is_over.set()
        raise
    finally:
        done.set()
        watching.join()


def _trusted() -> Optional[str]:
    named = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    if named:
        return named
    try:
        import certifi
    except ImportError:
        return None
    return str(certifi.where())


def _secure(plain: socket.socket, place: _Place, seconds: float, report: Report) -> Optional[ssl.SSLSocket]:
    try:
        bundle = _trusted()
        folder = bundle is not None and os.path.isdir(bundle)
        context = ssl.create_default_context(
            cafile=None if folder else bundle, capath=bundle if folder else None
        )
        stream = context.wrap_socket(plain, server_hostname=place.host, do_handshake_on_connect=False)
    except (OSError, ValueError) as error:
        plain.close()
        report.add("TLS", "failed", str(error))
        return None
    try:
        with _bounded(stream, seconds) as is_over:
            stream.do_handshake()
    except ssl.SSLCertVerificationError as error:
        stream.close()
        report.add("certificate", "failed", error.verify_message, _about_certificate(error.verify_message))
        return None
    except (OSError, ValueError) as error:
        stream.close()
        reason = getattr(error, "reason", None) or str(error)
        reason = f"not done within {seconds:g} s" if is_over.is_set() else reason
        report.add("TLS", "failed", str(reason), "does the server speak https on this port?")
        return None
    ends = ssl.cert_time_to_seconds(str((stream.getpeercert() or {}).get("notAfter")))
    days = (ends - time.time()) / 86400
    state = "ok" if ends - time.time() > _SOON else "warning"
    report.add("certificate", state, f"good for {days:.0f} days, {stream.version()}")
    return stream


def _about_certificate(message: str) -> str:
    text = message.lower()
    if "expired" in text or "not yet valid" in text:
        return f"renew it, or {_CLOCK}"
    if "self" in text or "issuer" in text:
        return "REQUESTS_CA_BUNDLE=FILE names certificates of your own"
    if "match" in text:
        return "it is for another name: is the name right?"
    return ""


def _ask(
    stream: Any, place: _Place, parts: Any, headers: Mapping[str, str], seconds: float, report: Report
) -> bool:
    """Send one request that changes nothing, and look at the head of the answer."""
    connection = http.client.HTTPConnection(place.host, place.port)
    connection.sock = stream
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fault = ""
    try:
        with _bounded(stream, seconds) as is_over:
            connection.request("POST", path, json.dumps(_ASKING).encode(), {**_HEADERS, **headers})
            answer = connection.getresponse()
    except (OSError, http.client.HTTPException, ValueError) as error:
        fault = str(error) or type(error).__name__
    if is_over.is_set():
        # What ends in the midst of its headers looks like an answer.
        fault = f"no whole answer within {seconds:g} s"
    if fault:
        report.add(
            "HTTP", "failed", fault, "is that port one for HTTP? is it http instead of https, or reverse?"
        )
        return False
    with answer:
        _tell_status(answer, report)
        _tell_clock(answer.headers.get("Date"), report)
    return True


def _tell_status(answer: http.client.HTTPResponse, report: Report) -> None:
    status, kind = answer.status, answer.headers.get("Content-Type", "").split(";")[0]
    text = f"{status} {answer.reason}".strip() + (f", {kind}" if kind else "")
    if 300 <= status < 400:
        where = public_url(answer.headers.get("Location", ""))
        report.add("HTTP", "warning", f"{text}, to {where}", "give that URL")
    elif status in (401, 403):
        report.add("HTTP", "note", f"{text}: it asks for authorization")
    elif status in (400, 404, 405, 406, 415):
        report.add(
            "HTTP", "note", f"{text} to a request of the newest revision; servers of older ones do that"
        )
    else:
        report.add("HTTP", "ok" if status < 400 else "warning", text)


def _tell_clock(date: Optional[str], report: Report) -> None:
    if date is None:
        return
    try:
        skew = parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        report.add("clock", "note", "the server tells no date that can be read")
        return
    if abs(skew) <= _SKEW:
        report.add("clock", "ok", "the server's is about the same")
        return
    text = f"the server's is {abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}"
    report.add("clock", "warning", text, f"{_CLOCK}, and so do tokens")

"""The smallest server that can take the answer of a browser: one thread, the caller's own, and no more.

Browsers open connections on which they send nothing, ask for icons, and come twice. So it serves several
connections at a time, bounded in number, time and size, and only the answer with the right state ends it.
"""

from __future__ import annotations

import errno
import hmac
import os
import selectors
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Callable, Optional
from urllib.parse import parse_qsl

from .._concurrency import fork
from .._concurrency.deadline import Deadline
from ..errors import AuthError, CallTimeout

_LARGEST_HEAD = 16_384
_HEAD_SECONDS = 10.0
_MOST_CONNECTIONS = 32
_LOOK = 0.1  # seconds between two looks at whether anybody still waits
_WRITE_SECONDS = 2.0
_ATTEMPTS = 20  # to find a port that is free for both IPv4 and IPv6

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
</head>
<body>
<main>
<h1>{title}</h1>
<p>{text}</p>
</main>
</body>
</html>
"""
_HEADERS = (
    "Content-Type: text/html; charset=utf-8",
    "Cache-Control: no-store",
    "Referrer-Policy: no-referrer",
    "Content-Security-Policy: default-src 'none'",
    "X-Content-Type-Options: nosniff",
    "Connection: close",
)


def listen(host: str, ports: Iterable[int]) -> list[socket.socket]:
    """Listen at one port of this machine.

    Args:
        host: ``"127.0.0.1"``, ``"::1"``, or ``"localhost"`` for both, as far as there are both.
        ports: The ports to be tried, in order; 0 is any free one.

    Raises:
        AuthError: None of them is free.
    """
    addresses = ["127.0.0.1", "::1"] if host == "localhost" else [host]
    # Not the error itself: its frames would keep all that the callers have.
    why = "no ports were given"
    for port in ports:
        for _ in range(_ATTEMPTS if port == 0 else 1):
            try:
                return _listen_at(addresses, port)
            except OSError as error:
                why = error.strerror or str(error)
                if error.errno != errno.EADDRINUSE:
                    break
    raise AuthError(f"no port of {host} can be listened at: {why}")


def _listen_at(addresses: list[str], port: int) -> list[socket.socket]:
    found: list[socket.socket] = []
    try:
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            try:
                found.append(_listener(family, address, found[0].getsockname()[1] if found else port))
            except OSError as error:
                # Without IPv6 there is only the other; a port that somebody else has is no port for an
                # answer.
                if not found or error.errno == errno.EADDRINUSE:
                    raise
        return found
    except BaseException:
        for sock in found:
            sock.close()
        raise


def _listener(family: int, address: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            # Else the port of the last login is taken for a minute, and another port takes another
            # registration. On Windows the option would let somebody else listen at the same port.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((address, port))
        sock.listen(16)
        sock.setblocking(False)
        return sock
    except BaseException:
        sock.close()
        raise


class CallbackServer:
    """Waits for the answer of a login.

    Args:
        listeners: Where it listens; closed by `close`.
        path: The path of the redirect URI.

    Attributes:
        port: Its port.
    """

    def __init__(self, listeners: list[socket.socket], path: str) -> None:
        self.port: int = listeners[0].getsockname()[1]
        self._path = path
        self._listeners = listeners
        self._heads: dict[socket.socket, tuple[bytearray, float]] = {}
        self._selector = selectors.DefaultSelector()
        for sock in listeners:
            self._selector.register(sock, selectors.EVENT_READ)
        fork.watch(self)

    def after_fork_in_child(self) -> None:
        """Leave the port to the parent: else it would stay taken for as long as the child lives."""
        self.close()

    def wait(self, state: str, deadline: Deadline, check: Callable[[], None]) -> Mapping[str, str]:
        """Serve until the answer comes, and return its query.

        Args:
            state: What it has to bring back.
            deadline: When to give up.
            check: Called at least ten times a second; raises when nobody waits any more.

        Raises:
            CallTimeout: It did not come.
            AuthError: This process was forked from the one that listens.
        """
        while True:
            check()
            if self._selector.get_map() is None:
                raise AuthError("this login was begun by another process, before a fork")
            left = deadline.remaining()
            if left == 0.0:
                raise CallTimeout(
                    f"nobody has logged in within {deadline.timeout or 0:g} s",
                    timeout=deadline.timeout,
                    request_sent=False,
                )
            for key, _ in self._selector.select(_LOOK if left is None else min(left, _LOOK)):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if sock in self._listeners:
                    self._accept(sock)
                    continue
                if sock not in self._heads:
                    continue  # One that came in the same moment has taken its place.
                params = self._read(sock, state)
                if params is not None:
                    return params
            self._drop_slow()

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        if len(self._heads) >= _MOST_CONNECTIONS:
            self._drop(next(iter(self._heads)))  # The one that has waited longest.
        sock.setblocking(False)
        self._heads[sock] = (bytearray(), time.monotonic())
        self._selector.register(sock, selectors.EVENT_READ)

    def _read(self, sock: socket.socket, state: str) -> Optional[Mapping[str, str]]:
        """Read on from a connection; return the answer if that is what came."""
        head, _ = self._heads[sock]
        try:
            data = sock.recv(_LARGEST_HEAD)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        head += data
        if not data or len(head) > _LARGEST_HEAD:
            self._drop(sock)
            return None
        if b"\r\n\r\n" not in head and b"\n\n" not in head:
            return None
        params = self._answer(sock, bytes(head), state)
        self._drop(sock)
        return params

    def _answer(self, sock: socket.socket, head: bytes, state: str) -> Optional[Mapping[str, str]]:
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        target = rest.partition(" ")[0]
        path, _, query = target.partition("?")
        if method != "GET":
            _write(
                sock, "405 Method Not Allowed", "Not here", "This address only takes the answer of a login."
            )
            return None
        pairs = parse_qsl(query, keep_blank_values=True)
        params = dict(pairs)
        given = params.get("state", "")
        is_ours = hmac.compare_digest(given.encode("utf-8", "replace"), state.encode("utf-8", "replace"))
        is_answer = "code" in params or "error" in params
        if path != self._path or not state or not is_ours or not is_answer or len(params) != len(pairs):
            _write(sock, "404 Not Found", "Not found", "This address only takes the answer of a login.")
            return None
        if "error" in params:
            _write(sock, "200 OK", "Not logged in", "The login was refused. The program says more.")
        else:
            _write(sock, "200 OK", "Thank you", "The answer has arrived. You can close this page.")
        return params

    def _drop_slow(self) -> None:
        limit = time.monotonic() - _HEAD_SECONDS
        for sock in [sock for sock, (_, since) in self._heads.items() if since < limit]:
            self._drop(sock)

    def _drop(self, sock: socket.socket) -> None:
        del self._heads[sock]
        self._selector.unregister(sock)
        sock.close()

    def close(self) -> None:
        """Close everything."""
        for sock in (*self._heads, *self._listeners):
            sock.close()
        self._heads.clear()
        self._selector.close()


def _write(sock: socket.socket, status: str, title: str, text: str) -> None:
    body = _PAGE.format(title=title, text=text).encode()
    head = "\r\n".join([f"HTTP/1.1 {status}", *_HEADERS, f"Content-Length: {len(body)}", "", ""])
    try:
        sock.settimeout(_WRITE_SECONDS)
        sock.sendall(head.encode("ascii") + body)
        sock.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # The browser has gone.

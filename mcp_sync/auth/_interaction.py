"""How a person is asked: what an interaction is, and the one with a browser of this machine.

An interaction is entered before the client registers, since the redirect URI has to be known by then. What it
gives then shows the URL and waits for the answer.
"""

from __future__ import annotations

import re
import sys
import webbrowser
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Callable, Optional, Protocol, Union
from urllib.parse import parse_qsl, urlsplit

from .._arguments import check_callback
from .._concurrency.deadline import Deadline
from .._concurrency.threads import join_all, spawn
from ..errors import UsageError
from ..options import check_seconds
from ._callback_server import CallbackServer, listen

Check = Callable[[], None]

_BROWSER_SECONDS = 2.0  # how long an ``open`` that has not come back is waited for at the end


class Asking(Protocol):
    """A place to which an answer may come.

    Attributes:
        redirect_uri: Its URI.
    """

    redirect_uri: str

    def ask(self, url: str, deadline: Deadline, check: Check) -> Mapping[str, str]:
        """Show a URL to the user, and return the query of the URL to which they were sent in the end.

        Args:
            url: The authorization URL.
            deadline: When to give up.
            check: To be called now and then; raises when nobody waits for the answer any more.

        Raises:
            AuthError: There is no answer.
        """


class Interaction(Protocol):
    """A way to ask a person.

    Attributes:
        timeout: How many seconds they have.
    """

    timeout: float

    def listening(self, known: Sequence[str] = ()) -> AbstractContextManager[Asking]:
        """Make ready for an answer.

        Args:
            known: The redirect URIs that this client is registered with; one of them is best.
        """


class LoopbackBrowser:
    """Open the user's browser, and receive the answer at a port of this machine (RFC 8252, section 7.3).

    Only the answer that belongs to the login ends the wait; whatever else comes to the port is refused.

    The redirect URI is ``http://{host}:{port}{path}``. For a client that was registered by hand it has to be
    the one that it was registered with, letter by letter; some authorization servers forgive another port
    (RFC 8252, section 7.3), and none another host or path. So a registration for
    ``http://localhost:8765/oauth/callback`` takes
    ``LoopbackBrowser(ports=8765, host="localhost", path="/oauth/callback")``.

    Args:
        ports: The port, ``0`` for a free one, or several to be tried in order, such as ``range(8400, 8410)``.
        host: The host of the redirect URI: ``"127.0.0.1"``, ``"::1"``, or ``"localhost"`` for both.
        timeout: How many seconds the user has.
        open: Opens a URL and returns whether that was possible; by default ``webbrowser.open``. Where it was
            not, the URL is written to standard error.
        path: The path of the redirect URI.

    Raises:
        UsageError: It cannot be so.
    """

    def __init__(
        self,
        ports: Union[int, Iterable[int]] = 0,
        host: str = "127.0.0.1",
        timeout: float = 300.0,
        open: Optional[Callable[[str], Any]] = None,
        path: str = "/callback",
    ) -> None:
        self._ports = _checked_ports(ports)
        if host not in ("127.0.0.1", "::1", "localhost"):
            raise UsageError('the host of a loopback redirect is "127.0.0.1", "::1" or "localhost"')
        if not isinstance(path, str) or not re.fullmatch(r"/[A-Za-z0-9._~/-]*", path):
            raise UsageError("the path of a redirect URI begins with / and has letters and digits")
        check_timeout(timeout)
        check_callback("open", open)
        self._host = host
        self._path = path
        self._open = open
        self.timeout = timeout

    @contextmanager
    def listening(self, known: Sequence[str] = ()) -> Iterator[Asking]:
        """Listen at a port of this machine; see `Interaction.listening`.

        Raises:
            AuthError: None of the ports is free.
        """
        shown = f"[{self._host}]" if ":" in self._host else self._host
        server = CallbackServer(listen(self._host, [*self._known_ports(known), *self._ports]), self._path)
        try:
            uri = f"http://{shown}:{server.port}{self._path}"
            yield _Browser(server, uri, self._open or webbrowser.open)
        finally:
            server.close()

    def _known_ports(self, known: Sequence[str]) -> list[int]:
        """Return the ports with which the client is registered: another takes another registration."""
        if self._ports != (0,):
            return []
        found = []
        for uri in known:
            parts = urlsplit(uri)
            if parts.hostname == self._host and parts.path == self._path and parts.port:
                found.append(parts.port)
        return found

    def __repr__(self) -> str:
        return f"LoopbackBrowser(host={self._host!r})"


def _checked_ports(ports: Any) -> tuple[int, ...]:
    given = list(ports) if isinstance(ports, Iterable) else [ports]
    checked = tuple(port for port in given if type(port) is int and 0 <= port < 65536)
    if not checked or len(checked) != len(given):
        raise UsageError("ports must be a number from 0 to 65535, or several such as range(8400, 8410)")
    return checked


class _Browser:
    """A port that waits for the browser."""

    def __init__(self, server: CallbackServer, redirect_uri: str, open: Callable[[str], Any]) -> None:
        self.redirect_uri = redirect_uri
        self._server = server
        self._open = open
        self._is_over = False

    def ask(self, url: str, deadline: Deadline, check: Check) -> Mapping[str, str]:
        """See `Asking.ask`."""
        # Some browsers are programs of the terminal, and come back only when they are left.
        thread = spawn("auth", "browser", self._show, url)
        try:
            return self._server.wait(state_of(url), deadline, check)
        finally:
            self._is_over = True
            join_all([thread], deadline.beside(_BROWSER_SECONDS))

    def _show(self, url: str) -> None:
        try:
            shown = self._open(url)
        except Exception:
            shown = False
        if not shown and not self._is_over and sys.stderr is not None:
            print(
                f"To log in, open this address in a browser on this machine:\n{url}\n"
                f"The answer has to come to {self.redirect_uri}: a client that was registered by hand has to "
                "be registered with that redirect URI.",
                file=sys.stderr,
            )


def query_of(address: str) -> Optional[dict[str, str]]:
    """Return the parameters of an address or of a query, ``None`` if one of them comes twice."""
    query = address
    if "://" in address or address.startswith("/") or "?" in address:
        query = address.partition("?")[2]
    pairs = parse_qsl(query.partition("#")[0], keep_blank_values=True)
    params = dict(pairs)
    return params if len(params) == len(pairs) else None


def state_of(url: str) -> str:
    """Return the state that an authorization URL holds."""
    return (query_of(url) or {}).get("state", "")


def check_timeout(timeout: Any) -> None:
    """Refuse what is no time for a person.

    Raises:
        UsageError: It is none.
    """
    check_seconds("timeout", timeout)
    if timeout is None:
        raise UsageError("timeout must be a number of seconds: nobody waits for a person for ever")

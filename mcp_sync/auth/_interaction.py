"""How a person is asked: in a browser of this machine, or by a URL that is printed.

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
from ..errors import AuthError, AuthorizationRequired, UsageError
from ..options import check_seconds
from ._callback_server import CallbackServer, listen
from ._rules import check_redirect_uri

Check = Callable[[], None]

_BROWSER_SECONDS = 2.0  # how long an ``open`` that has not come back is waited for at the end
_MOST_LINES = 8


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

    Args:
        ports: The port, ``0`` for a free one, or several to be tried in order. A client that was registered
            by hand with certain ports needs one of those.
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
        _check_timeout(timeout)
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

    def ask(self, url: str, deadline: Deadline, check: Check) -> Mapping[str, str]:
        """See `Asking.ask`."""
        # Some browsers are programs of the terminal, and come back only when they are left.
        thread = spawn("auth", "browser", self._show, url)
        try:
            return self._server.wait(state_of(url), deadline, check)
        finally:
            join_all([thread], deadline.beside(_BROWSER_SECONDS))

    def _show(self, url: str) -> None:
        try:
            shown = self._open(url)
        except Exception:
            shown = False
        if not shown and sys.stderr is not None:
            print(f"To log in, open this address in a browser on this machine:\n{url}", file=sys.stderr)


class PasteBack:
    """Print the URL, and have the user paste the address at which their browser ended.

    For a program that runs on another machine than the browser: the page at that address cannot be shown, but
    its address holds the answer.

    Args:
        show: Called with the text to be shown.
        read: Returns a line that the user enters. It is not interrupted by deadlines.
        redirect_uri: Where the browser ends; nothing listens there.
        timeout: How many seconds the user has, all told.

    Raises:
        UsageError: It cannot be so.
    """

    def __init__(
        self,
        show: Callable[[str], Any] = print,
        read: Callable[[], str] = input,
        redirect_uri: str = "http://127.0.0.1:53682/callback",
        timeout: float = 600.0,
    ) -> None:
        check_callback("show", show)
        check_callback("read", read)
        check_redirect_uri(redirect_uri)
        _check_timeout(timeout)
        self._show = show
        self._read = read
        self.redirect_uri = redirect_uri
        self.timeout = timeout

    @contextmanager
    def listening(self, known: Sequence[str] = ()) -> Iterator[Asking]:
        """See `Interaction.listening`. Nothing listens."""
        yield self

    def ask(self, url: str, deadline: Deadline, check: Check) -> Mapping[str, str]:
        """See `Asking.ask`.

        Raises:
            AuthorizationRequired: Nobody is there to answer.
            AuthError: What was entered is no answer.
        """
        if self._read is input and not _is_terminal(sys.stdin):
            raise AuthorizationRequired("somebody has to log in, and standard input is no terminal", url=url)
        self._show(
            f"To log in, open this address in a browser:\n{url}\n"
            "Afterwards the browser shows an error, or an empty page. Copy the address of that page, and "
            "paste it here:"
        )
        state, text = state_of(url), ""
        for _ in range(_MOST_LINES):
            check()
            try:
                line = self._read()
            except EOFError:
                raise AuthorizationRequired("somebody has to log in, and nobody answers", url=url) from None
            # Terminals break long lines, and what was copied brings the breaks along.
            text += line
            params = pasted(text, state)
            if params is not None and not deadline.expired:
                return params
            if not line.strip() or deadline.expired:
                break
        raise AuthError("what was pasted is not the address at which the login ended")

    def __repr__(self) -> str:
        return "PasteBack()"


def pasted(text: str, state: str) -> Optional[dict[str, str]]:
    """Return the answer in what a user has pasted: an address, a query, or a code alone.

    Args:
        text: What was pasted, with quotation marks, white space and line breaks as they came.
        state: What the answer has to bring back; a code alone brings none.

    Returns:
        ``None`` if it is not all of an answer.
    """
    text = re.sub(r"[\s\"'<>`]+", "", text)
    if "=" not in text:
        return (
            {"code": text, "state": state}
            if re.fullmatch(r"[!-~]{4,}", text) and "/" not in text[:8]
            else None
        )
    params = query_of(text)
    has_answer = params is not None and ("code" in params or "error" in params)
    # Cut off in the middle of the state: more is to come.
    cut = params is not None and state.startswith(params.get("state", "")) and params.get("state") != state
    return params if has_answer and not cut else None


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


def _check_timeout(timeout: Any) -> None:
    check_seconds("timeout", timeout)
    if timeout is None:
        raise UsageError("timeout must be a number of seconds: nobody waits for a person for ever")


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream is not None and stream.isatty())
    except (ValueError, OSError):
        return False

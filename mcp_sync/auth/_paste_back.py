"""How a person is asked by a URL that is printed, and pastes the address at which their browser ended."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Callable, Optional
from urllib.parse import urlsplit

from .._arguments import check_callback
from .._concurrency.deadline import Deadline
from ..errors import AuthError, AuthorizationRequired, CallTimeout
from ._interaction import Asking, Check, check_timeout, query_of, state_of
from ._rules import check_redirect_uri

_COPY = "Copy the whole address of the page at which the browser has ended, and paste it here:"
_MOST_SLIPS = 5
_MOST_LINES = 100


class PasteBack:
    """Print the URL, and have the user paste the address at which their browser ended.

    For a program that runs on another machine than the browser: the page at that address cannot be shown, but
    its address holds the answer. Whoever pastes something else is told what is wrong with it, and asked
    again, a few times and as long as there is time. The end of the input ends it.

    Args:
        show: Called with the text to be shown.
        read: Returns a line that the user enters. It is not interrupted by deadlines.
        redirect_uri: Where the browser ends; nothing listens there. A client that was registered by hand has
            to be registered with it.
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
        check_timeout(timeout)
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
            CallTimeout: The answer came too late.
            AuthError: What was entered is no answer, again and again.
        """
        if self._read is input and not _is_terminal(sys.stdin):
            raise AuthorizationRequired("somebody has to log in, and standard input is no terminal", url=url)
        self._show(
            f"To log in, open this address in a browser:\n{url}\n"
            f"Afterwards the browser shows an error, or an empty page, at {self.redirect_uri}. {_COPY}"
        )
        text, slips = "", 0
        for _ in range(_MOST_LINES):
            line = self._line(url, deadline, check)
            text = _joined(text, line)
            params = pasted(text, state_of(url))
            slip = _slip(text, line, params, url, self.redirect_uri)
            if params is not None and not slip:
                return params
            if slip:
                text, slips = "", slips + 1
                if slips >= _MOST_SLIPS:
                    break
                self._show(f"{slip} {_COPY}")
        raise AuthError("what was pasted is not the address at which the login ended")

    def _line(self, url: str, deadline: Deadline, check: Check) -> str:
        check()
        try:
            line = self._read()
        except EOFError:
            raise AuthorizationRequired("somebody has to log in, and nobody answers", url=url) from None
        if deadline.expired:
            raise CallTimeout("the answer came too late", timeout=deadline.timeout, request_sent=False)
        return line

    def __repr__(self) -> str:
        return "PasteBack()"


def _joined(text: str, line: str) -> str:
    """Return what has been pasted by now: terminals break long lines; an address begins it anew."""
    return line if re.match(r"\s*[\"'<`]*https?://", line) else text + line


def _slip(text: str, line: str, params: Optional[Mapping[str, str]], url: str, redirect_uri: str) -> str:
    """Say what is wrong with what was pasted, ``""`` if nothing is, or if more may be to come."""
    if params is not None:
        is_ours = params.get("state") == state_of(url)
        return "" if is_ours else "That is the answer to another login."
    plain = _without_marks(text)
    if not plain:
        return "Nothing was entered."
    if "=" not in plain and "://" not in plain:
        return "That is neither an address nor a code."
    if "://" in plain and _place(plain) == _place(url):
        return "That is the address to be opened, or a page on the way."
    is_begun = redirect_uri.startswith(plain) or plain.startswith(redirect_uri) or "://" not in plain
    if line.strip() and is_begun and "?" in plain:
        return ""  # Broken in the middle: the rest comes in the next line.
    return "That address has no code in it."


def _place(address: str) -> tuple[str, str]:
    try:
        parts = urlsplit(address)
    except ValueError:
        return "", ""
    return parts.netloc, parts.path


def pasted(text: str, state: str) -> Optional[dict[str, str]]:
    """Return the answer in what a user has pasted: an address, a query, or a code alone.

    Args:
        text: What was pasted, with quotation marks, white space and line breaks as they came.
        state: What the answer has to bring back; a code alone brings none.

    Returns:
        ``None`` if it is not all of an answer.
    """
    plain = _without_marks(text)
    if "=" not in plain:
        is_code = re.fullmatch(r"[!-~]{4,}", plain) and "/" not in plain[:8] and len(text.split()) == 1
        return {"code": plain, "state": state} if is_code else None
    params = query_of(plain)
    has_answer = params is not None and ("code" in params or "error" in params)
    # Cut off in the middle of the state: more is to come.
    cut = params is not None and state.startswith(params.get("state", "")) and params.get("state") != state
    return params if has_answer and not cut else None


def _without_marks(text: str) -> str:
    return re.sub(r"[\s\"'<>`]+", "", text)


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream is not None and stream.isatty())
    except (ValueError, OSError):
        return False

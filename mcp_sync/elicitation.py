"""Helps to answer what a server asks of a person: forms, pages to visit, a prompt in the terminal.

For an ``elicitation_callback`` as for a call that raised `InputRequired`:

>>> for key, request in waiting.requests.items():
...     for field in form_fields(request):
...         print(field.title, field.type, field.required)
...     answers[key] = accept(validate_answer(request, what_the_user_typed))

Source: specification, "Elicitation".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional
from urllib.parse import urlsplit

from . import types
from ._concurrency.fork import no_fork
from ._input_answers import listed
from ._protocol.form_values import read_answer
from ._protocol.forms import Choice, FormField, read_fields
from ._protocol.urls import is_loopback
from .errors import AnswerInvalid, UnsafeURL, UsageError

if TYPE_CHECKING:
    from .handlers import CallbackContext

__all__ = [
    "Choice",
    "FormField",
    "PageURL",
    "accept",
    "cancel",
    "check_url",
    "decline",
    "form_fields",
    "terminal_prompt",
    "validate_answer",
]

_LONGEST_URL = 8192
_ASCII = re.compile(r"[!-~]+")
_PUNYCODE = "xn--"
_NAME = re.compile(r"[a-z0-9_.-]+")
_NUMBER = re.compile("[0-9]+|0x[0-9a-f]*")


def form_fields(form: Any) -> tuple[FormField, ...]:
    """Return the fields of a form, in the server's order; none means that only consent is asked for.

    Args:
        form: What an ``elicitation_callback`` gets as ``params``, or an entry of `InputRequired.requests`.

    Raises:
        UsageError: It is no form, but a URL to visit for instance.
    """
    return read_fields(_schema_of(form))


def validate_answer(form: Any, values: Mapping[str, Any], *, html: Optional[bool] = None) -> dict[str, Any]:
    """Return what was filled in as the content of an answer, for `accept`.

    Text becomes what its field asks for: ``"12"`` a number, ``"on"`` true. What is blank counts as left out,
    and gets the default of its field. Entries that belong to no field (a token of the web framework, say)
    are passed over. Without text nothing is converted, so that values of the right types stay as they are.

    Args:
        form: As for `form_fields`.
        values: What was filled in, by the names of the fields: a dict, or what Django's ``request.POST`` or
            Flask's ``request.form`` is.
        html: Whether they come from an HTML form, which says nothing of a checkbox that is not ticked:
            what is missing then is false, or no choice, instead of the default. By default that is so
            for what has a ``getlist``, as those two have.

    Raises:
        AnswerInvalid: With all that is wrong in ``faults``, by the names of the fields.
        UsageError: It is no form, or the values are no mapping.
    """
    if not isinstance(values, Mapping) and not hasattr(values, "getlist"):
        raise UsageError(f"values must be a mapping, not {type(values).__name__}")
    is_html = callable(getattr(values, "getlist", None)) if html is None else html
    content, faults = read_answer(_schema_of(form), values, is_html)
    if faults:
        raise AnswerInvalid(f"the form is not filled in as it must be: {listed(faults)}", faults=faults)
    return content


def _schema_of(form: Any) -> Any:
    params = form.params if isinstance(form, types.ElicitRequest) else form
    if isinstance(params, types.ElicitRequestFormParams):
        return params.requested_schema
    if isinstance(params, types.ElicitRequestURLParams):
        raise UsageError("the server wants a page to be visited, and no form filled in: see check_url()")
    raise UsageError(f"{type(form).__name__} is no form: give the params of an elicitation")


def accept(content: Optional[Mapping[str, Any]] = None) -> types.ElicitResult:
    """Make the answer of a user who agreed: with the content of a form, without any for a URL."""
    return types.ElicitResult.accept(None if content is None else dict(content))


def decline() -> types.ElicitResult:
    """Make the answer of a user who said no."""
    return types.ElicitResult.decline()


def cancel() -> types.ElicitResult:
    """Make the answer of a user who made no choice, who closed the window for instance."""
    return types.ElicitResult.cancel()


@dataclass(frozen=True)
class PageURL:
    """A URL that may be shown to a person, who decides whether to go there.

    Attributes:
        url: The whole URL, in ASCII. Show all of it.
        host: Its host, without port. Let it stand out: it says whom the user is going to trust. A name in
            other letters is in its ASCII form (``xn--...``), because letters of several scripts look alike.
        readable_host: The host in its own letters; the same as ``host`` if that is all there is.
        warnings: What the user should be told, each a sentence. Empty for most URLs.
    """

    url: str
    host: str
    readable_host: str
    warnings: tuple[str, ...] = ()


def check_url(url: Any) -> PageURL:
    """Check a URL that a server wants a person to visit, before it is shown.

    It has to be ``https``, or ``http`` on this very machine, to name a host in plain letters, and to hold no
    user name or password (which look like a host), no control characters, spaces or backslashes. A host that
    browsers read as another one than it seems to be is refused: with percent signs, or an address that is not
    written as four decimal numbers. It is neither looked up nor opened: ask the user, and open it in the
    user's own browser.

    Args:
        url: The URL, or params or a request with one.

    Raises:
        UnsafeURL: It must not be shown as a link; the message says why.

    Source: specification, "Elicitation", section "Safe URL Handling".
    """
    params = url.params if isinstance(url, types.ElicitRequest) else url
    text = params.url if isinstance(params, types.ElicitRequestURLParams) else params
    if not isinstance(text, str):
        raise UsageError(f"check_url needs a URL, not {type(url).__name__}")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UnsafeURL("the server's URL is malformed", url=text) from error
    fault = _fault(text, parts.scheme, parts.netloc, host)
    if fault:
        raise UnsafeURL(f"the server's URL must not be visited: {fault}", url=text)
    ascii_host = _ascii(host, text)
    fault = _fault_of_host(ascii_host)
    if fault:
        raise UnsafeURL(f"the server's URL must not be visited: {fault}", url=text)
    place = f"[{ascii_host}]" if ":" in ascii_host else ascii_host
    whole = parts._replace(netloc=place if port is None else f"{place}:{port}").geturl()
    if not _ASCII.fullmatch(whole):
        raise UnsafeURL("the server's URL must not be visited: it holds characters that no URL may", url=text)
    readable = _readable(ascii_host)
    return PageURL(whole, ascii_host, readable, _warnings(ascii_host, readable, parts.scheme))


def _fault(url: str, scheme: str, netloc: str, host: str) -> Optional[str]:
    if len(url) > _LONGEST_URL:
        return f"it has more than {_LONGEST_URL} characters"
    # Python's parser drops some of them, browsers others.
    if any(ord(letter) <= 0x20 or 0x7F <= ord(letter) <= 0xA0 or letter in '\\<>"' for letter in url):
        return "it holds spaces or control characters"
    if scheme != "https" and not (scheme == "http" and is_loopback(host)):
        return "it must begin with https://"
    if "@" in netloc:
        return "it has a user name before its host"
    return None if host else "it names no host"


def _ascii(host: str, url: str) -> str:
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise UnsafeURL("the server's URL must not be visited: its host is no name", url=url) from error


def _fault_of_host(host: str) -> Optional[str]:
    """Say why browsers may go to another host than a user reads (URL Standard, "Host parsing")."""
    if "%" in host:
        return "its host is written with percent signs, which browsers replace"
    if ":" in host:
        return None if _is_address(host) else "its host is no address"
    last = host.rstrip(".").rpartition(".")[2]
    # Whatever ends so is an address for browsers: 127.1, 0x7f000001 and 2130706433 are 127.0.0.1.
    if _NUMBER.fullmatch(last) and not _is_address(host.rstrip(".")):
        return "its host is an address that is written so that it does not look like one"
    return None if _NAME.fullmatch(host) else "its host is no name"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _readable(host: str) -> str:
    if _PUNYCODE not in host:
        return host
    try:
        return host.encode("ascii").decode("idna")
    except UnicodeError:
        return host


def _warnings(host: str, readable: str, scheme: str) -> tuple[str, ...]:
    found = []
    if _PUNYCODE in host:
        shown = f", which reads {readable}" if readable.isprintable() and readable != host else ""
        found.append(f"The name {host}{shown} may look like another one.")
    if _is_address(host.rstrip(".")):
        found.append(f"{host} is the address of a machine, not a name.")
    if scheme == "http":
        found.append("The page is on this machine.")
    return tuple(found)


def terminal_prompt(context: CallbackContext, params: Any) -> types.ElicitResult:
    """Answer an elicitation by asking in the terminal: an ``elicitation_callback``.

    Questions go to standard error, answers come from standard input. Where there is nobody to ask (no
    terminal, a closed standard input) it declines at once. Ctrl-D cancels. A page to visit is shown, with
    its host and with what is odd about it, and never opened.

    >>> client = Client(server, elicitation_callback=terminal_prompt)
    """
    with no_fork():
        from ._terminal import PROMPT
    return PROMPT(context, params)

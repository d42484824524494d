"""What escapes from views: a redirect, a form or a page with the right status."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional, Union
from urllib.parse import parse_qs, urlsplit

from flask import Flask, redirect, request, url_for
from werkzeug.routing import BuildError

from ...elicitation import check_url
from ...errors import (
    AccessDenied,
    AuthError,
    AuthorizationRequired,
    CallTimeout,
    HTTPStatusError,
    InputRequired,
    InsufficientScope,
    MCPError,
    ProtocolError,
    RemoteError,
    TransportError,
    UnsafeURL,
    UrlElicitationRequired,
)
from ...errors._printable import printable
from . import signals
from ._pages import ANSWER, Link, back_to, here, http_error, page, remember_next, start, wants_json
from ._pending import keep
from ._state import LoginRequired, logger, state_of

_BUSY = (429, 503)
_LONGEST_PATH = 500  # the most characters of a path that are logged
NO_CONNECTION = "The connection did not come about."
NO_STORE = "The database cannot be reached just now."
_LATER = "Please try again later."


def log(error: Exception) -> None:
    """Tell whoever runs the application what its users are not told. The query may hold secrets."""
    cause = first_line(error.__cause__)
    # A path may hold whatever ends a line of a log.
    path = printable(request.path, _LONGEST_PATH)
    logger.warning("%s %s: %s%s", request.method, path, error, cause and f": {cause}")


def first_line(error: Optional[BaseException]) -> str:
    """Return what an error says first: SQLAlchemy goes on with what it has sent."""
    return str(error or "").partition("\n")[0]


def register(app: Flask) -> None:
    """Have an application show errors of this library."""
    for kind in (AuthorizationRequired, InsufficientScope):
        app.register_error_handler(kind, log_in)
    app.register_error_handler(InputRequired, ask)
    app.register_error_handler(UrlElicitationRequired, visit)
    app.register_error_handler(CallTimeout, too_slow)
    app.register_error_handler(HTTPStatusError, http_status)
    for other in (TransportError, ProtocolError, RemoteError):
        app.register_error_handler(other, no_answer)
    app.register_error_handler(AuthError, no_authorization)


def log_in(error: AuthError) -> Any:
    """Send the user to the authorization server; a program is told where that is."""
    alias = getattr(error, "_mcp_server", "")
    if not error.url:
        status = 403 if isinstance(error, InsufficientScope) else 401
        link = _connect_link(alias) if status == 401 else ""
        text = f"{alias or 'The server'} needs your permission first."
        links = [Link(f"Connect to {alias}", link)] if link else []
        told = {"url": link} if link else {}
        title = "Permission is needed"
        return page(status, text, error="authorization_required", title=title, links=links, told=told)
    remember_next(parse_qs(urlsplit(error.url).query).get("state", [""])[0], here())
    if request.headers.get("HX-Request"):
        return "", 401, {"HX-Redirect": error.url}
    if wants_json():
        return page(401, str(error), error="authorization_required", told={"url": error.url})
    return redirect(error.url, 303)


def _connect_link(alias: str) -> str:
    try:
        return url_for("mcp_sync.connect", alias=alias, next=here()) if alias else ""
    except BuildError:
        return ""


def ask(waiting: InputRequired) -> Any:
    """Keep the call, and send the user to the form."""
    state, alias = state_of(), getattr(waiting, "_mcp_server", "")
    if not alias:
        raise waiting
    try:
        owner = state.principal()
        pending = keep(state, waiting, alias, owner, here(), request.method == "GET")
    except LoginRequired as error:
        return http_error(error)
    except AuthError as error:
        log(error)
        return busy(NO_STORE, 5.0, _once_more())
    signals.send(signals.input_required, server=alias, principal=owner, id=pending.id)
    url = url_for(ANSWER, id=pending.id)
    if request.headers.get("HX-Request"):
        return "", 409, {"HX-Redirect": url}
    if wants_json():
        told = {"url": url, "id": pending.id}
        return page(409, f"{alias} has a question", error="input_required", told=told)
    return redirect(url, 303)


def visit(error: UrlElicitationRequired) -> Any:
    """The user has to visit pages first, and then to try again."""
    pages = []
    for each in error.elicitations:
        try:
            pages.append(check_url(each))
        except UnsafeURL:
            return no_answer(error)
    told = {"url": pages[0].url} if pages else {}
    title, text = "Something to do first", "Visit the page below first. Then come back, and try again."
    links = [Link("Try again", here())]
    return page(409, text, error="visit_required", title=title, links=links, told=told, pages=pages)


def too_slow(error: CallTimeout) -> Any:
    """The server has not answered within the time of the request."""
    return _late(error, _once_more())


def _late(error: CallTimeout, links: Sequence[Link]) -> Any:
    log(error)
    return page(504, f"The server did not answer in time. {_LATER}", error="timeout", links=links)


def http_status(error: HTTPStatusError) -> Any:
    """The server is busy, or answers with an error."""
    if error.status not in _BUSY:
        return no_answer(error)
    log(error)
    return busy("The server is busy just now.", error.retry_after, _once_more())


def busy(text: str, retry_after: Optional[float], links: Sequence[Link]) -> Any:
    """Say that it is worth another try, and when."""
    headers = {} if retry_after is None else {"Retry-After": str(max(1, math.ceil(retry_after)))}
    return page(503, f"{text} {_LATER}", error="busy", headers=headers, links=links)


def _once_more() -> list[Link]:
    place = here()
    if request.method == "GET":
        return [Link("Try again", place), back_to(start())]
    return [back_to(place)]


def no_answer(error: Exception) -> Any:
    """The server cannot be reached, or does not do what it should."""
    log(error)
    text = "The server behind this page did not answer as it should."
    return page(502, text, error="bad_gateway", links=_once_more())


def no_authorization(error: Union[AuthError, CallTimeout], links: Optional[Sequence[Link]] = None) -> Any:
    """There is no grant, and why."""
    links = _once_more() if links is None else links
    if isinstance(error, CallTimeout):
        return _late(error, links)
    if isinstance(error, AccessDenied):
        text = "Access was not granted, so nothing has changed."
        return page(403, text, error="access_denied", links=links)
    log(error)
    # Of a server that cannot be asked, the cause is an error of this library.
    if type(error) is AuthError and not isinstance(error.__cause__, (MCPError, type(None))):
        return busy(NO_STORE, 5.0, links)
    if error.transient:
        return busy(NO_CONNECTION, 5.0, links)
    return page(502, NO_CONNECTION, error="login_failed", links=links)

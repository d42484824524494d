"""What becomes of errors that leave a view: the way to the page where the user can do something about it.

``"mcp_sync.contrib.django.middleware.McpSyncMiddleware"`` belongs below those of sessions and of users.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Callable, NamedTuple, Optional
from urllib.parse import urlencode

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.db import DatabaseError
from django.http import HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.loader import render_to_string
from django.utils.cache import add_never_cache_headers
from django.utils.http import escape_leading_slashes

from ..._envelope import server_key
from ...errors import (
    AuthorizationRequired,
    CallTimeout,
    InputRequired,
    InsufficientScope,
    MCPError,
    UsageError,
)
from ...errors._printable import printable
from . import conf, pending, signals
from ._connections import StoreLocked, is_of_database
from .authorization import ConnectionRequired, connection_required, path_of
from .server import request_views
from .servers import mcp

logger = logging.getLogger("mcp_sync.django")

NO_DATABASE = "The database cannot be reached just now. Please try again later."
BACK = "Back to where you were"
IS_PROGRAM = "mcp_sync_is_program"  # an attribute of requests whose answers are JSON, whatever they say
_BUSY = (429, 503)
_LONGEST_PATH = 500  # the most characters of a path that are logged
_FAILURES = {
    502: ("server_failed", "A server that this needs has failed."),
    503: ("server_busy", "A server that this needs is busy. Please try again later."),
    504: ("server_timeout", "A server that this needs did not answer in time. Please try again later."),
}
SCOPES = "mcp_sync_scopes"  # in the session: what a server asked for beyond what was granted


class Failure(NamedTuple):
    """What to say about an error of a server, to people and to programs.

    Attributes:
        status: The HTTP status.
        name: What kind it is, for programs.
        text: The same for people.
        headers: Those of the answer.
    """

    status: int
    name: str
    text: str
    headers: Mapping[str, str] = MappingProxyType({})


class McpSyncMiddleware:
    """Answers `AuthorizationRequired` and `InputRequired`, and keeps one view of a server for a request.

    - A user who has to connect is redirected to the page for that; JSON and HTMX get 401 with a link.
    - A call that waits for input is kept, and the user redirected to its form; JSON gets 409 with a link.
    - A server that fails is 502, one that is busy 503, one that is too slow 504, unless ``ERROR_PAGES`` is
      false.
    - A token store whose database is down or too slow is 503. With ``DEBUG``, Django shows this error, and
      those of servers.
    - Where the token store cannot be used before the transaction of the view has ended, because that, or who
      waits for its end, has locked what is needed, the token is refreshed afterwards, and a GET repeated; a
      form gets 503.

    Other errors go on to Django, whose reports hide the variables of this library and the servers of the
    settings.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[Any], Any]) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: Any) -> Any:
        """Answer a request."""
        if self._is_async:
            return self._later(request)
        token = request_views.set({})
        try:
            return self.get_response(request)
        finally:
            request_views.reset(token)

    async def _later(self, request: Any) -> Any:
        # Each context of an async view has its own views: they go away with it.
        token = request_views.set({})
        try:
            return await self.get_response(request)
        finally:
            request_views.reset(token)

    def process_view(self, request: Any, view: Any, args: Any, kwargs: Any) -> None:
        """Refresh tokens that are about to expire, outside of the transaction of the view."""
        for alias in getattr(view, "mcp_aliases", ()):
            # What is wrong, the view finds out again, and says so.
            with suppress(MCPError):
                mcp[alias].make_ready(getattr(request, "user", None))

    def process_exception(self, request: Any, error: Exception) -> Optional[HttpResponse]:
        """Answer an error that left a view."""
        from .debug import hide_secrets

        hide_secrets(request)
        if isinstance(error, StoreLocked):
            return _again(request, error)
        if is_of_database(error):
            logger.error("The database of the token store failed", exc_info=error)
            return _unavailable(request)
        answer = answer_to(request, error, getattr(request, IS_PROGRAM, False))
        return _failed(request, error) if answer is None and conf.get("ERROR_PAGES") else answer


def _failed(request: Any, error: Exception) -> Optional[HttpResponse]:
    """Say that a server has failed, and not where it is: the log says that."""
    found = failure_of(error)
    if found is None or settings.DEBUG:
        return None
    # A path may hold whatever ends a line of a log.
    path = printable(request.path, _LONGEST_PATH)
    logger.warning("%s %s: %s: %s", request.method, path, type(error).__name__, error)
    links = [(_path(request), "Try again")] if request.method == "GET" else []
    return _problem(request, found, links)


def _again(request: Any, error: StoreLocked) -> Optional[HttpResponse]:
    """Get the token that could not be had in the transaction of the view, which is over, and repeat a GET."""
    renewed, user = False, getattr(request, "user", None)
    with suppress(MCPError, DatabaseError):
        if not mcp[error.alias].is_connected(user):
            return answer_to(request, connection_required(error.alias))
        renewed = mcp[error.alias].renew(user)
    if renewed and request.method in ("GET", "HEAD"):
        return HttpResponseRedirect(_path(request))
    logger.warning("A view has failed: %s", error)
    return _unavailable(request)


def _unavailable(request: Any) -> Optional[HttpResponse]:
    """Say that the token store cannot be read; who develops the site sees why."""
    return None if settings.DEBUG else _problem(request, Failure(503, "temporarily_unavailable", NO_DATABASE))


def _problem(request: Any, failure: Failure, links: Sequence[tuple[str, str]] = ()) -> HttpResponse:
    status, name, text, headers = failure
    answer: HttpResponse
    if wants_json(request):
        answer = JsonResponse({"error": name, "detail": text}, status=status, headers=headers)
    else:
        page = render_to_string("mcp_sync/problem.html", {"problem": text, "links": links}, request)
        answer = HttpResponse(page, status=status, headers=headers)
    # Some proxies keep errors for a while, and a template of the site may name its user.
    add_never_cache_headers(answer)
    return answer


def answer_to(request: Any, error: BaseException, as_json: bool = False) -> Optional[HttpResponse]:
    """Return what to answer where a user can do something about an error, ``None`` where nobody can.

    Args:
        request: The request.
        error: The error.
        as_json: Whether it is for a program, whatever the request says.
    """
    if isinstance(error, InputRequired):
        return _ask(request, error, as_json)
    if not isinstance(error, (AuthorizationRequired, InsufficientScope)):
        return None
    needed = error if isinstance(error, ConnectionRequired) else error.__cause__
    if not isinstance(needed, ConnectionRequired) or not needed.url:
        return None
    # Not where `BASE_URL` says: this browser is here, and so is its session.
    path = path_of("connect", needed.alias)
    if not path:
        return None
    user = getattr(request, "user", None)
    signals.send(signals.authorization_required, McpSyncMiddleware, alias=needed.alias, user=user)
    if needed.scopes and hasattr(request, "session"):
        request.session[SCOPES] = {**request.session.get(SCOPES, {}), needed.alias: list(needed.scopes)}
    url = f"{path}?{urlencode({'next': _place(request)})}"
    return send_to(request, url, 401, "authorization_required", needed.alias, as_json)


def _ask(request: Any, waiting: InputRequired, as_json: bool) -> Optional[HttpResponse]:
    alias = _alias_of(waiting)
    if alias is None or not path_of("input", "00000000-0000-0000-0000-000000000000"):
        return None
    user = getattr(request, "user", None)
    row = pending.keep(waiting, alias, user, _place(request), request.get_full_path())
    pending.note_in_session(row, request)
    return send_to(request, path_of("input", row.pk), 409, "input_required", alias, as_json)


def _alias_of(waiting: InputRequired) -> Optional[str]:
    """Return the server whose call waits: one of those that the views of this request are for."""
    aliases = [alias for alias, _ in request_views.get() or {}]
    if len(set(aliases)) <= 1:
        return aliases[0] if aliases else None
    return next((alias for alias in aliases if _fits(waiting, alias)), None)


def _fits(waiting: InputRequired, alias: str) -> bool:
    target = mcp[alias].client._engine.plan.target
    return bool(waiting._envelope["server"].get("key") == server_key(target))


def send_to(
    request: Any, url: str, status: int, code: str, alias: str, as_json: bool = False
) -> HttpResponse:
    """Send a user to a page of this application; a program gets its address."""
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(status=status, headers={"HX-Redirect": url})
    if as_json or wants_json(request):
        body = {"error": code, "server": alias, "url": request.build_absolute_uri(url)}
        return JsonResponse(body, status=status)
    return HttpResponseRedirect(url)


def wants_json(request: Any) -> bool:
    """Whether a request is that of a program."""
    if request.headers.get("X-Requested-With") == "XMLHttpRequest":
        return True
    accept = request.headers.get("Accept", "")
    return "text/html" not in accept and "json" in accept


def _place(request: Any) -> str:
    """Return where the user goes on later: what was asked for, or the page that it was sent from."""
    return _path(request) if request.method in ("GET", "HEAD") else "/"


def _path(request: Any) -> str:
    """Return what was asked for, as a place of this site: two slashes in front would make it another one."""
    return str(escape_leading_slashes(request.get_full_path()))


def failure_of(error: BaseException) -> Optional[Failure]:
    """Return what to say about an error of a server, ``None`` if it is none."""
    status = status_of(error)
    if status not in _FAILURES:
        return None
    after = getattr(error, "retry_after", None)
    headers = {} if after is None else {"Retry-After": str(max(1, math.ceil(after)))}
    return Failure(status, *_FAILURES[status], headers)


def status_of(error: BaseException) -> int:
    """Return the HTTP status for an error of a server, for views of your own."""
    if isinstance(error, UsageError) or not isinstance(error, MCPError):
        return 500
    if isinstance(error, (AuthorizationRequired, InsufficientScope)):
        return 401
    if isinstance(error, InputRequired):
        return 409
    if isinstance(error, CallTimeout):
        return 504
    is_busy = getattr(error, "status", None) in _BUSY or getattr(error, "transient", False)
    if is_busy or is_of_database(error):
        return 503
    return 502

"""What the views have in common: pages, answers in JSON, and where to go back to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional
from urllib.parse import quote, urlsplit

from flask import jsonify, make_response, render_template, request, session
from werkzeug.exceptions import HTTPException

ANSWER = "mcp_sync.answer"  # the view with the form of a question
_NEXT = "mcp_sync_next"
_MOST_LOGINS = 5
_LONGEST = 1500  # characters of all places together
_IN_PATHS = "/:@!$&'()*+,;=~"
_IN_QUERIES = f"{_IN_PATHS}?%"


class Link(NamedTuple):
    """A link of a page.

    Attributes:
        text: What it says.
        url: Where it leads to.
    """

    text: str
    url: str


def wants_json() -> bool:
    """Whether whoever asks is a program."""
    if request.is_json or request.headers.get("X-Requested-With") == "XMLHttpRequest":
        return True
    best = request.accept_mimetypes.best_match(["text/html", "application/json"], "text/html")
    return best == "application/json"


def is_local(path: Optional[str]) -> bool:
    """Whether a browser that follows it stays at this application."""
    if not path or not path.startswith("/") or path.startswith(("//", "/\\")):
        return False
    return not any(ord(letter) < 0x21 or letter == "\\" for letter in path)


def start() -> str:
    """Return where the application begins, which need not be where its host does."""
    path = f"{quote(request.script_root, safe=_IN_PATHS)}/"
    return path if is_local(path) else "/"


def here() -> str:
    """Return the page that the user is at: this one, or the one with the form that was posted."""
    # Our own pages send no referrer, and the form of a question is where it is posted to.
    if request.method in ("GET", "HEAD") or request.endpoint == ANSWER:
        # Flask has taken them apart: a space, or an encoded question mark, is to be what it was.
        path = quote(request.script_root + request.path, safe=_IN_PATHS)
        query = quote(request.query_string, safe=_IN_QUERIES)
        path = f"{path}?{query}" if query else path
        return path if is_local(path) else start()
    parts = urlsplit(request.referrer or "")
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return path if parts.netloc == request.host and is_local(path) else start()


def remember_next(state: str, path: str) -> None:
    """Keep where the user of a login wants to go, in the session: a path, and no secret."""
    kept = [each for each in session.get(_NEXT, []) if each[0] != state]
    kept = [*kept, [state, _short(path) if is_local(path) else start()]][-_MOST_LOGINS:]
    while sum(len(each[1]) for each in kept) > _LONGEST:
        kept.pop(0)
    session[_NEXT] = kept


def _short(path: str) -> str:
    """Return a path that fits into a cookie, which browsers drop when it is too long."""
    return next((each for each in (path, path.partition("?")[0]) if len(each) <= _LONGEST), start())


def next_of(state: str) -> str:
    """Return where the user of a login wants to go."""
    path = dict(session.get(_NEXT, [])).get(state, "")
    return str(path) if is_local(path) else start()


def take_next(state: str) -> str:
    """Return the same, and forget it."""
    path = next_of(state)
    session[_NEXT] = [each for each in session.get(_NEXT, []) if each[0] != state]
    return path


def back_to(place: str) -> Link:
    """Return the link to where a user was."""
    return Link("Back to the start" if place == start() else "Back to where you were", place)


def page(
    status: int,
    text: str,
    *,
    error: str,
    title: str = "It did not work",
    links: Sequence[Link] = (),
    told: Optional[Mapping[str, str]] = None,
    headers: Optional[Mapping[str, str]] = None,
    **values: Any,
) -> Any:
    """Answer with a page, or with JSON to a program.

    Args:
        status: The HTTP status.
        text: What has happened.
        error: What kind of an error it is, for programs.
        title: The same for people.
        links: Where people may go on.
        told: What else programs are told.
        headers: Those of the answer.
        values: What else the template has.
    """
    if wants_json():
        answer = jsonify(error=error, message=text, **(told or {}))
    else:
        links = links or [back_to(start())]
        values = {"title": title, "text": text, "links": links, **values}
        answer = make_response(render_template("mcp_sync/message.html", **values))
    answer.status_code = status
    answer.headers.update({"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", **(headers or {})})
    return answer


def http_error(error: HTTPException) -> Any:
    """Show an error of the views."""
    name = (error.name or "error").lower().replace(" ", "_")
    return page(error.code or 500, error.description or "", error=name)

"""Protection of the forms: what is posted has to carry a token of the session."""

from __future__ import annotations

import hmac
import secrets

from flask import request, session
from markupsafe import Markup
from werkzeug.exceptions import BadRequest

_NAME = "mcp_sync_csrf"
FIELD = "mcp_csrf"
HEADER = "X-MCP-CSRF"


def token() -> str:
    """Return the token of this session."""
    if _NAME not in session:
        session[_NAME] = secrets.token_urlsafe(24)
    return str(session[_NAME])


def field() -> Markup:
    """Return the field that forms need which are posted to the views of this package."""
    return Markup('<input type="hidden" name="{}" value="{}">').format(FIELD, token())


def check() -> None:
    """See that a form comes from a page of this application.

    Raises:
        BadRequest: It does not.
    """
    given = request.form.get(FIELD) or request.headers.get(HEADER) or ""
    if not hmac.compare_digest(given.encode(), str(session.get(_NAME) or "").encode()) or not given:
        raise BadRequest("This form is out of date. Go back, load the page anew, and try again.")

"""Errors of servers in the views of Django REST framework, as JSON.

::

    REST_FRAMEWORK = {"EXCEPTION_HANDLER": "mcp_sync.contrib.django.drf.exception_handler"}
"""

from __future__ import annotations

from typing import Any

from django.db import connections
from django.utils.cache import add_never_cache_headers
from rest_framework.response import Response
from rest_framework.views import exception_handler as usual_handler
from rest_framework.views import set_rollback

from ...errors import AuthorizationRequired, InputRequired, InsufficientScope, MCPError
from . import conf
from ._connections import StoreLocked, is_of_database
from .middleware import IS_PROGRAM, answer_to, failure_of, logger

_WAIT_FOR_PEOPLE = (AuthorizationRequired, InsufficientScope, InputRequired)


def exception_handler(error: Exception, context: dict[str, Any]) -> Any:
    """Answer an error that has left a view: an ``EXCEPTION_HANDLER`` of Django REST framework.

    A user who has to connect gets 401, a question of a server 409, each with the ``url`` of the page for that
    and the ``server``; what a server does wrong is 502, 503 or 504 with an ``error`` and a ``detail``, which
    say no more than that. All else is for the handler of the framework.

    Args:
        error: What was raised.
        context: What the framework says about the view.

    Returns:
        The answer, ``None`` where nobody has one: then it is an error of the site.
    """
    if not isinstance(error, MCPError):
        return usual_handler(error, context)
    if isinstance(error, StoreLocked) or is_of_database(error):
        return None  # The middleware knows what to do, once the transaction of the view is over.
    if isinstance(error, InputRequired) and _is_rolled_back():
        # Likewise: what is kept of it now would be rolled back.
        setattr(context["request"]._request, IS_PROGRAM, True)
        return None
    if isinstance(error, _WAIT_FOR_PEOPLE):
        answer = answer_to(context["request"]._request, error, as_json=True)
        if answer is not None:
            set_rollback()
        return answer
    found = failure_of(error)
    if found is None:
        return None
    logger.warning("A view has failed with its server: %s: %s", type(error).__name__, error)
    set_rollback()
    status, name, detail, headers = found
    answer = Response({"error": name, "detail": detail}, status=status, headers=headers)
    add_never_cache_headers(answer)
    return answer


def _is_rolled_back() -> bool:
    """Whether `set_rollback` has an effect on what is kept."""
    connection = connections[conf.get("DATABASE")]
    return bool(connection.settings_dict["ATOMIC_REQUESTS"] and connection.in_atomic_block)

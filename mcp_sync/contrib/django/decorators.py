"""Decorators of views."""

from __future__ import annotations

import functools
from typing import Any, Callable

from .authorization import connection_required
from .middleware import answer_to
from .servers import mcp


def mcp_login_required(*aliases: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Send users away who are not connected to these servers; the view is not run then.

    Looks whether there is a grant, and asks nobody: what is refused later raises in the view as ever.

    Args:
        aliases: The servers.
    """

    def decorate(view: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(view)
        def guarded(request: Any, *args: Any, **kwargs: Any) -> Any:
            for alias in aliases:
                if not is_connected(alias, request.user):
                    return answer_to(request, connection_required(alias))
            return view(request, *args, **kwargs)

        guarded.mcp_aliases = aliases  # type: ignore[attr-defined]
        return guarded

    return decorate


def is_connected(alias: str, user: Any) -> bool:
    """Whether a user has a grant for a server, or needs none. Asks nobody.

    Raises:
        AuthError: The token store cannot be read.
    """
    return mcp[alias].is_connected(user)

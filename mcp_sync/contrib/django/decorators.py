"""Decorators of views."""

from __future__ import annotations

import functools
from typing import Any, Callable

from asgiref.sync import iscoroutinefunction, sync_to_async

from .authorization import connection_required
from .middleware import answer_to
from .servers import mcp


def mcp_login_required(*aliases: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Send users away who are not connected to these servers; the view is not run then.

    Looks whether there is a grant, and asks nobody: what is refused later raises in the view as ever.
    Views may be async.

    Args:
        aliases: The servers.

    Raises:
        ConnectionRequired: From the view, where the urls of this application are not included.
    """

    def decorate(view: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(view)
        def guarded(request: Any, *args: Any, **kwargs: Any) -> Any:
            refused = _refused(request, aliases)
            return view(request, *args, **kwargs) if refused is None else refused

        @functools.wraps(view)
        async def guarded_later(request: Any, *args: Any, **kwargs: Any) -> Any:
            refused = await sync_to_async(_refused)(request, aliases)
            return await view(request, *args, **kwargs) if refused is None else refused

        found: Callable[..., Any] = guarded_later if iscoroutinefunction(view) else guarded
        found.mcp_aliases = aliases  # type: ignore[attr-defined]
        return found

    return decorate


def _refused(request: Any, aliases: tuple[str, ...]) -> Any:
    for alias in aliases:
        if not is_connected(alias, request.user):
            error = connection_required(alias)
            answer = answer_to(request, error)
            if answer is None:
                raise error  # There is no page to send anybody to.
            return answer
    return None


def is_connected(alias: str, user: Any) -> bool:
    """Whether a user has a grant for a server, or needs none. Asks nobody.

    Raises:
        AuthError: The token store cannot be read.
    """
    return mcp[alias].is_connected(user)

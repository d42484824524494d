"""The clients of a worker: one for each server and process, opened when a task first calls."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Callable, Optional

from celery import signals

from ...errors import UsageError
from ...options import Retry
from ...registry import Registry

ATTRIBUTE = "mcp_sync"
_CLOSE_SECONDS = 5.0
# How long a worker sleeps where a server has it wait, in seconds. Beyond that it does something else.
_LONGEST_SLEEP = 1.0

Context = Callable[[], AbstractContextManager[Any]]
Clients = Callable[[str, Optional[str]], Any]


class Servers:
    """What an application of Celery has. In ``app.mcp_sync``.

    Attributes:
        context: Makes the context that tasks run in.
        envelope_key: What paused calls are sealed with.
        registry: The clients, if they are ours.
    """

    def __init__(self, source: Any, context: Context, key: Optional[str], options: Any) -> None:
        self.context = context
        self.envelope_key = key
        self.registry: Optional[Registry] = None
        self._clients: Clients
        if callable(source) and not isinstance(source, Registry):
            if options:
                raise UsageError("options are for clients that are made here, not for those of a function")
            self._clients = source
        else:
            options = {"retry": Retry(longest_wait=_LONGEST_SLEEP), **options}
            self.registry = source if isinstance(source, Registry) else Registry(source, **options)
            self._clients = self._of_registry

    def client(self, alias: str, user: Optional[str]) -> Any:
        """Return the client of a server, for one of its users, or for all (``None``)."""
        return self._clients(alias, user)

    def _of_registry(self, alias: str, user: Optional[str]) -> Any:
        assert self.registry is not None
        client = self.registry[alias]
        return client if user is None else client.for_principal(user)

    def close(self, **told: Any) -> None:
        """Close the clients: the worker, or one of its processes, ends."""
        if self.registry is not None:
            self.registry.close(_CLOSE_SECONDS)


def use_servers(
    app: Any,
    servers: Any,
    *,
    context: Context = nullcontext,
    envelope_key: Optional[str] = None,
    **options: Any,
) -> Servers:
    """Have the tasks of an application use MCP servers. Reads and opens nothing.

    Each process of a worker opens its own connections, when a task first calls, and closes them at its end.

    Args:
        app: The application of Celery.
        servers: A `Registry`, or what it takes; or a function ``f(alias, user)`` that returns a client, such
            as `mcp_sync.contrib.flask.MCP.client_for`.
        context: Makes the context that tasks run in, such as ``flask_app.app_context``.
        envelope_key: A secret, with which paused calls are sealed against changes.
        options: Arguments of all clients, as of `Registry`. By default a client waits for a busy server at
            most one second by itself (``Retry(longest_wait=1)``): beyond that the task is retried later.

    Raises:
        UsageError: It cannot be so.
    """
    from ._polling import register

    found = Servers(servers, context, envelope_key, options)
    setattr(app, ATTRIBUTE, found)
    register(app)
    signals.worker_process_shutdown.connect(found.close, weak=False)
    signals.worker_shutdown.connect(found.close, weak=False)
    return found


def servers_of(app: Any) -> Servers:
    """Return the servers of an application.

    Raises:
        UsageError: It has none.
    """
    found = getattr(app, ATTRIBUTE, None)
    if not isinstance(found, Servers):
        raise UsageError("this application of Celery has no servers: call use_servers(app, ...)")
    return found

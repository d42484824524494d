"""Has servers tell of tasks, so that nobody has to wait for the next look at one."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from .._arguments import check_instance
from .._concurrency.cancel import CancelToken
from .._concurrency.deadline import Deadline
from .._concurrency.threads import join_all, spawn
from .._engine.call_options import CallOptions
from .._protocol.methods import LISTEN
from ..errors import CallCancelled, ClientClosed, MCPError
from ._handle import TaskHandle

if TYPE_CHECKING:
    import threading

    from .._engine.engine import Engine

logger = logging.getLogger("mcp_sync.session")


@contextmanager
def listening(handles: Iterable[TaskHandle]) -> Iterator[None]:
    """While in here, have the servers tell of changes of these tasks.

    ``result``, `as_completed` and the like look at a task as soon as its server has told of it, instead of
    after the interval that the server wishes. They look all the same if it never does: because it does not
    know how, because the stream broke off, which is not mended, or because there can be no more threads.

    It costs one thread for each client, and over HTTP one connection more ("Task Status Notifications" in
    SEP-2663; up to 2025-11-25 the server's own stream). Servers on a pipe or a WebSocket of those older
    revisions tell without being asked.

    Args:
        handles: The tasks.

    Example:
        >>> with listening(handles):
        ...     for handle in as_completed(handles):
        ...         print(handle.result().text)
    """
    found: dict[Engine, list[str]] = {}
    for handle in handles:
        check_instance("a handle", handle, TaskHandle)
        if handle.id:
            found.setdefault(handle._session._engine, []).append(handle.id)
    token = CancelToken()
    threads: list[threading.Thread] = []
    with ExitStack() as stack:
        stack.callback(_end, token, threads)
        for engine, ids in found.items():
            settings = engine.plan.settings
            if engine.connection(Deadline(settings.timeouts.open)).era.handshake:
                stack.enter_context(engine.listening())
            else:
                run = copy_context().run
                try:
                    threads.append(spawn(settings.name, "tasks", run, _listen, engine, ids, token))
                except RuntimeError as error:
                    logger.warning("Nobody hears of tasks, which are looked at: no thread (%s)", error)
        yield


def _end(token: CancelToken, threads: list[threading.Thread]) -> None:
    token.cancel()
    join_all(threads, Deadline(5.0))


def _listen(engine: Engine, ids: list[str], token: CancelToken) -> None:
    options = CallOptions(cancel=token, on_notification=_ignore)
    try:
        engine.call_raw(LISTEN, {"notifications": {"taskIds": ids}}, options, Deadline(None))
    except (ClientClosed, CallCancelled):
        pass
    except MCPError as error:
        logger.info("The server does not tell of tasks (any more), which are looked at: %s", error)


def _ignore(message: dict[str, Any]) -> None:
    """Take what whoever follows a task sees by itself: it watches all notifications."""

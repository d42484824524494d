"""The one place where threads are made and awaited."""

from __future__ import annotations

import contextvars
import itertools
import logging
import sys
import threading
from collections.abc import Iterable
from typing import Any, Callable

from .deadline import Deadline

logger = logging.getLogger("mcp_sync.threads")
_numbers = itertools.count(1)

# Called by each thread of this package as the last thing it does: a framework closes what belongs to a
# thread, such as its connections to databases. Single operations only, so it needs no lock.
at_end: list[Callable[[], object]] = []


def client_name() -> str:
    """Return a name for a client that got none: ``client-1``, ``client-2``, ..."""
    return f"client-{next(_numbers)}"


def spawn(owner: str, role: str, target: Callable[..., None], *args: Any) -> threading.Thread:
    """Start a daemon thread named ``mcp_sync-<owner>-<role>``.

    Daemon, because a forgotten ``close()`` must not keep the interpreter from ending. An exception
    that escapes ``target`` is logged, so that no thread dies silently.
    """
    # In a context of its own: with free-threaded Python it would begin in that of whoever starts it, and do
    # the work of others there.
    run, name = contextvars.Context().run, f"mcp_sync-{owner}-{role}"
    thread = threading.Thread(target=run, args=(_run, target, args), name=name, daemon=True)
    thread.start()
    return thread


def _run(target: Callable[..., None], args: tuple[Any, ...]) -> None:
    try:
        target(*args)
    except Exception:
        logger.exception("Thread %s failed", threading.current_thread().name)
    finally:
        # What a framework calls here may leave a circle behind that knows this frame: no client shall wait in
        # it for the garbage collector.
        del target, args
        for last in at_end:
            try:
                last()
            except Exception:
                logger.exception("Thread %s has left something open", threading.current_thread().name)


def join_all(threads: Iterable[threading.Thread], deadline: Deadline) -> bool:
    """Wait for threads, all within one deadline; the calling thread itself is left out.

    A deadline without any time is that of a finaliser, which neither waits nor complains. When the
    interpreter has begun to end, daemon threads run no more: nobody waits then, either.

    Returns:
        Whether all of them have ended. The others are named in a warning.
    """
    if deadline.timeout == 0.0 or sys.is_finalizing():
        return False
    alive = []
    for thread in threads:
        if thread is threading.current_thread():
            continue
        thread.join(deadline.remaining())
        if thread.is_alive():
            alive.append(thread.name)
    if alive:
        logger.warning("Still running after close(): %s", ", ".join(alive))
    return not alive

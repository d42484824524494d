"""Which of several answers to a question counts: the first one, as the result backend decides."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Any

from ...errors import UsageError

_SECONDS = 24 * 3600.0  # for which a claim is kept where results have no time of their own


class AlreadyAnswered(UsageError):
    """Somebody else has answered what a task has asked, and this answer does not count."""


def claim(backend: Any, name: str) -> bool:
    """Whether we are the first to claim a name.

    The backend tells for all processes if it is Redis, Memcached, a database (that of Celery or of
    django-celery-results) or a folder; with others it holds for this process.
    """
    if hasattr(backend, "ResultSession"):
        return _in_database(backend, name)
    if hasattr(backend, "TaskModel"):
        return bool(backend.TaskModel._default_manager.get_or_create(task_id=name)[1])
    if hasattr(backend, "_filename"):
        return _in_folder(backend, name)
    client = _client_of(backend)
    if client is not None:
        raw, seconds = backend.get_key_for_task(name), int(backend.expires or _SECONDS)
        key = raw.decode() if isinstance(raw, bytes) else raw
        if hasattr(client, "add"):
            return bool(client.add(key, b"1", seconds))
        return bool(client.set(key, b"1", ex=seconds, nx=True))
    with _guard:
        is_first = name not in _claimed
        _claimed.add(name)
    return is_first


def is_shared(backend: Any) -> bool:
    """Whether what is claimed is so for all processes."""
    kept_by = ("ResultSession", "TaskModel", "_filename")
    return any(hasattr(backend, name) for name in kept_by) or _client_of(backend) is not None


def give_up(backend: Any, name: str) -> None:
    """Have others claim a name that we have claimed."""
    with _guard:
        _claimed.discard(name)
    with suppress(NotImplementedError):
        backend.forget(name)


def _client_of(backend: Any) -> Any:
    """Return what can set a value unless there is one, ``None`` if nothing of the kind is known."""
    if hasattr(backend, "cache_backend"):
        return backend.cache_backend
    client = getattr(backend, "client", None)
    is_redis = hasattr(client, "hsetnx")
    return client if is_redis or hasattr(client, "add") else None


def _in_database(backend: Any, name: str) -> bool:
    from sqlalchemy.exc import IntegrityError

    session = backend.ResultSession()
    try:
        session.add(backend.task_cls(name))
        session.commit()
    except IntegrityError:
        session.rollback()
        return False
    finally:
        session.close()
    return True


def _in_folder(backend: Any, name: str) -> bool:
    try:
        os.close(os.open(backend._filename(backend.get_key_for_task(name)), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


# Guards the names that are claimed within this process.
_guard = threading.Lock()
_claimed: set[str] = set()

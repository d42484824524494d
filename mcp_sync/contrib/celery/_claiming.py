"""Which of several answers to a question counts: the first one, as the result backend decides."""

from __future__ import annotations

import secrets
import threading
from contextlib import suppress
from typing import Any, Optional

from ...errors import UsageError

_SECONDS = 24 * 3600.0  # for which a claim is kept where results have no time of their own


class AlreadyAnswered(UsageError):
    """Somebody else has answered what a task has asked, and this answer does not count."""


def claim(backend: Any, name: str, owner: Optional[str] = None) -> bool:
    """Whether a name is ours: we are the first to claim it, or it was claimed for the same owner.

    Args:
        backend: The result backend.
        name: What is claimed.
        owner: For whom; by default for nobody else, now or later.
    """
    value = owner or secrets.token_hex(16)
    return kept_first(backend, name, value) == value


def kept_first(backend: Any, name: str, value: str) -> str:
    """Keep a value under a name unless there is one, and return what is kept: empty if it is being written.

    The backend tells for all processes if it is Redis, Memcached, a database (that of Celery or of
    django-celery-results) or a folder; with others it holds for this process.
    """
    if hasattr(backend, "ResultSession"):
        return _in_database(backend, name, value)
    if hasattr(backend, "TaskModel"):
        row = backend.TaskModel._default_manager.get_or_create(task_id=name, defaults={"result": value})[0]
        return str(row.result)
    if hasattr(backend, "_filename"):
        return _in_folder(backend, name, value)
    client = _client_of(backend)
    if client is not None:
        raw, seconds = backend.get_key_for_task(name), int(backend.expires or _SECONDS)
        key = raw.decode() if isinstance(raw, bytes) else raw
        if hasattr(client, "add"):
            is_first = client.add(key, value.encode(), seconds)
        else:
            is_first = client.set(key, value.encode(), ex=seconds, nx=True)
        found = value if is_first else client.get(key) or ""
        return found.decode() if isinstance(found, bytes) else str(found)
    with _guard:
        return _kept.setdefault(name, value)


def is_shared(backend: Any) -> bool:
    """Whether what is kept first is so for all processes."""
    kept_by = ("ResultSession", "TaskModel", "_filename")
    return any(hasattr(backend, name) for name in kept_by) or _client_of(backend) is not None


def give_up(backend: Any, name: str) -> None:
    """Have others claim a name that we have claimed."""
    with _guard:
        _kept.pop(name, None)
    with suppress(NotImplementedError, FileNotFoundError):
        backend.forget(name)


def _client_of(backend: Any) -> Any:
    """Return what can set a value unless there is one, ``None`` if nothing of the kind is known."""
    if hasattr(backend, "cache_backend"):
        return backend.cache_backend
    client = getattr(backend, "client", None)
    is_redis = hasattr(client, "hsetnx")
    return client if is_redis or hasattr(client, "add") else None


def _in_database(backend: Any, name: str, value: str) -> str:
    from sqlalchemy.exc import IntegrityError

    session, kind = backend.ResultSession(), backend.task_cls
    try:
        row = kind(name)
        row.result = value.encode()
        session.add(row)
        session.commit()
    except IntegrityError:
        session.rollback()
        found = session.query(kind).filter(kind.task_id == name).first()
        return bytes(found.result).decode() if found and found.result else ""
    finally:
        session.close()
    return value


def _in_folder(backend: Any, name: str, value: str) -> str:
    place = backend._filename(backend.get_key_for_task(name))
    try:
        with open(place, "x", encoding="ascii") as file:
            file.write(value)
    except FileExistsError:
        with open(place, encoding="ascii", errors="replace") as file:
            return file.read()
    return value


# Guards what is kept within this process.
_guard = threading.Lock()
_kept: dict[str, str] = {}

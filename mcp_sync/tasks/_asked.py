"""What a task has asked so far, so that nothing is answered twice."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Optional

from .._concurrency import fork
from .._protocol.brief import excerpt
from ..errors import InvalidResult
from ..errors._printable import printable


class Asked:
    """The input requests of one task that are being answered, or were. Safe from any thread.

    Args:
        known: The keys of earlier ones, with their digests.
    """

    def __init__(self, known: Optional[Mapping[str, str]] = None) -> None:
        # Guards the table. No I/O, no user code. Re-entrant: a signal handler may use the same handle.
        self._lock = threading.RLock()
        self._digests: dict[str, str] = dict(known or {})
        fork.watch(self)

    def after_fork_in_child(self) -> None:
        """Replace the lock, which a thread of the parent may have held."""
        self._lock = threading.RLock()

    def fresh(self, task_id: str, requests: Mapping[str, Any]) -> dict[str, Any]:
        """Return those requests that nobody has begun to answer.

        Raises:
            InvalidResult: A key that stood for one request stands for another one now, which the
                specification forbids: an answer to it might go to the wrong question.
        """
        with self._lock:
            return self._fresh(task_id, requests)

    def claim(self, task_id: str, requests: Mapping[str, Any]) -> dict[str, Any]:
        """Return the same, for the caller to answer: nobody else will get them."""
        with self._lock:
            found = self._fresh(task_id, requests)
            for key, request in found.items():
                self._digests[key] = _digest(request)
            return found

    def _fresh(self, task_id: str, requests: Mapping[str, Any]) -> dict[str, Any]:
        for key, request in requests.items():
            if key in self._digests and self._digests[key] != _digest(request):
                raise InvalidResult(
                    f"task {printable(task_id)} uses the key {excerpt(repr(key))} for another input request "
                    "than before",
                    result=dict(requests),
                )
        return {key: request for key, request in requests.items() if key not in self._digests}

    def give_back(self, keys: Iterable[str]) -> None:
        """Let others answer requests that were claimed: no answer was sent."""
        with self._lock:
            for key in keys:
                self._digests.pop(key, None)

    def as_dict(self) -> dict[str, str]:
        """Return the digests by their keys."""
        with self._lock:
            return dict(self._digests)


def _digest(request: Any) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()

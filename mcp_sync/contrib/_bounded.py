"""A client whose calls share one budget of time: that of a web request, or of a job."""

from __future__ import annotations

import functools
import time
from typing import Any, Callable, Optional

from ..errors import CallTimeout
from ..options import UNSET

# The methods that take a timeout.
VERBS = frozenset(
    {
        *("call_tool", "start_task", "resume", "stream_tool", "listen", "request", "complete", "send_ping"),
        *("list_tools", "list_resources", "list_resource_templates", "list_prompts"),
        *("tools", "resources", "resource_templates", "prompts", "read_resource", "get_prompt"),
        *("set_logging_level", "subscribe_resource", "unsubscribe_resource"),
    }
)

Around = Callable[[str, Callable[..., Any]], Callable[..., Any]]


class Budget:
    """The seconds that a piece of work has in all, from now on.

    Args:
        seconds: How many, ``None`` for no bound.
    """

    def __init__(self, seconds: Optional[float]) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds
        self._seconds = seconds

    def within(self, timeout: Any) -> Any:
        """Return the timeout of a call that was given one, or `UNSET`.

        Raises:
            CallTimeout: Nothing is left.
        """
        if self._end is None:
            return timeout
        left = self._end - time.monotonic()
        if left <= 0:
            text = f"no time is left: all calls together have {self._seconds:g} s"
            raise CallTimeout(text, timeout=self._seconds, request_sent=False)
        return left if timeout is UNSET or timeout is None else min(timeout, left)


class BoundedClient:
    """A client as it is, but that its calls end with a budget.

    Attributes:
        client: The `Client`, for calls without that bound.
    """

    def __init__(self, client: Any, budget: Budget, around: Optional[Around] = None) -> None:
        self.client = client
        self._budget = budget
        self._around = around

    def __repr__(self) -> str:
        return f"<BoundedClient of {self.client!r}>"

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.client, name)
        if name not in VERBS:
            return found
        bounded = functools.partial(self._call, found)
        return bounded if self._around is None else self._around(name, bounded)

    def _call(self, verb: Callable[..., Any], *args: Any, timeout: Any = UNSET, **options: Any) -> Any:
        if timeout is UNSET:
            timeout = getattr(self.client, "_timeout", UNSET)
        return verb(*args, timeout=self._budget.within(timeout), **options)


def is_modern(client: Any, budget: Budget) -> bool:
    """Whether calls of a client can pause. Opens its connection."""
    deadline = client._deadline(budget.within(client._timeout))
    return not client._engine.connection(deadline, None).era.handshake

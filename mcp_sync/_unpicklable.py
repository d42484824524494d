"""What cannot be handed to another process."""

from __future__ import annotations

from typing import Any

from .errors import UsageError


class Unpicklable:
    """What has connections, threads and locks of the process that made it."""

    def __getstate__(self) -> Any:
        raise UsageError(
            f"{type(self).__name__} cannot be copied or pickled: let each process make one of its own"
        )

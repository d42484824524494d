"""The tasks that a server of 2025-11-25 knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Optional

from .._calls import call_options
from .._protocol.methods import MethodSpec
from ..options import UNSET, TimeoutArgument
from ..types import ListTasksResult
from ._extension import LIST
from ._handle import TaskHandle
from ._record import Record
from ._state import read_state

if TYPE_CHECKING:
    from ..session import ClientSession

_SPEC = MethodSpec(LIST, stateless=False)


def list_tasks(client: ClientSession, *, timeout: TimeoutArgument = UNSET) -> Iterator[TaskHandle]:
    """Iterate over the tasks that a server of 2025-11-25 knows of this client ("Listing Tasks").

    Args:
        client: The client.
        timeout: Seconds for each page; default: that of the client.

    Raises:
        NotSupported: The revision has no such list: later ones have none on purpose.
        MethodNotFound: The server has none.
        InvalidResult: The server's pages never end.
    """

    def fetch(cursor: Optional[str]) -> ListTasksResult:
        return client._page(_SPEC, ListTasksResult, cursor, call_options(), timeout)

    for task in client._all(fetch, "tasks"):
        yield TaskHandle(client, Record(task.task_id), seed=read_state(task.to_wire()))

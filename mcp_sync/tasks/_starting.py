"""Makes handles: of a call that becomes a task, and of a task that is there already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional, Union, cast

from .._calls import call_options
from .._concurrency.deadline import Deadline
from .._engine.call_options import CallOptions
from .._protocol.brief import excerpt
from ..errors import InvalidResult, UsageError
from ._calling import as_tool_result, begin
from ._extension import Tasks
from ._following import seed_is_final
from ._handle import TaskHandle
from ._record import Record, from_json
from ._state import read_state

if TYPE_CHECKING:
    from ..session import ClientSession


def start(
    session: Any,
    params: dict[str, Any],
    ttl: Optional[float],
    options: CallOptions,
    deadline: Deadline,
    on_input: str,
) -> TaskHandle:
    """Call a tool, and return the handle of what became of it."""
    owner, tool = cast("ClientSession", session), params["name"]
    raw, seed = begin(owner, params, ttl, options, deadline)
    if seed is None:
        as_tool_result(raw)
        return TaskHandle(owner, Record("", tool, on_input, {}, raw))
    if seed is raw and owner._engine.plan.extensions.find(Tasks) is None:
        text = "tools/call: the server began a task, and this client has not offered that"
        raise InvalidResult(text, result=raw)
    state = read_state(seed)
    # What began a task of the extension may say that it has ended, and not how.
    is_known = seed is not raw or not state.has_ended or seed_is_final(state)
    return TaskHandle(owner, Record(state.id, tool, on_input), options.headers, state if is_known else None)


def take_up(
    session: Any, task: Union[str, Mapping[str, Any]], headers: Optional[Mapping[str, str]]
) -> TaskHandle:
    """Return the handle of a task that is there already."""
    owner = cast("ClientSession", session)
    call_options(headers=headers)  # Refuses headers that cannot be sent before anybody waits for it.
    record = from_json(task, owner._engine.plan)
    try:
        record.id.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the id of a task cannot be written as UTF-8: {excerpt(ascii(record.id))}"
        ) from error
    return TaskHandle(owner, record, headers)

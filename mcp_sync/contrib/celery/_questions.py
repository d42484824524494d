"""What servers ask while a task calls them, and the answers to it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn, Optional

from celery.exceptions import Ignore

from ...errors import InputRequired, UsageError
from ._claiming import AlreadyAnswered, claim, give_up
from ._runs import INPUT_REQUIRED, RESUMING, carried
from ._servers import servers_of

# The tasks that go on: with a call that was paused, and with a task of a server.
RESUME, UPDATE = "mcp_sync.resume", "mcp_sync.update"


def ask(task: Any, job: Mapping[str, Any]) -> NoReturn:
    """Have a task wait for an answer, and end this run."""
    meta = {**job, "question": secrets.token_hex(16), "then": carried(task.request)}
    task.update_state(state=INPUT_REQUIRED, meta=meta)
    raise Ignore


def question(result: Any) -> Optional[dict[str, Any]]:
    """Return what a task waits for, by the server's keys: see ``InputRequired.requests``.

    Args:
        result: The `AsyncResult` of the task.

    Returns:
        ``None`` if it waits for nothing.
    """
    if result.state != INPUT_REQUIRED:
        return None
    meta = result.info
    if "envelope" in meta:
        key = servers_of(result.app).envelope_key
        return InputRequired.from_json(meta["envelope"], key=key).requests
    from ...types.input_required import parse_input_requests

    return parse_input_requests(meta["requests"])


def answer(result: Any, answers: Mapping[str, Any]) -> None:
    """Answer what a task waits for: a worker goes on, and the result is that of the same task.

    What the server returns then is the result; the rest of the function that made the call is not run. Of
    several answers to one question one counts: with Redis, Memcached, a database or a folder as the result
    backend wherever they come from, with others among those of one process.

    Args:
        result: The `AsyncResult` of the task.
        answers: By the keys of `question`, as for ``client.resume``.

    Raises:
        AlreadyAnswered: Somebody else has answered.
        UsageError: The task waits for nothing, or not for that.
    """
    meta = result.backend.get_task_meta(result.id, cache=False)
    state, asked, app = meta["status"], meta["result"], result.app
    if state == RESUMING:
        raise AlreadyAnswered(f"the task {result.id} goes on with an answer that it has got")
    if state != INPUT_REQUIRED:
        raise UsageError(f"the task {result.id} waits for no answer: its state is {state}")
    wire = {key: each if isinstance(each, Mapping) else each.to_wire() for key, each in answers.items()}
    unknown = sorted(set(wire) - set(asked.get("requests", wire)))
    if unknown:
        raise UsageError(f"the task {result.id} has not asked: {', '.join(map(repr, unknown))}")
    job = {name: value for name, value in asked.items() if name not in ("requests", "question", "then")}
    claimed = f"mcp-sync-{asked['question']}"
    if not claim(result.backend, claimed):
        raise AlreadyAnswered(f"the task {result.id} has got another answer just now")
    try:
        result.backend.store_result(result.id, {**job, "then": asked["then"]}, RESUMING)
        app.tasks[UPDATE if "task" in job else RESUME].apply_async(
            (job, wire), task_id=result.id, **asked["then"]
        )
    except Exception:
        # The broker is down, say. The question is to wait on.
        with suppress(Exception):
            result.backend.store_result(result.id, asked, INPUT_REQUIRED)
            give_up(result.backend, claimed)
        raise

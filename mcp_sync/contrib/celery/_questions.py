"""What servers ask while a task calls them, and the answers to it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn, Optional

from celery.exceptions import Ignore

from ..._input_answers import answer_to_wire
from ...errors import InputRequired, UsageError
from ._claiming import AlreadyAnswered, claim, give_up, is_shared, kept_first
from ._runs import ASKING, INPUT_REQUIRED, RESUMING, carried
from ._servers import servers_of

# The tasks that go on: with a call that was paused, and with a task of a server.
RESUME, UPDATE = "mcp_sync.resume", "mcp_sync.update"
_GIVEN_UP = 60.0  # seconds after which an answer that nobody goes on with makes room for another one
_now = time.time


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
    return _requests(result.app, result.info) if result.state == INPUT_REQUIRED else None


def _requests(app: Any, meta: Mapping[str, Any]) -> Optional[dict[str, Any]]:
    if "envelope" in meta:
        return InputRequired.from_json(meta["envelope"], key=servers_of(app).envelope_key).requests
    from ...types.input_required import parse_input_requests

    return parse_input_requests(meta["requests"])


def answer(result: Any, answers: Mapping[str, Any]) -> None:
    """Answer what a task waits for: a worker goes on, and the result is that of the same task.

    What the server returns then is the result; the rest of the function that made the call is not run. Of
    several answers to one question one counts: with Redis, Memcached, a database or a folder as the result
    backend wherever they come from, with others among those of one process. Who gives it may be killed before
    it is sent: from a minute after another answer was refused, the next one counts, unless a worker has taken
    up the first by then.

    Args:
        result: The `AsyncResult` of the task.
        answers: By the keys of `question`, as for ``client.resume``.

    Raises:
        AlreadyAnswered: Somebody else has answered.
        AnswerInvalid: An answer does not match its form. The question waits on.
        UsageError: The task waits for nothing, not for that, or for more. The question waits on.
    """
    meta = result.backend.get_task_meta(result.id, cache=False)
    state, asked, app = meta["status"], meta["result"], result.app
    if state not in ASKING:
        raise UsageError(f"the task {result.id} waits for no answer: its state is {state}")
    name, owner = f"mcp-sync-{asked['question']}", secrets.token_hex(16)
    if state == RESUMING and not _is_given_up(result.backend, name):
        raise AlreadyAnswered(f"the task {result.id} goes on with an answer that it has got")
    wire = _checked(result, asked, answers)
    job = {name: value for name, value in asked.items() if name not in ("requests", "question", "then")}
    is_first = state != RESUMING and claim(result.backend, name)
    if not is_first and not (
        _is_given_up(result.backend, name) and claim(result.backend, _last(name), owner)
    ):
        raise AlreadyAnswered(f"the task {result.id} has got another answer just now")
    try:
        result.backend.store_result(result.id, asked, RESUMING)
        app.tasks[UPDATE if "task" in job else RESUME].apply_async(
            (job, wire, [name, owner]), task_id=result.id, **asked["then"]
        )
    except Exception:
        # The broker is down, say. The question is to wait on, unless another answer counts instead by now.
        with suppress(Exception):
            if not is_first or claim(result.backend, _last(name)):
                result.backend.store_result(result.id, asked, INPUT_REQUIRED)
                for each in [_last(name), *([_refused(name), name] if is_first else [])]:
                    give_up(result.backend, each)
        raise


def _last(name: str) -> str:
    """Return what whoever goes on with an answer claims for it, or whoever replaces that: the last word."""
    return f"{name}-again"


def _refused(name: str) -> str:
    """Return under what is kept when an answer was refused first."""
    return f"{name}-refused"


def _is_given_up(backend: Any, name: str) -> bool:
    """Whether an answer was refused a while ago, and nobody has gone on since with the one that counts."""
    if not is_shared(backend):
        return False
    now = _now()
    # Not as a result: that of a folder may be read while it is written.
    first = kept_first(backend, _refused(name), repr(now))
    return now - float(first or now) > _GIVEN_UP


def see_that_it_counts(task: Any, claimed: Optional[Sequence[str]]) -> None:
    """Have a worker go on with an answer only if no other one counts instead by now, and none does later.

    Args:
        task: What the worker runs. It may have been begun before.
        claimed: What whoever answered has claimed, and for whom; ``None`` from an older version.

    Raises:
        Ignore: Another one counts.
    """
    if claimed is not None and not claim(task.backend, _last(claimed[0]), claimed[1]):
        raise Ignore


def _checked(result: Any, meta: Mapping[str, Any], answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return answers as they are sent: what is wrong with them, a worker would find out too late."""
    requests = _requests(result.app, meta)
    known = set(meta["requests"] if requests is None else requests)
    unknown, missing = sorted(set(answers) - known), sorted(known - set(answers))
    if unknown:
        raise UsageError(f"the task {result.id} has not asked: {', '.join(map(repr, unknown))}")
    if missing and "envelope" in meta:
        raise UsageError(f"the task {result.id} asks for more: {', '.join(map(repr, missing))}")
    if requests is None:
        return {key: each if isinstance(each, Mapping) else each.to_wire() for key, each in answers.items()}
    return {key: answer_to_wire(key, requests[key], each) for key, each in answers.items()}

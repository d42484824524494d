"""Calls that wait for their user: kept in a row that any worker can go on with."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Optional
from urllib.parse import parse_qsl
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db.models import F, Q
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from ... import types
from ...errors import (
    AnswerInvalid,
    AuthError,
    EnvelopeRejected,
    InputRequired,
    MCPError,
    RemoteError,
    UsageError,
)
from . import conf, crypto, signals
from .authorization import ANONYMOUS, principal_of
from .models import PendingInput, plain
from .servers import mcp

logger = logging.getLogger("mcp_sync.django")

PARAMETER = "mcp_input"  # of the URL that a user is sent back to
_MOST_ANSWERS = 8  # that a page can have
_ASKED = "mcp_sync_asked"  # in the session of somebody who is not logged in: the names of their rows
_MOST_ASKED = 20
# How long after its deadline a resume that nobody has ended counts as given up, in seconds.
_GIVEN_UP = 30.0


def keep(
    waiting: InputRequired, alias: str, user: Any, return_to: str = "", asked_at: str = ""
) -> PendingInput:
    """Keep a call that waits for input.

    Args:
        waiting: What the call raised.
        alias: The server.
        user: Whose call it is; nobody else can go on with it.
        return_to: A path of this site, where the user goes on afterwards.
        asked_at: The page that made the call, which `answered` gives the result to; default: ``return_to``.
    """
    row = PendingInput(
        alias=alias,
        user=user if getattr(user, "is_authenticated", False) else None,
        principal=principal_of(user),
        method=_method(waiting),
        return_to=return_to,
        asked_at=asked_at or return_to,
        expires=timezone.now() + timedelta(seconds=conf.get("INPUT_LIFE")),
    )
    row.envelope = _sealed(waiting, row)
    row.save()
    signals.send(signals.input_required, PendingInput, pending=row)
    return row


def _sealed(waiting: InputRequired, row: PendingInput) -> str:
    sealer = crypto.sealer()
    return sealer.seal(waiting.to_json(key=sealer.envelope_key), f"input {row.id}")


def _method(waiting: InputRequired) -> str:
    return plain(waiting.params.get("name") or waiting.params.get("uri") or "call", 100)


@sensitive_variables()
def questions(row: PendingInput) -> InputRequired:
    """Return what is asked.

    Raises:
        EnvelopeRejected: It cannot be read: the keys were replaced, or somebody has changed it.
    """
    envelope = crypto.sealer().unseal(row.envelope, f"input {row.id}")
    if envelope is None:
        raise EnvelopeRejected("the paused call cannot be read any more")
    return InputRequired.from_json(envelope, key=crypto.sealer().envelope_key)


@sensitive_variables()
def go_on(row: PendingInput, answers: Mapping[str, Any], user: Any) -> None:
    """Go on with a call, once, and keep what comes of it in the row.

    Raises:
        UsageError: Somebody else is going on with it, or has; it is too old; or an answer is none.
        AuthError: The user has to connect again; the call still waits.
        MCPError: It failed before the server could act; the call still waits.
    """
    waiting = questions(row)
    if not _claim(row):
        raise UsageError("this was answered already, or is too old")
    try:
        view = mcp[row.alias].for_user(user)
        result = view.resume(waiting, answers)
    except InputRequired as again:
        row.envelope = crypto.sealer().seal(
            again.to_json(key=crypto.sealer().envelope_key), f"input {row.id}"
        )
        _end(row, PendingInput.Status.WAITING, "")
    except EnvelopeRejected:
        _end(row, PendingInput.Status.FAILED, "The question is out of date.")
    except (AuthError, AnswerInvalid, UsageError):
        _end(row, PendingInput.Status.WAITING, "")
        raise
    except MCPError as error:
        if getattr(error, "request_sent", None) is False:
            _end(row, PendingInput.Status.WAITING, "")
            raise
        logger.warning("The call %s of %s failed after its question: %s", row.method, row.alias, error)
        # Where the server is, and what its process wrote before it ended, is not for users.
        said = error.message if isinstance(error, RemoteError) else ""
        _end(row, PendingInput.Status.FAILED, said or "This was answered, and the call has failed.")
    else:
        row.result = crypto.sealer().seal([type(result).__name__, result.to_wire()], f"result {row.id}")
        _end(row, PendingInput.Status.DONE, "")


def can_answer(row: PendingInput) -> bool:
    """Whether the call waits for its answer still."""
    return not row.is_over and PendingInput.objects.filter(_free(), pk=row.pk).exists()


def _free() -> Q:
    given_up = timezone.now() - timedelta(seconds=(conf.get("DEFAULT_DEADLINE") or 1800.0) + _GIVEN_UP)
    return Q(status=PendingInput.Status.WAITING) | Q(
        status=PendingInput.Status.RESUMING, updated__lt=given_up
    )


def _claim(row: PendingInput) -> bool:
    """Take the call, unless somebody else was faster."""
    rows = PendingInput.objects.filter(_free(), pk=row.pk, version=row.version, expires__gt=timezone.now())
    status = PendingInput.Status.RESUMING
    if not rows.update(status=status, version=F("version") + 1, updated=timezone.now()):
        return False
    row.status, row.version = status, row.version + 1
    return True


def _end(row: PendingInput, status: str, message: str) -> None:
    row.status, row.message, row.updated = status, plain(message), timezone.now()
    names = ("status", "message", "envelope", "result", "updated")
    # Not if somebody else has taken it up meanwhile, or removed it.
    rows = PendingInput.objects.filter(pk=row.pk, version=row.version)
    if rows.update(version=F("version") + 1, **{name: getattr(row, name) for name in names}):
        row.version += 1
    else:
        logger.warning("What came of the call %s comes too late: it was taken up anew, or is gone", row.pk)


@sensitive_variables()
def result_of(row: PendingInput) -> Any:
    """Return the result of a call that was answered, ``None`` if there is none."""
    found = crypto.sealer().unseal(row.result, f"result {row.id}")
    if found is None:
        return None
    kind = getattr(types, found[0], types.CallToolResult)
    return kind.model_validate(found[1])


def find(pk: Any, request: Any) -> Optional[PendingInput]:
    """Return a row of the user of a request, ``None`` if there is none or it is somebody else's."""
    try:
        row: Optional[PendingInput] = PendingInput.objects.filter(pk=UUID(str(pk))).first()
    except (ValueError, ValidationError):
        return None
    if row is None or row.principal != principal_of(request.user):
        return None
    if row.principal == ANONYMOUS and hasattr(request, "session"):
        return row if str(row.pk) in request.session.get(_ASKED, ()) else None
    return row


def note_in_session(row: PendingInput, request: Any) -> None:
    """Have the session of somebody who is not logged in tell them from others."""
    if row.principal == ANONYMOUS and hasattr(request, "session"):
        request.session[_ASKED] = [*request.session.get(_ASKED, ()), str(row.pk)][-_MOST_ASKED:]


def answered(
    request: Any,
    *,
    alias: Optional[str] = None,
    tool: Optional[str] = None,
    arguments: Optional[Mapping[str, Any]] = None,
) -> Any:
    """Return the result of the call whose question the user has answered, in the view it goes back to.

    ::

        result = answered(request) or mcp["desk"].for_user(request.user).call_tool("book", on_input="raise")

    Only the page that made the call gets its result: the same path with the same query. A view that makes
    several calls, or for which what was posted matters, says which call it means.

    Args:
        request: The request.
        alias: The server that was called, if only that one counts.
        tool: Likewise the tool, prompt or URI.
        arguments: Likewise the arguments.

    Returns:
        ``None`` if the user does not come from a question, or it is not theirs, or another call's.
    """
    page = _page(request.get_full_path())
    # A page that makes several calls has an answer for each of them; the latest comes last.
    for pk in request.GET.getlist(PARAMETER)[: -_MOST_ANSWERS - 1 : -1]:
        row = find(pk, request)
        if row is None or row.is_over or _page(row.asked_at) != page:
            continue
        if alias in (None, row.alias) and _is_call(row, tool, arguments):
            return result_of(row)
    return None


def _page(place: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the path and the query of a page, without what `answered` looks for."""
    path, _, query = place.partition("?")
    return path, [each for each in parse_qsl(query, keep_blank_values=True) if each[0] != PARAMETER]


def _is_call(row: PendingInput, tool: Optional[str], arguments: Optional[Mapping[str, Any]]) -> bool:
    if tool is None and arguments is None:
        return True
    try:
        params = questions(row).params
    except EnvelopeRejected:
        return False
    is_tool = tool is None or tool in (params.get("name"), params.get("uri"))
    return is_tool and (arguments is None or dict(arguments) == (params.get("arguments") or {}))

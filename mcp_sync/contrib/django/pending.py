"""Calls that wait for their user: kept in a row that any worker can go on with."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Optional
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db.models import F, Q
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from ... import types
from ...errors import AnswerInvalid, AuthError, EnvelopeRejected, InputRequired, MCPError, UsageError
from . import conf, crypto, signals
from .models import PendingInput
from .servers import mcp, principal_of

logger = logging.getLogger("mcp_sync.django")

PARAMETER = "mcp_input"  # of the URL that a user is sent back to
# How long after its deadline a resume that nobody has ended counts as given up, in seconds.
_GIVEN_UP = 30.0


def keep(waiting: InputRequired, alias: str, user: Any, return_to: str = "") -> PendingInput:
    """Keep a call that waits for input.

    Args:
        waiting: What the call raised.
        alias: The server.
        user: Whose call it is; nobody else can go on with it.
        return_to: A path of this site, where the user goes on afterwards.
    """
    row = PendingInput(
        alias=alias,
        user=user if getattr(user, "is_authenticated", False) else None,
        principal=principal_of(user),
        method=_method(waiting),
        return_to=return_to,
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
    return str(waiting.params.get("name") or waiting.params.get("uri") or "call")[:100]


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
        _end(row, PendingInput.Status.FAILED, str(error))
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
    row.status, row.message = status, message
    row.updated = timezone.now()
    row.version += 1
    row.save(update_fields=["status", "message", "envelope", "result", "updated", "version"])


@sensitive_variables()
def result_of(row: PendingInput) -> Any:
    """Return the result of a call that was answered, ``None`` if there is none."""
    found = crypto.sealer().unseal(row.result, f"result {row.id}")
    if found is None:
        return None
    kind = getattr(types, found[0], types.CallToolResult)
    return kind.model_validate(found[1])


def find(pk: Any, user: Any) -> Optional[PendingInput]:
    """Return a row of a user, ``None`` if there is none or it is somebody else's."""
    try:
        row = PendingInput.objects.filter(pk=UUID(str(pk))).first()
    except (ValueError, ValidationError):
        return None
    return row if row is not None and row.principal == principal_of(user) else None


def answered(request: Any) -> Any:
    """Return the result of the call whose question the user has answered, in the view it goes back to.

    ::

        result = answered(request) or mcp["desk"].for_user(request.user).call_tool("book", on_input="raise")

    Returns:
        ``None`` if the user does not come from a question, or it is not theirs.
    """
    pk = request.GET.get(PARAMETER)
    row = find(pk, request.user) if pk else None
    return None if row is None else result_of(row)

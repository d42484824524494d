"""A login in two steps, as the application holds it: what it is given, and what it brings back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from ..errors import AuthError, UsageError
from ._interaction import query_of
from ._reading import read_record
from ._records import Pending


@dataclass(frozen=True)
class Flow:
    """An authorization that has begun, and waits for the user.

    Attributes:
        url: Where to send the user.
        state: What their answer will bring back; the store keeps the rest under it, for an hour.
        pending: All that `OAuth.finish` needs, JSON-safe. The store has it too, so that it need not be kept
            elsewhere; it holds secrets, and must not get into the hands of the user (a cookie, say).
    """

    url: str = field(repr=False)
    state: str = field(repr=False)
    pending: dict[str, Any] = field(repr=False)


def read_pending(pending: Union[Pending, Mapping[str, Any]]) -> Pending:
    """Return what an application has kept of a login.

    Raises:
        UsageError: It is nothing of that kind.
        AuthError: It is damaged.
    """
    if isinstance(pending, Pending):
        return pending
    if not isinstance(pending, Mapping):
        raise UsageError(f"pending must be what Flow.pending was, a mapping, not {type(pending).__name__}")
    try:
        return read_record(Pending, pending)
    except TypeError as error:
        raise AuthError(f"the pending login is damaged: {error}") from None


def params_of(callback: Union[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the parameters of a callback, whatever it is given as.

    Raises:
        UsageError: It is nothing of that kind.
        AuthError: They are no answer.
    """
    if isinstance(callback, str):
        params = query_of(callback)
        if params is None:
            raise AuthError("a parameter of the answer comes twice")
        return params
    if not isinstance(callback, Mapping):
        raise UsageError(
            "the answer must be the URL of the callback, its query, or its parameters as a mapping, not "
            f"{type(callback).__name__}"
        )
    # Some frameworks have a list of values for each name.
    values = {
        name: value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value
        for name, value in callback.items()
    }
    if not all(isinstance(value, str) for value in values.values()):
        raise AuthError("a parameter of the answer comes twice, or is no text")
    return values

"""How a kept record is read: whoever wrote it, what comes out has the types that it promises."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Callable, TypeVar, Union, get_args, get_origin, get_type_hints

from ..errors import AuthError
from ._answers import is_text
from ._dpop import is_private_key
from ._records import ClientRecord, Grant, Record, ServerRecord
from ._rules import endpoint

R = TypeVar("R", bound=Record)

# The types of the fields of each kind of record, as far as they have been needed.
_known: dict[type[Record], dict[str, Any]] = {}


def read_record(kind: type[R], value: Mapping[str, Any]) -> R:
    """Make a record of what a store held. What is not known is left out, and null is the same as nothing.

    Raises:
        TypeError: Something is missing or of another type. It names what, and shows no value.
    """
    needed = {each.name: each.default is MISSING and each.default_factory is MISSING for each in fields(kind)}
    values = {name: value.get(name) for name in needed if needed[name] or value.get(name) is not None}
    hints = _known.get(kind) or _known.setdefault(kind, get_type_hints(kind))
    wrong = [name for name, item in values.items() if not _fits(item, hints[name])]
    if wrong:
        raise TypeError(f"missing or of a wrong type: {', '.join(wrong)}")
    record = kind.from_json(values)
    check = _checks.get(kind)
    if check is not None:
        check(record)
    return record


def _check_grant(grant: Any) -> None:
    """Refuse a grant of which a part cannot be sent."""
    texts = (grant.client_id, grant.access_token, grant.refresh_token or "")
    if not all(is_text(text) for text in texts) or not _SENDABLE.fullmatch(grant.access_token):
        raise TypeError("a part of it cannot be sent")
    if grant.token_type not in ("Bearer", "DPoP") or (grant.token_type == "DPoP") > bool(grant.dpop_key):
        raise TypeError("its token is of no known type")
    if grant.dpop_key is not None and not is_private_key(grant.dpop_key):
        raise TypeError("its key is none")


def _check_client(client: Any) -> None:
    """Refuse a client whose name cannot be sent."""
    if not is_text(client.client_id) or not is_text(client.client_secret or ""):
        raise TypeError("a part of it cannot be sent")


def _check_server(server: Any) -> None:
    """Refuse a server to which nothing may be sent."""
    try:
        for name in (
            "authorization_endpoint",
            "token_endpoint",
            "registration_endpoint",
            "revocation_endpoint",
        ):
            endpoint(server.metadata, name)
    except AuthError as error:
        raise TypeError(str(error)) from None


_checks: dict[type[Record], Callable[[Any], None]] = {
    Grant: _check_grant,
    ClientRecord: _check_client,
    ServerRecord: _check_server,
}
_SENDABLE = re.compile("[!-~]+")


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is Union:
        return any(_fits(value, each) for each in get_args(hint))
    if origin is tuple:
        return isinstance(value, (list, tuple)) and all(_fits(each, get_args(hint)[0]) for each in value)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, origin or hint)

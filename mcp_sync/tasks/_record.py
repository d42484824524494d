"""What is kept of a task, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from .._engine.credentials import bound_to
from .._engine.plan import Plan
from .._envelope import server_key
from ..errors import InvalidHandle, UsageError

KIND = "mcp_sync.task"
VERSION = 1

_MEMBERS: dict[str, tuple[type, ...]] = {
    "id": (str,),
    "tool": (str,),
    "server": (dict,),
    "principal": (str, type(None)),
    "credentials": (str, type(None)),
    "on_input": (str,),
    "asked": (dict,),
    "result": (dict, type(None)),
}


@dataclass(frozen=True)
class Record:
    """What a handle knows that another process has to know, too. No credentials, no headers.

    Attributes:
        id: The id of the task; empty where the server answered the call at once.
        tool: The tool, empty if it is not known.
        on_input: As in ``start_task``.
        asked: The keys of input requests that were answered, with their digests.
        result: The result of a call that was answered at once.
    """

    id: str
    tool: str = ""
    on_input: str = "answer"
    asked: Mapping[str, str] = field(default_factory=dict)
    result: Optional[dict[str, Any]] = None


def to_json(record: Record, plan: Plan) -> dict[str, Any]:
    """Return a record as a dict of plain JSON values."""
    identity = plan.target.identity()
    return {
        "kind": KIND,
        "version": VERSION,
        "id": record.id,
        "tool": record.tool,
        "server": {"key": server_key(plan.target), "name": _name(identity)},
        "principal": plan.principal,
        "credentials": bound_to(plan),
        "on_input": record.on_input,
        "asked": dict(record.asked),
        "result": record.result,
    }


def from_json(data: Union[str, Mapping[str, Any]], plan: Plan) -> Record:
    """Return the record of a task.

    Args:
        data: What `to_json` returned, that as JSON text, or the id of a task alone.
        plan: That of the client.

    Raises:
        InvalidHandle: It is none of these, or not for this client.
        UsageError: It is an empty id.
    """
    kept = _read(data)
    if kept is None:
        if not data:
            raise UsageError("the id of a task is empty")
        return Record(str(data))
    if kept.get("kind") != KIND:
        raise _malformed("it has not the form of one")
    if kept.get("version") != VERSION:
        text = f"it has version {kept.get('version')!r}, this version of mcp_sync reads {VERSION}"
        raise InvalidHandle(f"the task cannot be taken up: {text}", reason="version")
    for name, kinds in _MEMBERS.items():
        if not isinstance(kept.get(name), kinds):
            raise _malformed(f"its {name} has another form")
    _check(kept, plan)
    return Record(kept["id"], kept["tool"], kept["on_input"], kept["asked"], kept["result"])


def _read(data: Any) -> Optional[dict[str, Any]]:
    if isinstance(data, str):
        if not data.lstrip().startswith("{"):
            return None
        try:
            data = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise _malformed("it is no JSON") from error
    if not isinstance(data, Mapping):
        raise _malformed(f"it is a {type(data).__name__}")
    return dict(data)


def _check(kept: Mapping[str, Any], plan: Plan) -> None:
    identity = plan.target.identity()
    if kept["server"].get("key") != server_key(plan.target):
        made, here = kept["server"].get("name"), _name(identity)
        text = f"the task cannot be taken up: it is one of {made}, and this client is one of {here}"
        if made == here:
            text = f"the task cannot be taken up: it is one of another server than this client's at {made}"
        raise InvalidHandle(text, reason="server")
    if (kept["principal"], kept["credentials"]) != (plan.principal, bound_to(plan)):
        text = "the task cannot be taken up: it was begun for another principal (client.for_principal)"
        raise InvalidHandle(text, reason="principal")
    digests = [*kept["asked"], *kept["asked"].values()]
    if kept["on_input"] not in ("answer", "raise") or not all(isinstance(each, str) for each in digests):
        raise _malformed("its on_input or asked has another form")
    if not kept["id"] and kept["result"] is None:
        raise _malformed("it has neither an id nor a result")


def _name(identity: Any) -> str:
    """Return what a server is called: its origin, or how it is reached. More of it may be a secret."""
    parts = identity if isinstance(identity, tuple) else (identity,)
    origin = parts[1] if len(parts) > 1 else None
    if isinstance(origin, tuple) and len(origin) == 3:
        return "{}://{}:{}".format(*origin)
    return str(parts[0])


def _malformed(what: str) -> InvalidHandle:
    wanted = "give what TaskHandle.to_json() returned, or the id of a task"
    return InvalidHandle(f"this is no handle of a task: {what}; {wanted}")

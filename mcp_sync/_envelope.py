"""What is kept of a call that waits for input, as JSON, and how it is told whether that was changed.

An envelope is a dict of plain JSON values. Sealed, it has one more member: a keyed digest (HMAC-SHA256), or a
plain one (SHA-256), which anybody can make anew and which so shows accidents only.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, Optional, Union
from urllib.parse import urlsplit

from .errors import EnvelopeRejected, UsageError

KIND = "mcp_sync.input_required"
VERSION = 1
Key = Union[str, bytes, None]

_KEYED, _PLAIN = "hmac-sha256", "sha256"
# Whatever else the key is used for, it never signs what begins like this.
_PURPOSE = b"mcp_sync envelope\n"
_MEMBERS: dict[str, tuple[type, ...]] = {
    "id": (str,),
    "created_at": (int,),
    "server": (dict,),
    "revision": (str,),
    "method": (str,),
    "params": (dict,),
    "meta": (dict,),
    "requests": (dict,),
    "state": (str, type(None)),
    "principal": (str, type(None)),
    "credentials": (str, type(None)),
}


def seal(envelope: Mapping[str, Any], key: Key) -> dict[str, Any]:
    """Return an envelope with its seal.

    Raises:
        UsageError: The key is none.
    """
    plain = {name: value for name, value in envelope.items() if name != "seal"}
    return {**plain, "seal": {"by": _KEYED if key is not None else _PLAIN, "value": _digest(plain, key)}}


def unseal(data: Any, key: Key) -> dict[str, Any]:
    """Return the envelope that was sealed with the same key, without its seal.

    Args:
        data: What `seal` returned, or that as JSON text.
        key: The key; ``None`` where it was sealed without one.

    Raises:
        EnvelopeRejected: It is no envelope, of another version, or not as it was sealed.
        UsageError: The key is none.
    """
    envelope = _read(data)
    found = envelope.pop("seal", None)
    if envelope.get("kind") != KIND or not isinstance(found, dict):
        raise _malformed("it has not the form of one")
    if envelope.get("version") != VERSION:
        text = f"it has version {envelope.get('version')!r}, this version of mcp_sync reads {VERSION}"
        raise EnvelopeRejected(f"the envelope cannot be resumed: {text}; call again", reason="version")
    _check_seal(envelope, found, key)
    for name, kinds in _MEMBERS.items():
        value = envelope.get(name)
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise _malformed(f"its {name} has another form")
    return envelope


def _read(data: Any) -> dict[str, Any]:
    if isinstance(data, (str, bytes, bytearray)):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise _malformed("it is no JSON") from error
    if not isinstance(data, Mapping):
        raise _malformed(f"it is a {type(data).__name__}")
    return dict(data)


def _check_seal(envelope: dict[str, Any], found: dict[str, Any], key: Key) -> None:
    by = found.get("by")
    if by != (_KEYED if key is not None else _PLAIN):
        how = "without a key" if by == _PLAIN else "with a key"
        text = f"it was sealed {how}: give key= to both to_json() and resume(), or to none"
        raise EnvelopeRejected(f"the envelope cannot be resumed: {text}", reason="tampered")
    try:
        wanted = _digest(envelope, key)
    except (TypeError, ValueError, RecursionError) as error:
        raise _malformed("it holds what JSON cannot") from error
    value = str(found.get("value")).encode("utf-8", "replace")
    if not hmac.compare_digest(value, wanted.encode()):
        text = "it is not as it was made, or the key is another one; throw it away and call again"
        raise EnvelopeRejected(f"the envelope cannot be resumed: {text}", reason="tampered")


def _malformed(what: str) -> EnvelopeRejected:
    text = f"this is no envelope of mcp_sync: {what}; give what InputRequired.to_json() returned"
    return EnvelopeRejected(text, reason="malformed")


def _digest(envelope: Mapping[str, Any], key: Key) -> str:
    text = json.dumps(_same_numbers(envelope), sort_keys=True, separators=(",", ":"), allow_nan=False)
    body = text.encode()
    if key is None:
        return hashlib.sha256(_PURPOSE + body).hexdigest()
    secret = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key
    if not isinstance(secret, bytes) or not secret:
        raise UsageError("key must be a secret of your application, as str or bytes, and not empty")
    return hmac.new(secret, _PURPOSE + body, hashlib.sha256).hexdigest()


def _same_numbers(value: Any) -> Any:
    """Let 1.0 and 1 look alike: databases that keep JSON write the one as the other."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _same_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_same_numbers(item) for item in value]
    return value


def server_key(target: Any) -> str:
    """Return what stands for a server in an envelope: a digest, since a path or a command may hold secrets.

    The query of a URL is a part of it: it may say whose server this is. Servers in this process are all the
    same one: what tells them apart means nothing elsewhere.
    """
    identity = target.identity()
    kind = identity[0] if isinstance(identity, tuple) and identity else None
    if kind == "memory":
        identity = kind
    elif kind == "wsgi":
        identity = (kind, *identity[2:])
    query = urlsplit(getattr(target, "url", None) or "").query
    text = f"{identity!r}\n{query}" if query else repr(identity)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def expired(envelope: Mapping[str, Any], max_age: Optional[float], now: float) -> bool:
    """Whether an envelope is older than ``max_age`` seconds; ``None``: none is."""
    return max_age is not None and now - envelope["created_at"] > max_age

"""JSON-RPC messages as bytes.

Strict in what it writes, lenient in what it reads: one odd byte of a peer must not cost a whole
connection, and a value that JSON cannot carry is named before anything is sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Optional, Union

from pydantic import BaseModel
from pydantic_core import from_json

from ..errors import InvalidMessage, UsageError
from .echoed import restore

EXCERPT_LENGTH = 200
# The limits of pydantic-core, which cannot be set.
TOO_DEEP = "nested deeper than 200 levels"
TOO_LONG = "JSON with an integer of more than 4300 digits"
_FIXED_LIMITS = {"recursion limit": TOO_DEEP, "number out of range": TOO_LONG}
_PATH_LENGTH = 120
_DEPTH_SEARCHED = 100_000


# --- writing ---------------------------------------------------------------------------------------------


def encode(message: dict[str, Any]) -> bytes:
    """Write a message as compact UTF-8 JSON.

    The bytes never hold a line feed, nor a line end of Unicode (U+0085, U+2028, U+2029), at which some
    peers cut lines. pydantic models and objects with a ``to_wire()`` method are dumped, whatever their
    depth. Keys may be what ``json`` turns into strings: ``str``, ``int``, ``float``, ``bool``, ``None``.

    Raises:
        UsageError: A value that JSON cannot carry: NaN, an infinity, a lone surrogate, an object of
            another type, a circular reference, nesting too deep. It names the path to that value.
    """
    try:
        text = _written(message)
        if not text.isascii():
            text = _escape_line_ends(text)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(_encoding_fault(message, error)) from error


def meta_ending(meta: Optional[Mapping[str, Any]] = None) -> bytes:
    """Return how a message ends whose ``params``, its last member, end with this ``_meta``, or have none.

    Raises:
        UsageError: As `encode`.
    """
    return b"}}" if meta is None else b',"_meta":' + encode(dict(meta)) + b"}}"


def encode_request(request_id: int, method: str, params: dict[str, Any], ending: bytes) -> bytes:
    """Write a request as `encode` would, whose ``params`` are not empty and have no ``_meta`` yet.

    Args:
        request_id: Its id.
        method: Its method.
        params: Its params.
        ending: As `meta_ending` wrote it.

    Raises:
        UsageError: As `encode`.
    """
    try:
        text = f'{{"jsonrpc":"2.0","id":{request_id},"method":{_quoted(method)},"params":{_written(params)}'
        if not text.isascii():
            text = _escape_line_ends(text)
        return text.encode()[:-1] + ending
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(_encoding_fault({"method": method, "params": params}, error)) from error


def _escape_line_ends(text: str) -> str:
    # Outside of strings JSON is ASCII, so that these can only stand within one.
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085")


def to_json_value(value: Any) -> Any:
    """Dump a pydantic model or an object with ``to_wire()``.

    Raises:
        TypeError: It is neither.
    """
    if not isinstance(value, type):
        to_wire = getattr(value, "to_wire", None)
        if callable(to_wire):
            return to_wire()
        if isinstance(value, BaseModel):
            return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"{type(value).__name__} is not JSON")


_quoted: Callable[[str], str] = json.encoder.encode_basestring
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=to_json_value)
_make_encoder: Any = getattr(json.encoder, "c_make_encoder", None)


def _written_in_c(value: Any) -> str:
    # What `_ENCODER` does as well, at the end: getting there takes it as long as a small message. A new one
    # each time, since it notes what it is within: what holds itself, written over and over until it is too
    # deep, would take minutes and gigabytes, and overrun the stack of whoever allows more depth than it has.
    return "".join(_make_encoder({}, to_json_value, _quoted, None, ":", ",", False, False, False)(value, 0))


_written: Callable[[Any], str] = _ENCODER.encode if _make_encoder is None else _written_in_c  # None: PyPy


def _encoding_fault(message: Any, error: Exception) -> str:
    """Find what `encode` failed at. Keeps its own stack, since depth may be the fault."""
    path: list[str] = []
    deepest: list[str] = []
    depth_reached = 0
    ancestors: set[int] = set()
    stack: list[tuple[int, Iterator[tuple[str, Any]]]] = [(0, iter([("", message)]))]
    while stack and depth_reached < _DEPTH_SEARCHED:
        owner, children = stack[-1]
        item = next(children, None)
        if item is None:
            stack.pop()
            ancestors.discard(owner)
            del path[-1:]
            continue
        path.append(item[0])
        value = item[1]
        fault, grandchildren = _inspect(value)
        if id(value) in ancestors:
            fault = "the value contains itself"
        if fault is not None:
            return f"{_shown_path(path)}: {fault}"
        if grandchildren is None:
            path.pop()
            continue
        if len(path) > depth_reached:
            depth_reached, deepest = len(path), path[:_PATH_LENGTH]
        ancestors.add(id(value))
        stack.append((id(value), grandchildren))
    if isinstance(error, RecursionError):
        return f"{_shown_path(deepest)}: nested too deeply for JSON"
    return f"the message cannot be written as JSON: {error}"


def _inspect(value: Any) -> tuple[Optional[str], Optional[Iterator[tuple[str, Any]]]]:
    """Give the fault of a value itself, and its children if it is a container."""
    if isinstance(value, dict):
        fault = next((fault for fault in map(_key_fault, value) if fault), None)
        return fault, ((_step(key), child) for key, child in value.items())
    if isinstance(value, (list, tuple)):
        return None, ((f"[{index}]", child) for index, child in enumerate(value))
    if value is None or isinstance(value, (str, int, float)):
        return _scalar_fault(value), None
    try:
        dumped = to_json_value(value)
    except Exception as error:
        reason = f"{type(value).__name__} is not JSON"
        return reason if str(error) == reason else f"{reason}: {error}", None
    return None, iter([("", dumped)])


def _key_fault(key: Any) -> Optional[str]:
    if key is not None and not isinstance(key, (str, int, float)):
        return f"a key is a {type(key).__name__}, which is not JSON: {excerpt(repr(key))}"
    fault = _scalar_fault(key)
    return fault and f"key {excerpt(repr(key))}: {fault}"


def _scalar_fault(value: Any) -> Optional[str]:
    try:
        _written(value).encode()
    except UnicodeEncodeError as error:
        return f"lone surrogate U+{ord(error.object[error.start]):04X} cannot be written as UTF-8"
    except ValueError as error:
        if isinstance(value, float):
            return f"{value!r} is not JSON"
        return str(error)
    return None


def _step(key: Any) -> str:
    if isinstance(key, str) and key.isidentifier():
        return f".{key}"
    return f"[{key!r}]"


def _shown_path(path: list[str]) -> str:
    shown = ""
    for step in path:
        if len(shown) + len(step) > _PATH_LENGTH:
            shown += "..."
            break
        shown += step
    return shown.lstrip(".") or "the message"


# --- reading ---------------------------------------------------------------------------------------------

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
# Pairs and all other escapes are consumed as units, so that a backslash which is itself escaped
# (`\\ud800` is a backslash and five letters) cannot be mistaken for the start of an escape.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


_VERSION = r'"jsonrpc"\s*:\s*"2\.0"'
_ID = r'"id"\s*:\s*(\d{1,18})'
_OBJECT_BEGINS = re.compile(r'\s*\{\s*"')
_ANSWER_BEGINS = re.compile(
    rf'\s*\{{\s*(?:{_VERSION}\s*,\s*)?{_ID}\s*,\s*(?:{_VERSION}\s*,\s*)?"(?:result|error)"'
)
_ANSWER_ENDS = re.compile(rf"[\]}}]\s*,\s*(?:{_VERSION}\s*,\s*)?{_ID}\s*(?:,\s*{_VERSION}\s*)?\}}\s*$")


def decode(data: Union[bytes, bytearray, str]) -> Any:
    """Read a message.

    Read leniently: a leading byte order mark is dropped, bytes that are no UTF-8 and escaped lone
    surrogates become U+FFFD, ``NaN`` and infinities are taken as floats, and of two equal keys the
    later one counts. What is sent back as it came (`echoed`) keeps its lone surrogates.

    Raises:
        InvalidMessage: It is not JSON, or nested deeper than 200 levels, or holds an integer of more
            than 4300 digits. Where it can be told whose answer it was, ``request_id`` says so.
    """
    try:
        # Keys repeat from message to message. Values mostly do not, and have no business in a cache
        # that is shared by the whole process.
        return from_json(data, cache_strings="keys")
    except (ValueError, TypeError):
        return _decode_leniently(data)


def _decode_leniently(data: Union[bytes, bytearray, str]) -> Any:
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    text = _LONE_SURROGATE.sub("\ufffd", text)
    if text.startswith("\ufeff"):
        text = text[1:]
    # Looked for first, because the substitution stops at every escape of a message.
    repaired = _ESCAPE.sub(_without_lone_surrogate, text) if _SURROGATE_ESCAPE.search(text) else text
    try:
        value = from_json(repaired, cache_strings="keys")
        came = data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")
        restore(value, came.removeprefix("\ufeff"))
    except ValueError as error:
        reached = (limit for sign, limit in _FIXED_LIMITS.items() if sign in str(error))
        what = next(reached, f"not JSON: {error}")
        raise InvalidMessage(
            f"what arrived is {what}", excerpt=text[:EXCERPT_LENGTH], request_id=_answered_id(text)
        ) from None
    return value


def _answered_id(text: str) -> Optional[int]:
    """Find whose answer a message is that cannot be read, by its beginning or its end."""
    found = _ANSWER_BEGINS.match(text)
    # What does not begin like a message may be a line of a log that quotes one.
    if found is None and _OBJECT_BEGINS.match(text):
        found = _ANSWER_ENDS.search(text, max(0, len(text) - EXCERPT_LENGTH))
    return int(found[1]) if found else None


def _without_lone_surrogate(escape: re.Match[str]) -> str:
    return "\\ufffd" if escape[1] else escape[0]


def excerpt(text: str, length: int = EXCERPT_LENGTH) -> str:
    """Return the start of a text, marked where it was cut."""
    return text if len(text) <= length else f"{text[: length - 3]}..."

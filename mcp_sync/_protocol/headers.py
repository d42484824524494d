"""HTTP headers: the check of a user's own, and those that name the method and its object (2026-07-28).

Servers compare the latter with the body, so every value is derived from the very values that are sent.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Optional

from ..errors import UsageError

# They say how a message is sent.
_FRAMING = ("content-length", "transfer-encoding")
_PLAIN_VALUE = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
# What the name of a header consists of.
TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def checked_headers(headers: Any) -> Optional[dict[str, str]]:
    """Return a copy of a user's headers.

    Raises:
        UsageError: They cannot be sent.
    """
    if headers is None:
        return None
    if not isinstance(headers, Mapping):
        raise UsageError(f"headers must be a mapping, not {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not TOKEN.fullmatch(name):
            raise UsageError(f"{name!r} is no name of a header")
        if name.lower() in _FRAMING:
            raise UsageError(f"header {name} says how a message is sent, and cannot be given")
        if not isinstance(value, str):
            raise UsageError(f"header {name}: the value must be a string, not {type(value).__name__}")
        if any(letter in "\r\n\0" for letter in value) or value != value.strip():
            raise UsageError(f"header {name}: the value holds a line end, NUL, or white space around it")
        try:
            value.encode("iso-8859-1")
        except UnicodeEncodeError:
            raise UsageError(f"header {name}: the value holds characters outside of Latin-1") from None
    return dict(headers)


def encode_header_value(text: str) -> str:
    """Write a text so that it survives as the value of a header.

    Visible ASCII with spaces inside stays as it is, the empty text too. All else becomes
    ``=?base64?...?=``: other characters, spaces at an end, control characters, and what looks like
    that form already. A tab counts as a control character: HTTP admits it within a value, but
    intermediaries may turn it into a space.

    Raises:
        UsageError: The text holds a lone surrogate and has no UTF-8 form.
    """
    looks_encoded = text.startswith("=?base64?") and text.endswith("?=")
    if _PLAIN_VALUE.fullmatch(text) and not looks_encoded:
        return text
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"a lone surrogate cannot be written as UTF-8: {text[:100]!r}") from error
    return f"=?base64?{base64.b64encode(raw).decode('ascii')}?="


def standard_headers(
    method: str, params: Optional[Mapping[str, Any]], name_param: Optional[str] = None
) -> dict[str, str]:
    """Build ``Mcp-Method``, and ``Mcp-Name`` where the method addresses something by its name.

    Args:
        method: The method.
        params: Its params as they are sent.
        name_param: The param that holds the name.

    Raises:
        UsageError: The method's name cannot stand in a header, or the name addressed has no UTF-8 form.
    """
    if not method or encode_header_value(method) != method:
        raise UsageError(f"the method {method[:100]!r} cannot be sent over HTTP: it is not plain ASCII")
    headers = {"Mcp-Method": method}
    if name_param is not None and params is not None:
        name = params.get(name_param)
        if isinstance(name, str):
            headers["Mcp-Name"] = encode_header_value(str.__str__(name))
    return headers

"""How secrets are struck out of the words of a server, in whatever spelling they come back."""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, unquote_plus, urlsplit

from .._masking import is_secret_name

_MARK = "(secret)"
# A shorter text is no secret, and stands in other words by chance.
_SHORTEST = 4
# So much of the start of a secret counts as all of it: some servers cut off what they repeat.
_TELLING = 12
_SHORTEST_VALUE = 8  # of a header that is only named like a secret, and of a cookie
# A session is no secret of the user's: servers name it, and lead to it, on purpose.
_SESSION = "mcp-session-id"
_MOST_WORDS = 16_384  # characters of a server's words that are looked at
_LAYERS = 3  # of encodings, one in the other
_HEX = re.compile(r"%[0-9A-F]{2}")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{6,}")
_HEX_RUN = re.compile(r"(?:[0-9a-fA-F]{2}){4,}")


def struck(text: str, secrets: Iterable[str]) -> str:
    """Return a text without secrets.

    Those that are spelled as they are, or as in a form, in HTML or in JSON, are struck out one by one; a word
    in which one is found only after decoding (Base64, several layers of encodings) goes as a whole.
    """
    known = [secret for secret in secrets if len(secret) >= _SHORTEST]
    if not known:
        return text
    text = text[:_MOST_WORDS]
    for spelling in sorted(
        {each for secret in known for each in spellings_of(secret)}, key=len, reverse=True
    ):
        text = _without(text, spelling)
    # Words with the gaps between them.
    parts = re.split(r"(\s+)", text)
    text = "".join(_MARK if _tells(part, known) else part for part in parts)
    return _MARK if _tells(text, known) else text


def secrets_of(headers: Mapping[str, Any], url: str) -> list[str]:
    """Return what is secret of a request: credentials in its headers, and in the query of its URL."""
    found: list[str] = []
    named: list[str] = []
    for name, value in headers.items():
        text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
        lower = name.lower()
        if lower.endswith("authorization"):
            found += _credentials(text)
        elif lower == "cookie":
            named += [part.partition("=")[2].strip() for part in text.split(";")]
        elif lower != _SESSION and is_secret_name(lower):
            named.append(text.strip())
    named += [value for name, value in parse_qsl(urlsplit(url).query) if is_secret_name(name)]
    return found + [value for value in named if len(value) >= _SHORTEST_VALUE]


def _credentials(value: str) -> list[str]:
    scheme, _, rest = value.strip().partition(" ")
    credentials = rest.strip() or scheme
    if scheme.lower() != "basic":
        return [credentials]
    user, _, password = _decoded(credentials).partition(":")
    return [credentials, f"{user}:{password}", password]


def cleaned(message: Any, secrets: Callable[[], Iterable[str]]) -> Any:
    """Return a message; one that says what went wrong without secrets, which servers like to repeat then.

    Args:
        message: The message, or several.
        secrets: Returns them.
    """
    if isinstance(message, list):
        return [cleaned(each, secrets) for each in message]
    return without(message, secrets()) if isinstance(message, dict) and _is_failure(message) else message


def _is_failure(message: Mapping[str, Any]) -> bool:
    result = message.get("result")
    if result is None or "error" in message:
        return "method" not in message
    return isinstance(result, dict) and result.get("isError") is True


def without(value: Any, secrets: Iterable[str]) -> Any:
    """Return a copy of a JSON value without secrets, in whatever common spelling they stand in it."""
    known = {each for secret in secrets if len(secret) >= _SHORTEST for each in spellings_of(secret)}
    return _without_any(value, sorted(known, key=len, reverse=True))


def _without_any(value: Any, spellings: list[str]) -> Any:
    if isinstance(value, str):
        for spelling in spellings:
            value = value.replace(spelling, _MARK)
        return value
    if isinstance(value, Mapping):
        return {_without_any(key, spellings): _without_any(item, spellings) for key, item in value.items()}
    return [_without_any(item, spellings) for item in value] if isinstance(value, list) else value


def spellings_of(secret: str) -> Iterator[str]:
    """Give the common spellings of a secret in texts: its own, and those of forms, HTML and JSON."""
    encoded = {quote(secret, safe="", errors="replace"), quote(secret, errors="replace")}
    encoded.add(quote_plus(secret, errors="replace"))
    yield secret
    yield from encoded
    yield from (_HEX.sub(lambda found: found.group().lower(), each) for each in encoded)
    yield from (html.escape(secret), html.escape(secret, quote=False))
    written = json.dumps(secret)[1:-1]
    yield from (written, written.replace("/", "\\/"), json.dumps(secret, ensure_ascii=False)[1:-1])


def _without(text: str, spelling: str) -> str:
    """Return a text without a spelling, and without what begins like it and is cut off."""
    head, at = spelling[:_TELLING], 0
    while (at := text.find(head, at)) >= 0:
        end = at + len(head)
        while end < len(text) and end - at < len(spelling) and text[end] == spelling[end - at]:
            end += 1
        text = text[:at] + _MARK + text[end:]
        at += len(_MARK)
    return text


def _tells(text: str, secrets: list[str]) -> bool:
    readings = {text}
    for _ in range(_LAYERS):
        readings |= {decode(each) for decode in _DECODERS for each in readings}
        if any(secret[: 2 * _TELLING] in each for secret in secrets for each in readings):
            return True
    return False


def _unescaped(text: str) -> str:
    plain = _ESCAPE.sub(lambda found: chr(int(found.group(1) or found.group(2), 16)), text)
    return plain.replace("\\/", "/").replace('\\"', '"').replace("\\\\", "\\")


def _from_base64(text: str) -> str:
    return " ".join(map(_decoded, _BASE64.findall(text)))


def _decoded(word: str) -> str:
    word = word.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(word[: len(word) - (len(word) % 4 == 1)] + "=" * (-len(word) % 4)).decode(
            "utf-8", "replace"
        )
    except (binascii.Error, ValueError):
        return ""


def _from_hex(text: str) -> str:
    return " ".join(bytes.fromhex(run).decode("utf-8", "replace") for run in _HEX_RUN.findall(text))


_DECODERS: tuple[Callable[[str], str], ...] = (
    unquote,
    unquote_plus,
    html.unescape,
    _unescaped,
    _from_base64,
    _from_hex,
)

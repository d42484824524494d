"""How secrets are struck out of the words of a server, in whatever spelling they come back."""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote, unquote_plus

_MARK = "(secret)"
# A shorter text is no secret, and stands in other words by chance.
_SHORTEST = 4
# So much of the start of a secret counts as all of it: some servers cut off what they repeat.
_TELLING = 12
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
    for spelling in sorted({each for secret in known for each in _spellings(secret)}, key=len, reverse=True):
        text = _without(text, spelling)
    # Words with the gaps between them.
    parts = re.split(r"(\s+)", text)
    text = "".join(_MARK if _tells(part, known) else part for part in parts)
    return _MARK if _tells(text, known) else text


def _spellings(secret: str) -> Iterator[str]:
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

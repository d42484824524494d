"""Names for Python code, made from names that servers chose."""

from __future__ import annotations

import hashlib
import keyword
import re
import unicodedata
from collections.abc import Iterable, Sequence

_LONGEST = 80
_NO_LETTER = re.compile(r"[^0-9A-Za-z]+")


def identifier(name: str, otherwise: str) -> str:
    """Return the identifier nearest to a name, in ASCII, without an underscore at its beginning.

    Args:
        name: Any text.
        otherwise: What to use if nothing is left of it, and before a digit.
    """
    plain = unicodedata.normalize("NFKD", name)
    words = _NO_LETTER.sub("_", re.sub("[\u0300-\u036f]", "", plain)).strip("_")
    # A name that is an identifier already keeps its underscores.
    if name.isascii() and name.isidentifier() and not name.startswith("_"):
        words = name
    words = words[:_LONGEST]
    if not words or not words[0].isalpha():
        words = f"{otherwise}_{words}".rstrip("_")
    return f"{words}_" if keyword.iskeyword(words) or words in ("None", "self") else words


def identifiers(names: Iterable[str], otherwise: str, taken: Iterable[str] = ()) -> dict[str, str]:
    """Return an identifier for each name; no two are the same.

    A name that is an identifier keeps it. Of several that would become the same, each gets a digest of
    itself: what a name becomes does not hang on the order.

    Args:
        names: Any texts.
        otherwise: See `identifier`.
        taken: Identifiers that are not to be used.
    """
    wanted = {name: identifier(name, otherwise) for name in sorted(set(names))}
    used = set(taken)
    found: dict[str, str] = {}
    for name in sorted(wanted, key=lambda name: (wanted[name] != name, name)):
        word = wanted[name]
        while word in used:
            word = f"{wanted[name]}_{digest(name + word)}"
        used.add(word)
        found[name] = word
    return found


def digest(text: str) -> str:
    """Return six hexadecimal digits that tell a text from others."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]


def class_name(words: Sequence[str]) -> str:
    """Return a name for a class: ``["get-weather", "result"]`` is ``GetWeatherResult``."""
    parts = []
    for word in words:
        for part in re.split("_+", identifier(word, "x")):
            parts.append(part[:1].upper() + part[1:])
    return "".join(parts)[:_LONGEST]

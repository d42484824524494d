"""Takes secrets out of messages, and leaves them as they are otherwise: a recording has to be replayed."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .._masking import HIDDEN, hides, is_option_value, is_secret_name, without_credentials
from .._protocol.striking import spellings_of

__all__ = ["HIDDEN", "Mask"]

# What a schema says of a secret by way of example.
_EXAMPLES = ("default", "const", "enum", "examples")
# What stands under the name of a secret is looked for elsewhere if it has so many characters, among them some
# that are no letters, and is no date: a word, or a revision of the protocol, stands there by chance.
_SHORTEST, _LONGEST = 8, 4096
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
# So many secrets are looked for that came along; those that are known from the beginning do not count.
_MOST = 1000
# So much of Base64 tells enough of what is encoded.
_SHORTEST_BASE64 = 6


class Mask:
    """Hides what is secret, as far as that can be told: a help, and no proof.

    Hidden are values under keys such as ``password`` or ``token``, also in a text that is JSON or has the
    form ``password=x``; what looks like a credential, wherever it stands; and what is known to be secret,
    wherever it stands, as it is or quoted or in Base64. That is what a user names, and what stood under such
    a key. Names in a schema stay: that a tool has an argument ``password`` is no secret.

    Safe for any number of threads.

    Args:
        keys: Further keys, whatever their case.
        values: Texts that are hidden wherever they stand.
    """

    def __init__(self, keys: Iterable[str] = (), values: Iterable[str] = ()) -> None:
        self._keys = {key.lower() for key in keys}
        self._known: set[str] = set()
        # Of what is known, the longest first: one may be a part of another. Replaced as a whole.
        self._spellings: tuple[str, ...] = ()
        # Held while something is learned. Nothing but look-ups under it.
        self._lock = threading.Lock()
        self._learned = 0
        self.learn(values)

    def learn(self, values: Iterable[str]) -> bool:
        """Hide these texts from now on, too; return whether any of them is new."""
        with self._lock:
            new = {value for value in values if value} - self._known
            if new:
                self._known |= new
                known = {*self._spellings, *(each for value in new for each in _spellings(value))}
                self._spellings = tuple(sorted(known, key=len, reverse=True))
        return bool(new)

    def learn_from(self, message: Any) -> bool:
        """Hide wherever it stands what a message names as secret; return whether that is new."""
        named = {each for each in self._named(message) if _is_telling(each)} - self._known
        if not named or self._learned + len(named) > _MOST:
            return False
        self._learned += len(named)
        return self.learn(named)

    def _named(self, value: Any) -> Iterator[str]:
        """Give the texts under names of secrets."""
        if isinstance(value, Mapping):
            is_named = self._is_named(value)
            for key, item in value.items():
                if self._hides(key, item) or (is_named and key == "value"):
                    yield from _texts(item)
                else:
                    yield from self._named(item)
        elif isinstance(value, (list, tuple)):
            for option, item in zip(["", *value], value):
                yield from (item,) if is_option_value(option, item) else self._named(item)
        elif isinstance(value, str) and value[:1] in ("{", "["):
            yield from self._named(_parsed(value))

    def __call__(self, value: Any) -> Any:
        """Return a copy of a JSON value without what is secret."""
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, (list, tuple)):
            return self._list(value)
        return self.text(value) if isinstance(value, str) else value

    def _list(self, value: Sequence[Any]) -> list[Any]:
        before = ["", *value]  # Of a command line.
        pairs = zip(before, value)
        return [HIDDEN if is_option_value(option, item) else self(item) for option, item in pairs]

    def _mapping(self, value: Mapping[str, Any]) -> dict[str, Any]:
        is_named = self._is_named(value)
        found: dict[str, Any] = {}
        for key, item in value.items():
            if key == "properties" and isinstance(item, Mapping):
                found[key] = {name: self._property(name, schema) for name, schema in item.items()}
            elif item not in (None, "") and (self._hides(key, item) or (is_named and key == "value")):
                found[key] = HIDDEN
            else:
                found[self.struck(key) if isinstance(key, str) else key] = self(item)
        return found

    def _is_named(self, value: Mapping[str, Any]) -> bool:
        """Whether it is name and value of a secret: of a header, or of an argument to be completed."""
        name = value.get("name", value.get("key"))
        return isinstance(name, str) and self._is_secret(name) and "value" in value

    def _property(self, name: str, schema: Any) -> Any:
        if not self._is_secret(name):
            return self(schema)
        if not isinstance(schema, Mapping):
            return schema if isinstance(schema, bool) else HIDDEN
        kept = {key: item for key, item in schema.items() if key not in _EXAMPLES}
        return self(kept)

    def _hides(self, key: Any, item: Any) -> bool:
        return isinstance(key, str) and (key.lower() in self._keys or hides(key, item))

    def _is_secret(self, name: str) -> bool:
        return name.lower() in self._keys or is_secret_name(name)

    def text(self, text: str) -> str:
        """Return a text without what is secret."""
        value = _parsed(text) if text[:1] in ("{", "[") else None
        if value is not None:
            shown = self(value)
            return text if shown == value else json.dumps(shown, ensure_ascii=False)
        return without_credentials(self.struck(text))

    def struck(self, text: str) -> str:
        """Return a text without what is known to be secret."""
        spellings = self._spellings
        if not spellings or len(text) < len(spellings[-1]):
            return text
        for spelling in spellings:
            if spelling in text:
                text = text.replace(spelling, HIDDEN)
        return text


def _parsed(text: str) -> Any:
    """Return what a text is as JSON, ``None`` if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple, Mapping)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _is_telling(value: str) -> bool:
    if not _SHORTEST <= len(value) <= _LONGEST or _DATE.match(value) or HIDDEN in value:
        return False
    return not value.replace(" ", "").isalpha()


def _spellings(value: str) -> Iterator[str]:
    yield from spellings_of(value)
    data = value.encode("utf-8", "surrogatepass")
    # What comes before decides by how many bits the encoding is shifted; the rim is of its neighbours, too.
    for before, rim in ((0, 0), (1, 2), (2, 3)):
        encoded = base64.b64encode(bytes(before) + data).decode("ascii")
        encoded = encoded[rim : (before + len(data)) * 8 // 6]
        if len(encoded) >= _SHORTEST_BASE64:
            yield from (encoded, encoded.replace("+", "-").replace("/", "_"))

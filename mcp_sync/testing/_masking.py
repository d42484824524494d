"""Takes secrets out of messages, and leaves them as they are otherwise: a recording has to be replayed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._masking import HIDDEN, hides, is_option_value, is_secret_name, without_credentials

__all__ = ["HIDDEN", "Mask"]

# What a schema says of a secret by way of example.
_EXAMPLES = ("default", "const", "enum", "examples")


class Mask:
    """Hides what is secret, as far as that can be told: a help, and no proof.

    Hidden are values under keys such as ``password`` or ``token``, also in a text that is JSON or has the
    form ``password=x``; what looks like a credential, wherever it stands; and what a user names. Names in a
    schema stay: that a tool has an argument ``password`` is no secret.

    Args:
        keys: Further keys, whatever their case.
        values: Texts that are hidden wherever they stand.
    """

    def __init__(self, keys: Iterable[str] = (), values: Iterable[str] = ()) -> None:
        self._keys = {key.lower() for key in keys}
        # The longest first: one may be a part of another.
        known = sorted({value for value in values if value}, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, known))) if known else None

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
        # The name and the value of something: of a header, or of an argument to be completed.
        name = value.get("name", value.get("key"))
        is_named = isinstance(name, str) and self._is_secret(name) and "value" in value
        found: dict[str, Any] = {}
        for key, item in value.items():
            if key == "properties" and isinstance(item, Mapping):
                found[key] = {name: self._property(name, schema) for name, schema in item.items()}
            elif item not in (None, "") and (self._hides(key, item) or (is_named and key == "value")):
                found[key] = HIDDEN
            else:
                found[key] = self(item)
        return found

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
        if text[:1] in ("{", "["):
            try:
                value = json.loads(text)
                shown = self(value)
            except (ValueError, RecursionError):
                pass
            else:
                return text if shown == value else json.dumps(shown, ensure_ascii=False)
        if self._values is not None:
            text = self._values.sub(HIDDEN, text)
        return without_credentials(text)

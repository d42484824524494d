"""Arguments of any kind for tools with schemas of any kind: taken, or refused in one line."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from mcp_sync import UsageError
from mcp_sync._given_arguments import read_arguments
from mcp_sync._protocol import schemas

from .shapes import JSON
from .test_fuzz_schemas import NAMED, SCHEMAS, VALUES, keywords

TEXTS = st.text(max_size=8) | st.sampled_from(["1", "-2.5", "true", "null", "[1]", '{"a": 1}', "a", "{", "["])
WORDS = st.builds("{}={}".format, NAMED | st.just("a.b"), TEXTS.filter(lambda text: not text.startswith("@")))
JSON_WORDS = st.builds(lambda name, value: f"{name}:={json.dumps(value)}", NAMED, JSON | VALUES)
ROOTS = keywords(SCHEMAS).map(lambda schema: {**schema, "type": "object"})


def typed(words: list[str], schema: Any, check: bool) -> Any:
    with mock.patch.object(schemas, "MOST_STEPS", 20_000):
        try:
            return read_arguments(words).typed(schema, check)
        except UsageError as error:
            return str(error)


@given(st.lists(WORDS | JSON_WORDS, max_size=4), ROOTS)
def test_arguments_are_taken_or_refused_in_one_line(words: list[str], schema: Any) -> None:
    found = typed(words, schema, True)

    if isinstance(found, str):
        assert len(found) < 2000
        assert "\n" not in found
    else:
        assert found == typed(words, schema, False)
        json.dumps(found)

"""Whatever a configuration holds: it is read, or refused by an error that says where; no secret is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from mcp_sync.config import ConfigError, load_config
from mcp_sync.config._json import read_json
from mcp_sync.config._keys import FIELDS

SECRET = "hunter2-7f3a"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(SECRET),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
VALUES = JSON | st.sampled_from(
    [
        "x",
        "https://h/mcp",
        "oauth",
        "${NOT_SET_HERE}",
        f"${{NOT_SET_HERE:-{SECRET}}}",
        "${",
        [SECRET],
        {"A": SECRET},
    ]
)
AUTH = st.dictionaries(
    st.sampled_from(
        ["type", "clientId", "clientSecret", "token", "tokenEnv", "scopes", "callbackPort", "redirectUri"]
    ),
    VALUES,
    max_size=4,
)
ENTRY = st.dictionaries(st.sampled_from(sorted(FIELDS)), VALUES | AUTH, max_size=5)
HIDDEN = st.dictionaries(
    st.sampled_from(["env", "headers", "httpheaders", "bearertoken", "auth", "oauth"]),
    st.sampled_from(
        [SECRET, {"A": SECRET}, {"A": [SECRET]}, {"clientSecret": SECRET}, {"token": SECRET}, [SECRET]]
    ),
    min_size=1,
)


@given(entry=ENTRY, start=st.sampled_from([{}, {"command": "x"}, {"url": "https://h/mcp"}]))
@example(entry={"timeouts": {"open": 1e400}}, start={"command": "x"})
def test_an_entry_is_a_server_or_an_error_that_names_it(entry: dict[str, Any], start: dict[str, Any]) -> None:
    found = []
    try:
        config = load_config({"mcpServers": {"here": {**entry, **start}}})
        json.dumps(config.to_json())
        found = config.check()
    except ConfigError as error:
        found.append(error)
    assert {error.server for error in found} <= {"here"}


@given(entry=HIDDEN, start=st.sampled_from([{"command": "x"}, {"url": "https://h/mcp"}]))
def test_no_secret_is_shown_wherever_it_stands(entry: dict[str, Any], start: dict[str, Any]) -> None:
    shown = []
    try:
        config = load_config({"mcpServers": {"here": {**entry, **start}}})
        shown = [repr(config["here"]), json.dumps(config.to_json()), *config.warnings]
        shown += map(str, config.check())
    except ConfigError as error:
        shown.append(str(error))
    assert SECRET not in "".join(shown)


@given(data=st.binary(max_size=60) | st.text(alphabet='{}[]",:/*a \n\\', max_size=60).map(str.encode))
def test_a_file_is_read_or_refused_by_name(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(data)
    said = str(path)
    try:
        load_config(path)
    except ConfigError as error:
        said = str(error)
    assert str(path) in said


@given(value=JSON, indent=st.sampled_from([None, 1]))
def test_what_is_plain_json_is_read_as_it_is(value: Any, indent: Any) -> None:
    text = json.dumps(value, indent=indent)
    if "NaN" in text or "Infinity" in text:
        return
    assert read_json(text, "f") == (json.loads(text), None)


def test_a_large_file_with_many_comments_is_read_as_it_is_meant() -> None:
    text = "[" + "1, /* , */ // }\n" * 50_000 + "2 //" + "/*" * 10 + "\n" * 50_000 + ', "/*", /* ] */ ]'

    value, oddity = read_json(text, "f")

    assert value == [1] * 50_000 + [2, "/*"]
    assert oddity == ("a comment", 4)

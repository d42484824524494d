"""Which headers of a stateless HTTP request the fake server demands."""

from __future__ import annotations

from typing import Annotated, Any, Optional

import pytest
from plain_peer import Message, modern_meta

from mcp_sync._protocol.versions import HANDSHAKE_VERSIONS, LATEST_HANDSHAKE, LATEST_MODERN
from mcp_sync.testing import FakeServer, RpcError
from mcp_sync.testing._http_rules import belongs_to_modern, check_headers, origin_is_local


def query(
    region: Annotated[str, {"x-mcp-header": "Region"}],
    limit: Annotated[int, {"x-mcp-header": "Limit"}] = 1,
    deep: Annotated[Optional[bool], {"x-mcp-header": "Deep"}] = None,
) -> str:
    return region


SERVER = FakeServer(tools=[query])
STANDARD = {"mcp-protocol-version": LATEST_MODERN, "mcp-method": "tools/call", "mcp-name": "query"}


def call(**arguments: Any) -> Message:
    params = {"name": "query", "arguments": arguments, "_meta": modern_meta()}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def fault(message: Message, headers: dict[str, str]) -> Optional[str]:
    try:
        check_headers(SERVER, message, headers)
    except RpcError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", STANDARD)
@pytest.mark.parametrize("value", [None, "other"])
def test_a_standard_header_that_is_missing_or_differs_is_a_mismatch(name: str, value: Optional[str]) -> None:
    headers = {key: header for key, header in {**STANDARD, name: value}.items() if header is not None}
    assert fault(call(), STANDARD) is None
    found = (fault(call(), headers) or "").lower()
    assert name in found
    assert "(-32020)" in found


@pytest.mark.parametrize(
    ("arguments", "given", "fits"),
    [
        ({"region": "eu"}, {"region": "eu"}, True),
        ({"region": "eu"}, {}, False),
        ({"region": "eu"}, {"region": "us"}, False),
        ({}, {"region": "eu"}, False),
        ({"region": None}, {}, True),
        ({"region": "Grüße"}, {"region": "=?base64?R3LDvMOfZQ==?="}, True),
        ({"region": "Grüße"}, {"region": "Grüße"}, False),
        ({"region": "x"}, {"region": "=?base64?%%%?="}, False),
        ({"region": "x"}, {"region": "=?base64?/w==?="}, False),
        ({"limit": 42}, {"limit": "42"}, True),
        ({"limit": 42}, {"limit": "42.0"}, True),
        ({"limit": 42}, {"limit": "43"}, False),
        ({"limit": 42}, {"limit": "many"}, False),
        ({"deep": True}, {"deep": "true"}, True),
        ({"deep": True}, {"deep": "1"}, False),
        ({"deep": False}, {"deep": "false"}, True),
    ],
)
def test_marked_arguments_have_to_be_mirrored(arguments: Message, given: Message, fits: bool) -> None:
    headers = {**STANDARD, **{f"mcp-param-{name}": value for name, value in given.items()}}
    assert (fault(call(**arguments), headers) is None) is fits


def test_the_name_may_be_encoded() -> None:
    assert fault(call(), {**STANDARD, "mcp-name": "=?base64?cXVlcnk=?="}) is None


def test_the_headers_of_a_revision_that_is_not_served_are_not_judged() -> None:
    message = call()
    message["params"]["_meta"] = modern_meta(version="2099-01-01")
    assert fault(message, {"mcp-protocol-version": "2099-01-01"}) is None
    assert fault(message, {"mcp-protocol-version": LATEST_MODERN}) is not None


def test_a_post_belongs_to_the_era_that_it_names() -> None:
    legacy = {"id": 1, "method": "tools/list"}
    assert belongs_to_modern(SERVER, call(), {})
    assert belongs_to_modern(SERVER, legacy, {"mcp-protocol-version": LATEST_MODERN})
    assert belongs_to_modern(FakeServer(versions="modern"), legacy, {})
    assert not belongs_to_modern(SERVER, legacy, {"mcp-protocol-version": LATEST_HANDSHAKE})
    assert not belongs_to_modern(SERVER, [], {})
    assert not belongs_to_modern(FakeServer(versions=HANDSHAKE_VERSIONS), call(), {})


@pytest.mark.parametrize(
    ("origin", "local"),
    [
        (None, True),
        ("http://localhost:1", True),
        ("http://[::1]", True),
        ("https://evil.example", False),
        ("null", False),
    ],
)
def test_only_pages_of_this_machine_are_let_in(origin: Optional[str], local: bool) -> None:
    assert origin_is_local({} if origin is None else {"origin": origin}) is local

"""What is wrong with a configuration: said with file, server and key, or line and column, and no secret."""

from __future__ import annotations

import json
import logging
import os
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import ConnectFailed, UsageError
from mcp_sync.config import ConfigError, load_config

from . import files

needs_fifo = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ('{\n  "mcpServers": {\n    "a": {"command": "x",}\n  }\n}', 3, 25, "a comma after the last entry"),
        ('{\n  // mine\n  "mcpServers": {}}', 2, 3, "a comment"),
        ('{"mcpServers": {\n  /* two\n lines */ "a" {}}}', 3, 15, "no JSON: Expecting ':'"),
        ('{"mcpServers": {"a": }}', 1, 22, "no JSON: Expecting value"),
        ("", None, None, "empty"),
        ('{"mcpServers": {"a": 1, "a": 2}}', None, None, "json: the key 'a' stands twice in one object"),
        ('{"mcpServers": NaN}', None, None, "NaN is no number"),
        ("[" * 100_000, None, None, "nested too deeply"),
        ("[]", None, None, "must be an object, not a list"),
        ('{"servers": []}', None, None, "must be an object, not a list"),
        ('{"server": {}}', None, None, "neither mcpServers nor servers in it, but server"),
        ("{}", None, None, "nothing at all"),
    ],
)
def test_a_broken_file_is_named_with_the_place(
    tmp_path: Path, text: str, line: Any, column: Any, said: str
) -> None:
    path = files.write(tmp_path, text)

    with pytest.raises(ConfigError) as raised:
        load_config(path)

    error = raised.value
    assert isinstance(error, UsageError)
    assert (error.file, error.line, error.column) == (str(path), line, column)
    assert said in str(error)
    assert str(path) in str(error)
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


def test_comments_and_commas_are_fine_in_a_file_that_is_called_jsonc(tmp_path: Path) -> None:
    text = '{"mcpServers": {"a": {"command": "x" /* , */, "args": ["//", ",]", "\\"//"],},} // end\n}'

    assert load_config(files.write(tmp_path, text, "mcp.jsonc"))["a"].args == ("//", ",]", '"//')


@pytest.mark.parametrize("data", [b'\xff{"mcpServers": {}}', b"\x00"])
def test_a_file_that_is_no_text_is_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "mcp.json").write_bytes(data)

    with pytest.raises(ConfigError, match=r"mcp\.json"):
        load_config(tmp_path / "mcp.json")


def test_a_mark_of_the_byte_order_is_fine(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_bytes(b'\xef\xbb\xbf{"mcpServers": {}}')

    assert not load_config(str(tmp_path / "mcp.json")).servers


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.json: No such file"):
        load_config(tmp_path / "nothing.json")


@needs_fifo
def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    os.mkfifo(path)
    text = json.dumps(files.one(command="x", args=["y" * 200_000]))
    writer = threading.Thread(target=path.write_text, args=(text,))
    writer.start()
    config = load_config(path, timeout=30)
    writer.join()

    assert config["here"].args == ("y" * 200_000,)


@needs_fifo
def test_a_pipe_that_nobody_writes_to_its_end_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    os.mkfifo(path)
    said = r"mcp\.json: nobody has written it to its end within 0\.1 s"

    with pytest.raises(ConfigError, match=said):
        load_config(path, timeout=0.1)

    with open(os.open(path, os.O_RDWR), "r+b", buffering=0) as writing:
        writing.write(b'{"mcpServers": ')
        with pytest.raises(ConfigError, match=said):
            load_config(path, timeout=0.1)


def test_the_time_for_a_file_must_be_one() -> None:
    with pytest.raises(UsageError, match="timeout must be a number of seconds"):
        load_config({}, timeout="5")  # type: ignore[arg-type]


@pytest.mark.parametrize("source", [None, 7, b"mcp.json", '{"mcpServers": {}}', ["x"]])
def test_what_is_neither_a_path_nor_a_mapping_is_refused(source: Any) -> None:
    with pytest.raises(ConfigError, match="a configuration is the path of a file, or a mapping"):
        load_config(source)


@pytest.mark.parametrize(
    ("entry", "key", "said"),
    [
        ({}, None, "neither a command nor a URL"),
        ({"ULR": "https://h"}, None, "nor a URL; did you mean 'url' by 'ULR'?"),
        ({"comand": "x", "colour": "y"}, None, "nor a URL; did you mean 'command' by 'comand'?"),
        ({"header": {"A": "b"}}, None, "neither a command nor a URL"),
        ({"command": "x", "url": "https://h"}, None, "there is a command and a URL"),
        ({"url": "https://h", "httpUrl": "https://g"}, "httpUrl", "says the same as 'url'"),
        ({"command": "x", "type": "telnet"}, "type", "stdio, http, sse or ws"),
        ({"command": "x", "type": "http"}, "type", "does not go with a command"),
        ({"url": "https://h", "type": "stdio"}, "type", "does not go with a URL"),
        ({"command": 5}, "command", "a string, not a number"),
        ({"command": "x", "args": "-v"}, "args", "a list of strings, not a string"),
        ({"command": "x", "env": {"A": ["b"]}}, "env", "an object with strings"),
        ({"command": "x", "timeout": "5"}, "timeout", "a number above 0"),
        ({"command": "x", "timeout": 0}, "timeout", "a number above 0"),
        ({"command": "x", "timeout": 10**400}, "timeout", "a number above 0 that a clock can wait"),
        ({"command": "x", "timeouts": {"total": 1e300}}, "timeouts.total", "above 0 that a clock can wait"),
        ({"command": "x", "timeouts": {"opem": 1}}, "timeouts.opem", "there are only connect"),
        ({"command": "x", "timeouts": {"open": -1}}, "timeouts.open", "above 0"),
        ({"command": "x", "disabled": "yes"}, "disabled", "true or false"),
        ({"command": "x", "includeTools": "search"}, "includeTools", "a list of names"),
        ({"command": "x", "mode": "secret"}, "mode", 'this must be "auto", "legacy" or one of 2026-07-28'),
        ({"command": "x", "inheritEnv": "some"}, "inheritEnv", "one of"),
        ({"url": "https://h", "auth": 5}, "auth", "an object"),
        ({"url": "https://h", "auth": {"type": "magic"}}, "auth.type", "oauth, client_credentials, bearer"),
    ],
)
def test_an_entry_that_cannot_be_is_named_by_file_server_and_key(
    tmp_path: Path, entry: dict[str, Any], key: Any, said: str
) -> None:
    path = files.write(tmp_path, files.one(**entry))

    config = load_config(path)

    (error,) = config.check()
    assert (error.file, error.server, error.key) == (str(path), "here", key)
    assert said in str(error)
    assert "secret" not in str(error)
    assert f"{path}, server 'here'" in str(error)
    for use in (config["here"].client, config["here"].target, config["here"].check):
        with pytest.raises(ConfigError) as raised:
            use()
        assert vars(raised.value) == vars(error)
    assert config.to_json() == {"mcpServers": {"here": {"type": "broken", "error": str(error)}}}


@pytest.mark.parametrize("url", ["unix:///run/mcp.sock#/mcp", "npipe:////./pipe/mcp"])
def test_a_socket_of_this_machine_is_said_to_be_not_supported(url: str) -> None:
    (error,) = load_config(files.one(url=url, type="http")).check()

    assert (error.server, error.key) == ("here", "url")
    assert "of this machine are not supported" in str(error)


def test_an_entry_that_cannot_be_harms_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    entries = {
        "good": {"command": "x"},
        "typo": {"comand": "y"},
        "off": {"command": 7, "disabled": True},
        "n": 5,
    }
    path = files.write(tmp_path, {"mcpServers": entries})
    config = load_config(path)

    assert config["good"].target().command == "x"  # type: ignore[attr-defined]
    assert [error.server for error in config.check()] == ["typo", "n"]
    assert not caplog.messages
    assert config["off"].disabled
    assert pickle.loads(pickle.dumps(config)) == config == load_config(path)
    assert hash(config["typo"].fault) == hash(load_config(path)["typo"].fault)
    assert load_config({**entries, "n": "5"})["n"] != load_config(entries)["n"]
    # The same in a mapping without a frame.
    assert [error.server for error in load_config(entries).check()] == ["typo", "n"]


@pytest.mark.parametrize(
    ("entry", "key", "said"),
    [
        ({"url": "ftp://h/x"}, None, "http"),
        ({"url": "https://h", "auth": {"type": "client_credentials"}}, "auth.client_id", "needs this"),
        ({"url": "https://h", "bearerToken": "${EMPTY:-}"}, "bearerToken", "is empty"),
        ({"url": "https://h", "auth": {"type": "bearer", "tokn": "a"}}, "auth", "this must be a token"),
        ({"url": "https://h", "headers": {"X": "a\nsecret"}}, None, "header"),
        ({"url": "https://h", "oauth": {"callbackPort": "x"}}, "oauth.callbackPort", "the number of a port"),
        ({"url": "https://h", "oauth": {"scopes": 5}}, "oauth.scopes", "a list of strings"),
        ({"command": "x", "envFile": "none.env"}, "envFile", "cannot be read: No such file"),
    ],
)
def test_what_shows_only_when_it_is_used_is_named_as_well(
    tmp_path: Path, entry: dict[str, Any], key: Any, said: str
) -> None:
    config = load_config(files.write(tmp_path, files.one(**entry)))

    with pytest.raises(ConfigError) as raised:
        config["here"].client()

    assert (raised.value.server, raised.value.key) == ("here", key)
    assert said in str(raised.value)
    assert "secret" not in str(raised.value)
    assert [str(error) for error in config.check()] == [str(raised.value)]


def test_an_unknown_key_is_ignored_with_a_warning_that_names_file_server_and_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = {"command": "x", "comand": "y", "_note": "z", "headersHelper": "h", "headers": {"A": "b"}}
    path = files.write(tmp_path, files.one(**entry))

    with caplog.at_level(logging.WARNING, "mcp_sync.config"):
        config = load_config(path)

    assert (
        list(config.warnings)
        == caplog.messages
        == [
            f"{path}, server 'here', key 'comand': unknown, and ignored; did you mean 'command'?",
            f"{path}, server 'here', key 'headersHelper': this is not supported, and ignored",
            f"{path}, server 'here', key 'headers': it means nothing beside a command",
        ]
    )


def test_unknown_keys_of_an_authorization_are_named_too() -> None:
    entry = {"url": "https://h", "oauth": {"clientId": "a", "tokenUrl": "https://t", "cleint_id": "b"}}

    assert [text.partition("key ")[2] for text in load_config(files.one(**entry)).warnings] == [
        "'oauth.tokenUrl': ignored, since it is looked up; `issuer` says whom to ask",
        "'oauth.cleint_id': unknown, and ignored; did you mean 'clientid'?",
    ]


def test_an_unknown_server_lists_the_known_ones() -> None:
    config = load_config({"weather": {"command": "x"}, "files": {"command": "y"}})

    said = r"there is no server 'wether'; did you mean 'weather'\? Known: weather, files"
    with pytest.raises(ConfigError, match=said):
        config["wether"]


def test_an_error_about_a_server_that_is_started_has_its_name(tmp_path: Path) -> None:
    program = {"command": sys.executable, "args": ["-c", "import sys; sys.exit('no key')"]}
    config = load_config(
        {"mcpServers": {"dies": program, "gone\x1b": {"command": "no-such-command-anywhere"}}}
    )
    with pytest.raises(ConnectFailed, match=r"^dies \(.* -c .*\) ended with exit code 1") as raised:
        config["dies"].client().open()
    assert "no key" in str(raised.value)
    with pytest.raises(ConnectFailed, match=r"^gone\\x1b: command not found: no-such-command-anywhere"):
        config["gone\x1b"].client().open()
    assert repr(config["dies"].target()).endswith(", name='dies')")


def test_the_name_of_a_server_makes_no_other_server_of_it() -> None:
    one, two = (
        load_config({"mcpServers": {name: {"command": "server"}}})[name].target() for name in ("one", "two")
    )
    assert one == two
    assert one.identity() == two.identity()

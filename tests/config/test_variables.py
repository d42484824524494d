"""``${NAME}`` and its like."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import Stdio
from mcp_sync.config import Config, ConfigError, load_config
from mcp_sync.errors import ConnectFailed

from . import files


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "ada")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("MISSING", raising=False)


def filled(tmp_path: Path, text: str) -> str:
    path = files.write(tmp_path, files.one(command="x", args=[text]))
    target = load_config(path)["here"].target()
    assert isinstance(target, Stdio)
    return target.args[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${NAME}", "ada"),
        ("a ${NAME}b${NAME}", "a adabada"),
        ("${env:NAME}", "ada"),
        ("${NAME:-bob}", "ada"),
        ("${MISSING:-bob}", "bob"),
        ("${EMPTY:-bob}", "bob"),
        ("${EMPTY}", ""),
        ("${MISSING:-}", ""),
        ("${env:MISSING:-bob}", "bob"),
        ("${MISSING:-http://h:1/${NAME}}", "http://h:1/ada"),
        ("${MISSING:-${MISSING:-c}}", "c"),
        ("$${NAME}", "${NAME}"),
        ("$NAME", "$NAME"),
        ("a$", "a$"),
        ("}{", "}{"),
        ("${file:token}", "from the file"),
        ("${file:${NAME}}", "of ada"),
        ("${/}", "/"),
    ],
)
def test_they_are_replaced(tmp_path: Path, text: str, value: str) -> None:
    files.write(tmp_path, "\ufefffrom the file\r\n", "token")
    files.write(tmp_path, "of ada", "ada")

    assert filled(tmp_path, text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$NAME", "ada"),
        ("Bearer $NAME", "Bearer ada"),
        ("--user=$NAME/$NAME ${NAME}$NAME", "--user=ada/ada adaada"),
        ("${MISSING:-of $NAME}", "of ada"),
        ("pa$NAME", "pa$NAME"),
        ("5 $ or $5", "5 $ or $5"),
        ("$${NAME}", "${NAME}"),
    ],
)
def test_the_gemini_cli_has_them_without_braces(tmp_path: Path, text: str, value: str) -> None:
    path = files.write(tmp_path, files.one(command="x", args=[text]), ".gemini/settings.json")
    assert load_config(path)["here"].target() == Stdio("x", [value])


def test_one_without_braces_has_to_be_set_as_well(tmp_path: Path) -> None:
    server = files.one(url="https://h/mcp", headers={"Authorization": "Bearer $MISSING"})
    config = load_config(files.write(tmp_path, server, ".gemini/settings.json"))

    with pytest.raises(ConfigError, match=r"'here', key 'headers.Authorization': .* MISSING is not set"):
        config["here"].target()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${MISSING}", "the environment variable MISSING is not set"),
        ("${MISSING:-${MISSING}}", "MISSING is not set"),
        ("${NAME", "is not closed"),
        ("${}", "the name of a variable"),
        ("${a b}", "the name of a variable"),
        ("${cmd:ls}", "${cmd:...} is not known"),
        ("${file:nothing}", "the file nothing cannot be read: No such file"),
        ("${file:binary}", "the file binary cannot be read: it is no text"),
        ("${input:key}", "the input key has no value"),
        ("${A:-" * 20 + "}" * 20, "nested too deeply"),
    ],
)
def test_what_is_missing_is_named_by_file_server_and_key(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")

    with pytest.raises(ConfigError) as raised:
        filled(tmp_path, text)

    assert str(raised.value).startswith(f"{tmp_path}/mcp.json, server 'here', key 'args.0': ")
    assert said in str(raised.value)


def test_a_missing_variable_harms_no_other_server() -> None:
    config = load_config({"a": {"command": "${MISSING}"}, "b": {"command": "x"}, "c": {"url": "${MISSING}"}})

    config["b"].client()
    assert [(error.server, error.key) for error in config.check()] == [("a", "command"), ("c", "url")]


def test_a_disabled_server_is_not_checked() -> None:
    assert load_config({"a": {"command": "${MISSING}", "disabled": True}}).check() == []


SECRETS: list[dict[str, Any]] = [
    {"url": "https://user:s3cret@h/mcp?key=s3cret"},
    {"url": "${BASE:-https://user:s3cret@h/mcp}"},
    {"url": "${SCHEME}://user:s3cret@h:${PORT:-s3cret}/mcp?k=s3cret"},
    {"url": "https://h", "headers": {"Authorization": "Bearer s3cret", "X": "${MISSING:-s3cret}"}},
    {"url": "https://h", "auth": "s3cret"},
    {"url": "https://h", "auth": {"CLIENT_ID": "me", "CLIENT_SECRET": "s3cret"}},
    {"url": "https://h", "oauth": {"clientSecret": "s3cret", "anything": {"deep": "s3cret"}}},
    {"url": "https://h", "bearerToken": "s3cret"},
    {"command": "x", "env": {"PLAIN": "s3cret"}},
    {"command": "x", "args": ["--api-key", "s3cret", "TOKEN=s3cret", "${MISSING:-s3cret}"]},
    {"command": ["x", "--token=s3cret"]},
]


@pytest.mark.parametrize("entry", SECRETS)
def test_no_secret_is_shown(entry: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    config = load_config(files.one(**entry, unknown="s3cret"))

    shown = [repr(config), repr(config["here"]), json.dumps(config.to_json()), *map(str, config.check())]
    assert "s3cret" not in "".join([*shown, *config.warnings, caplog.text])


@pytest.mark.parametrize("value", [5, [], {"x": ["s3cret"]}])
def test_errors_show_no_values(value: Any) -> None:
    config = load_config(files.one(command="x", env={"A": value}, args={"s3cret": 1}))

    (error,) = config.check()
    assert "s3cret" not in f"{error} {config!r} {config['here']!r} {vars(error)}"


def test_where_a_secret_comes_from_is_shown() -> None:
    entry = {
        "url": "https://h/${TENANT}/mcp",
        "headers": {"A": "Bearer ${TOKEN}", "B": "${file:b}", "C": "c"},
    }

    assert load_config(files.one(**entry)).to_json()["mcpServers"]["here"] == {
        "type": "http",
        "url": "https://h/${TENANT}/mcp",
        "headers": {"A": "Bearer ${TOKEN}", "B": "${file:b}", "C": "***"},
    }


def test_a_configuration_cannot_be_changed() -> None:
    config: Config = load_config({"a": {"command": "x"}})

    with pytest.raises(AttributeError):
        config["a"].command = "y"  # type: ignore[misc]
    with pytest.raises(TypeError):
        config.servers["b"] = config["a"]  # type: ignore[index]


def test_what_fills_a_part_of_a_path_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    # It looks like no token, and is short enough not to.
    monkeypatch.setenv("ZAP_KEY", "opensesame")
    monkeypatch.setenv("PORT", "1")
    entry = {"url": "http://127.0.0.1:${PORT}/stable/${ZAP_KEY}/mcp", "headers": {"Accept-Language": "en"}}
    client = load_config(files.one(**entry))["here"].client(timeout=5)

    with pytest.raises(ConnectFailed) as raised:
        client.open()

    shown = f"{raised.value!r} {client!r}"
    assert "sesame" not in shown
    assert "http://127.0.0.1:1/stable/***/mcp" in shown


@pytest.mark.parametrize("url", ["${BASE_URL}", "https://${HOST}/somewhere/mcp"])
def test_a_path_that_is_written_out_or_wholly_elsewhere_is_shown(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("BASE_URL", "https://h.example/somewhere/mcp")
    monkeypatch.setenv("HOST", "h.example")

    assert "https://h.example/somewhere/mcp" in repr(load_config(files.one(url=url))["here"].client())

"""The arguments of a tool, as they are typed."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import UsageError
from mcp_sync._given_arguments import read_arguments

needs_fifo = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
OPTIONAL_INTEGER = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
COLOURS = {"$defs": {"Colour": {"enum": ["red", "green"]}, "Size": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "5", "5"),
        ({"type": "string"}, "", ""),
        ({"type": "string"}, "a=b", "a=b"),
        ({"type": "string"}, "null", "null"),
        ({"type": "integer"}, "5", 5),
        ({"type": "integer"}, "-5", -5),
        ({"type": "integer"}, "5.0", 5),
        ({"type": "integer"}, "1e3", 1000),
        ({"type": "number"}, "5", 5),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, " -1e-3 ", -0.001),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "No", False),
        ({"type": "boolean"}, "0", False),
        ({"type": "null"}, "null", None),
        ({"type": "object"}, '{"a": [1]}', {"a": [1]}),
        ({"type": "array"}, "[1, 2]", [1, 2]),
        ({"type": "array", "items": {"type": "integer"}}, "7", [7]),
        ({"type": "array"}, "a,b", ["a,b"]),
        ({"type": "array"}, "", []),
        ({"anyOf": [{"type": "string", "enum": ["red"]}, {"type": "null"}]}, "null", None),
        ({"anyOf": [{"type": "string", "enum": ["red"]}, {"type": "null"}]}, "red", "red"),
        ({"type": "wrong"}, "3", "3"),
        ({"type": ["wrong", "integer"]}, "3", 3),
        ({"type": ["integer", "null"]}, "", None),
        ({"type": ["integer", "string"]}, "5", "5"),
        ({"type": ["array", "null"]}, "null", None),
        ({"type": ["boolean", "integer"]}, "1", 1),
        (OPTIONAL_INTEGER, "5", 5),
        (OPTIONAL_INTEGER, "null", None),
        ({"enum": [1, 2, "3"]}, "2", 2),
        ({"enum": [1, 2, "3"]}, "3", "3"),
        ({"enum": [True, None]}, "null", None),
        ({"$ref": "#/$defs/Colour"}, "red", "red"),
        ({"$ref": "#/$defs/Size"}, "3", 3),
        ({"allOf": [{"$ref": "#/$defs/Size"}]}, "3", 3),
        ({"$ref": "#/$defs/Missing"}, "3", "3"),
        ({"$ref": "https://example.com/schema"}, "3", "3"),
        ({}, "3", "3"),
        (True, "3", "3"),
    ],
)
def test_a_value_is_typed_by_the_schema(schema: Any, text: str, value: Any) -> None:
    typed = read_arguments([f"key={text}"]).typed({"properties": {"key": schema}, **COLOURS})["key"]

    assert typed == value
    assert type(typed) is type(value)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer"}, "x"),
        ({"type": "integer"}, "5.5"),
        ({"type": "integer"}, "1_000"),
        ({"type": "number"}, "nan"),
        ({"type": "number"}, "inf"),
        ({"type": "number"}, ""),
        ({"type": "boolean"}, "maybe"),
        ({"type": "object"}, "a"),
        ({"type": "object"}, "{a: 1}"),
        ({"type": "array", "items": {"type": "integer"}}, "x"),
        (OPTIONAL_INTEGER, "x"),
    ],
)
def test_a_text_that_cannot_be_typed_is_refused_by_name(schema: Any, text: str) -> None:
    given = read_arguments([f"key={text}"])

    with pytest.raises(UsageError, match=r"^key: "):
        given.typed({"properties": {"key": schema}})


@pytest.mark.parametrize(
    ("word", "schema"),
    [
        ("api_key=geheim", {"type": "integer"}),
        ("api_key:=geheim", {}),
        ("a=geheim", {"type": "integer", "writeOnly": True}),
        ("a=geheim", {"enum": ["x"], "format": "password"}),
        ("a:=Bearer geheim-und-lang", {}),
    ],
)
def test_a_secret_that_cannot_be_typed_is_not_shown(word: str, schema: Any) -> None:
    with pytest.raises(UsageError, match="the value is") as raised:
        read_arguments([word]).typed({"additionalProperties": schema})

    assert "geheim" not in str(raised.value)


def test_a_schema_that_refers_to_itself_leaves_a_string() -> None:
    schema = {"properties": {"key": {"$ref": "#/properties/key"}}}

    assert read_arguments(["key=5"]).typed(schema) == {"key": "5"}


def test_a_list_of_lists_of_its_own_kind_ends() -> None:
    schema = {"properties": {"key": {"type": "array", "items": {"$ref": "#/properties/key"}}}}

    assert read_arguments(["key=[[]]"]).typed(schema) == {"key": [[]]}
    with pytest.raises(UsageError, match="key: '5' is not of type array"):
        read_arguments(["key=5"]).typed(schema)


def test_what_is_no_list_of_names_requires_nothing() -> None:
    assert read_arguments(["a=1"]).typed({"required": [{}, ["b"], 5]}) == {"a": "1"}
    assert read_arguments(["a=1"]).typed({"required": "b"}) == {"a": "1"}


def test_without_a_schema_everything_is_a_string() -> None:
    assert read_arguments(["a=1", "b=true"]).typed(None) == {"a": "1", "b": "true"}


def test_an_argument_that_the_tool_does_not_declare_is_typed_by_additional_properties() -> None:
    schema = {"properties": {}, "additionalProperties": {"type": "integer"}}

    assert read_arguments(["other=4"]).typed(schema) == {"other": 4}


def test_json_is_taken_as_it_is() -> None:
    given = read_arguments(["a:=1", 'b:="x"', "c:=[true]", "d:=null"])

    assert given.typed({}) == {"a": 1, "b": "x", "c": [True], "d": None}


def test_without_a_check_everything_is_taken_and_typed_as_far_as_that_goes() -> None:
    properties = {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "integer"}}
    schema = {"properties": properties, "required": ["z"], "additionalProperties": False}
    given = read_arguments(["a:=1", "b=x", "c=2", "d=3", "a.b=4"])

    assert given.typed(schema, check=False) == {"a": 1, "b": "x", "c": 2, "d": "3", "a.b": "4"}


def test_values_repeated_for_a_list_become_its_items() -> None:
    schema = {"properties": {"tag": {"type": "array"}}}

    assert read_arguments(["tag=a", "tag=b", 'tag=["c"]']).typed(schema) == {"tag": ["a", "b", "c"]}


def test_values_repeated_where_a_list_is_admitted_beside_a_text_become_its_items() -> None:
    schema = {"properties": {"path": {"anyOf": [{"type": "string"}, {"type": "array"}]}}}

    assert read_arguments(["path=a"]).typed(schema) == {"path": "a"}
    assert read_arguments(["path=a", "path=b"]).typed(schema) == {"path": ["a", "b"]}


def test_an_item_that_cannot_be_typed_is_told_how_a_list_is_written() -> None:
    schema = {"properties": {"n": {"type": "array", "items": {"type": "integer"}}}}

    with pytest.raises(
        UsageError, match="n: '1,2' is not of type integer; a list is written as JSON, or as one n="
    ):
        read_arguments(["n=1,2"]).typed(schema)


def test_an_object_can_be_given_as_it_is_and_other_words_win_over_it() -> None:
    assert read_arguments(['{"a": 1, "b": "x=y"}', "a:=2", '{"c": 3}']).typed(None) == {
        "a": 2,
        "b": "x=y",
        "c": 3,
    }
    with pytest.raises(UsageError, match=r"begins with \{ is no JSON"):
        read_arguments(["{a: 1}"])


def test_a_field_of_another_argument_is_told_how_to_write_it() -> None:
    text, other = {"type": "string"}, {"anyOf": [{"type": "object"}, {"type": "null"}]}
    schema = {"properties": {"address": {"type": "object"}, "text": text, "other": other}}

    with pytest.raises(UsageError, match=r"address\.city: .*written address:='\{\"city\": \.\.\.\}'"):
        read_arguments(["address.city=Oslo"]).typed(schema)
    with pytest.raises(UsageError, match=r"a field of other is written"):
        read_arguments(["other.a=b"]).typed(schema)
    assert read_arguments(["text.a=b"]).typed(schema) == {"text.a": "b"}
    assert read_arguments(["other.a=b"]).typed({**schema, "additionalProperties": True}) == {"other.a": "b"}
    with pytest.raises(UsageError, match=r"a field of other is written"):
        read_arguments(["other.a=b"]).typed({**schema, "additionalProperties": False})


def test_what_may_be_misspelt_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    schema: dict[str, Any] = {"properties": {"city": {}, "units": {}}}
    given = read_arguments(["City=a", "other=b", "units=c"])

    given.typed(schema)
    assert caplog.messages == [
        "City: the tool declares no such argument; did you mean city?",
        "other: the tool declares no such argument",
    ]
    caplog.clear()
    with pytest.raises(UsageError, match=r"missing: city, at; did you mean it by City\?"):
        given.typed({**schema, "required": ["city", "at"]})
    for more in ({"additionalProperties": True}, {"patternProperties": {"x": {}}}):
        given.typed({**schema, **more})
    given.typed(schema, check=False)
    given.typed({})
    assert caplog.messages == []


def test_arguments_may_be_declared_behind_a_reference_or_in_parts() -> None:
    schema = {"allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"properties": {"a": {"type": "integer"}}}}}

    assert read_arguments(["a=1"]).typed({"type": "object", **schema}) == {"a": 1}


def test_other_values_cannot_be_given_twice() -> None:
    with pytest.raises(UsageError, match="a is given twice"):
        read_arguments(["a=1", "a=2"]).typed(None)


def test_a_file_is_read_and_typed(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_text("12\n", encoding="utf-8")
    schema = {"properties": {"text": {"type": "string"}, "number": {"type": "integer"}}}

    given = read_arguments([f"text=@{file}", f"number=@{file}", f"json:=@{file}"])

    assert given.typed(schema) == {"text": "12\n", "number": 12, "json": 12}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")

    with pytest.raises(UsageError, match=r"cannot read .*missing: No such file"):
        read_arguments([f"a=@{tmp_path}/missing"])
    with pytest.raises(UsageError, match=r"cannot read .*binary: it is no UTF-8 text"):
        read_arguments([f"a=@{tmp_path}/binary"])


def test_a_text_that_begins_with_an_at_sign_is_told_how_to_write_it() -> None:
    with pytest.raises(
        UsageError, match=r"""user: cannot read ada: .*; a text that begins with @ is written user:='"@"""
    ):
        read_arguments(["user=@ada"])


def test_the_text_of_an_argument_can_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("a text\n"))

    assert read_arguments(["a=@-"]).typed(None) == {"a": "a text\n"}
    with pytest.raises(UsageError, match="b=@- reads standard input, and there is nothing"):
        read_arguments(["b=@-"])


@needs_fifo
def test_a_pipe_that_nobody_writes_to_its_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    late = "nobody has written it to its end within 0.1 s"

    with pytest.raises(UsageError, match=f"a: cannot read {path}: {late}"):
        read_arguments([f"a=@{path}"], timeout=0.1)

    with open(os.open(path, os.O_RDWR), "r+b", buffering=0) as standing_in:
        standing_in.write(b'{"a": ')
        with open(path, encoding="utf-8") as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            with pytest.raises(UsageError, match=f"- reads standard input: {late}"):
                read_arguments(["-"], timeout=0.1)


@needs_fifo
def test_standard_input_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        os.write(writing, b'{"a": "\xc3\xa9"}\r\n')
        os.close(writing)

        assert read_arguments(["-"]).typed(None) == {"a": "\u00e9"}


def test_standard_input_that_is_no_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    with open(tmp_path / "binary", encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)

        with pytest.raises(UsageError, match="- reads standard input: it is no text"):
            read_arguments(["-"])


def test_a_dash_reads_an_object_and_other_words_win_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"a": 1, "b": [2]}'))

    assert read_arguments(["a:=3", "-"]).typed(None) == {"a": 3, "b": [2]}


@pytest.mark.parametrize("text", ["", "{", "[1]", '"text"', '{"a": NaN}', "[" * 100_000])
def test_standard_input_that_is_no_object_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))

    with pytest.raises(UsageError, match="standard input"):
        read_arguments(["-"])


@pytest.mark.parametrize("word", ["a", "=1", ":=1", "a:1"])
def test_a_word_of_another_form_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="write key=value, key:=json"):
        read_arguments([word])


@pytest.mark.parametrize("word", ["a:=", "a:={", "a:=NaN", "a:=x", "a:=" + "[" * 100_000])
def test_json_that_is_none_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match=r"a: .* is no JSON"):
        read_arguments([word]).typed(None)


def test_what_is_none_of_the_values_of_the_schema_names_them() -> None:
    schema = {"properties": {"colour": {"type": "string", "enum": ["red", "green"]}, "one": {"const": 1}}}

    with pytest.raises(UsageError, match=r"colour: 'blue' is none of \"red\", \"green\""):
        read_arguments(["colour=blue"]).typed(schema)
    assert read_arguments(["one=1"]).typed(schema) == {"one": 1}


def test_what_is_missing_or_unknown_is_named() -> None:
    schema = {"properties": {"a": {}, "b": {}}, "required": ["a", "b"], "additionalProperties": False}

    with pytest.raises(UsageError, match="missing: b"):
        read_arguments(["a=1"]).typed(schema)
    with pytest.raises(UsageError, match="tagz: no such argument; did you mean tags"):
        read_arguments(["tagz=1"]).typed({"properties": {"tags": {}}, "additionalProperties": False})
    with pytest.raises(UsageError, match="c: no such argument; there are: a, b"):
        read_arguments(["a=1", "b=1", "c=1"]).typed(schema)
    assert read_arguments(["a=1", "b=1", "c=1"]).typed({"properties": {"a": {}}}) == dict.fromkeys("abc", "1")

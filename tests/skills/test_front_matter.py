"""The front matter of skills: what is read, what is refused, and what counts as the same as the entry."""

from __future__ import annotations

import json

import pytest

from mcp_sync.skills._comparing import differences
from mcp_sync.skills._front_matter import MOST_CHARACTERS, Malformed, read_front_matter


def matter(*lines: str) -> str:
    return "\n".join(["---", *lines, "---", "", "# Body: not read"])


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        (["a: text"], "text"),
        (["a: https://example.com/x:y  # where"], "https://example.com/x:y"),
        (["a: it goes", "  on here", "", "  and there"], "it goes on here\nand there"),
        (["a: 'it''s: quoted'"], "it's: quoted"),
        (['a: "two\\n lines \\u00e9 \\ud83d\\ude00"'], "two\n lines é 😀"),
        (['a: "over two', '  lines"'], "over two lines"),
        (['a: "over \\', "    \\ two\\\\", '  lines"'], "over  two\\ lines"),
        (["a: |", "  as", "   it", "", "  is"], "as\n it\n\nis\n"),
        (["a: |-", "  bare"], "bare"),
        (["a: |+", "  kept", ""], "kept\n\n"),
        (["a: |", "    "], ""),
        (["a: |+", "  "], "\n"),
        (["a:", "- # with: a comment", "  b"], ["b"]),
        (["a: |2", "   two", "  deep"], " two\ndeep\n"),
        (["a: >", "  folded", "  text", "", "  end"], "folded text\nend\n"),
        (["a: >-", "  one", "    more", "  two"], "one\n  more\ntwo"),
        (["a:", "  - x", "  - y"], ["x", "y"]),
        (["a:", "- x", "- k: v", "  w: u", "- - deep"], ["x", {"k": "v", "w": "u"}, ["deep"]]),
        (["a:", "  b: c", "  'd e': f"], {"b": "c", "d e": "f"}),
        (['a: {"b": ["c", 1], d: e}'], {"b": ["c", 1], "d": "e"}),
        (["a: [x, 'y',", "  z]"], ["x", "y", "z"]),
        (["a:"], None),
        (["a: ~"], None),
        (["a: -5"], -5),
        (["a: 1.0"], 1),
        (["a: true"], True),
    ],
)
def test_what_skills_are_written_with_is_read(lines: list[str], value: object) -> None:
    found = read_front_matter(matter(*lines))
    assert differences(found, {"a": value}) == []


@pytest.mark.parametrize("value", ["yes", "No", "on", "010", "1e3", "2024-01-01", "1:30", "1_000"])
def test_what_versions_of_yaml_read_in_different_ways_may_be_text(value: str) -> None:
    assert differences(read_front_matter(matter(f"a: {value}")), {"a": value}) == []


@pytest.mark.parametrize(
    ("written", "value"),
    [("yes", True), ("010", 8), ("010", 10), ("1e3", 1000), ("-1:30", -90), ("1_000", 1000)],
)
def test_or_what_either_version_reads(written: str, value: object) -> None:
    assert differences(read_front_matter(matter(f"a: {written}")), {"a": value}) == []


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("text", "Text"),
        ("true", "true"),
        ("true", 1),
        ("1", True),
        ("1", "1"),
        ('"1"', 1),
        ("null", ""),
        ("", ""),
        ("text", None),
        ("[a]", ["a", "b"]),
        ("[a]", "a"),
        ("{b: c}", {"b": "c", "d": "e"}),
        ("{b: c, d: e}", {"b": "c"}),
    ],
)
def test_what_differs_is_named(written: str, value: object) -> None:
    [name] = differences(read_front_matter(matter(f"a: {written}")), {"a": value})
    assert name in ("a", "a.d")


def test_fields_that_are_missing_on_either_side_are_named() -> None:
    assert differences({"a": "x", "b": "y"}, {"a": "x", "c": "z"}) == ["b", "c"]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["a: &x b"], "anchors"),
        (["a: *x"], "anchors"),
        (["a: !!python/object:os.system x"], "anchors"),
        (["<<: {b: c}"], "not read here"),
        (["a: b", "a: c"], "twice"),
        (["a: {b: 1, b: 2}"], "twice"),
        (["a: {http://x: 1}"], "no name"),
        (["? a"], "anchors"),
        (["a: b", "\tc: d"], "tab"),
        (["a: b", "  c: d"], "colon"),
        (["a: b: c"], "colon"),
        (["a:", "  b: c", " d: e"], "indented"),
        (["just text"], "mapping"),
        (["- a"], "mapping"),
        (['a: "open'], "quotation mark"),
        (["a: 'open"], "quotation mark"),
        (['a: "x" y'], "follows"),
        (["a: [b"], "missing|not read"),
        (["a: {b: c"], "missing|not read"),
        (['a: "\\q"'], "escape"),
        (['a: "\\ud83d"'], "half a character"),
        (["a: " + "[" * 50], "levels deep"),
        ([f"{' ' * depth}a:" for depth in range(50)], "levels deep"),
        ([f"a: {'x' * MOST_CHARACTERS}"], "second line of three hyphens"),
    ],
)
def test_what_could_mean_two_things_or_nothing_is_refused(lines: list[str], why: str) -> None:
    with pytest.raises(Malformed, match=why):
        read_front_matter(matter(*lines))


@pytest.mark.parametrize(
    "text", ["", "# Title", "<!DOCTYPE html><html>", "----\na: b\n---", "---\na: b\n", " ---"]
)
def test_a_file_without_front_matter_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        read_front_matter(text)


def test_line_ends_of_windows_and_a_byte_order_mark_are_taken() -> None:
    assert read_front_matter("\ufeff---\r\na: b\r\n---\r\n") == {"a": "b"}


def test_json_is_read_as_it_is() -> None:
    value = {"a b": [1, 2.5, -3, True, None, "x: y # z", {"e": {}, "l": []}], "ü\n\"'": "\\ \t é 😀 \u2028"}
    for ascii_only in (True, False):
        written = json.dumps(value, ensure_ascii=ascii_only)
        assert differences(read_front_matter(matter(f"a: {written}")), {"a": value}) == []


def test_hostile_text_takes_no_time_to_speak_of() -> None:
    quotes, escapes, spaces = "a: '" + "''" * 30000, 'a: "' + "\\" * 60001, "a" + " " * 60000 + "b"
    for lines in ([quotes], [escapes], [spaces], ["a: b", *[""] * 60000, "x"], ["a: [" + '"",' * 20000]):
        with pytest.raises(Malformed):
            read_front_matter(matter(*lines))

"""The front matter of a ``SKILL.md``, read.

It is YAML. What skills are written with is read here: mappings, lists, quoted, plain and folded text, and
JSON. Anchors, tags, and whatever else could make one text mean two things is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NoReturn, Optional

MOST_CHARACTERS = 64 * 1024
_DEEPEST = 16
_FENCE = re.compile(r"---[ \t]*")
_DOUBLE_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SINGLE_QUOTED = re.compile(r"'[^']*(?:''[^']*)*'")
_BLOCK_HEADER = re.compile(r"([|>])([+-]?)([1-9]?)([+-]?)(?:[ \t]+#.*|[ \t]*)")
_FLOW_PLAIN = re.compile(r"[^\s,\[\]{}#\"'&*!|>%@`][^,\[\]{}\n#]*")
_SPACE = re.compile(r"\s*")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
# A backslash at the end of a line takes the line break, and what indents the next line, away.
_ESCAPED_BREAK = re.compile(r"(?<!\\)((?:\\\\)*)\\\n[ \t]*")
_ESCAPES = dict(zip('0abtnvfre "/\\N_LP', '\0\a\b\t\n\v\f\r\x1b "/\\\x85\xa0\u2028\u2029'))


class Malformed(ValueError):
    """It is no front matter, or has what is not read here. The message says what and where."""


class Plain(str):
    """Text without quotes, which may stand for a number, a truth value or nothing."""


def read_front_matter(text: str) -> dict[str, Any]:
    """Return what stands at the head of a ``SKILL.md``.

    Raises:
        Malformed: There is none, or it is not of the kind that is read here.
    """
    lines = text.lstrip("\ufeff")[: MOST_CHARACTERS + 1].replace("\r\n", "\n").split("\n")
    if not _FENCE.fullmatch(lines[0]):
        raise Malformed(f"it does not begin with a line of three hyphens, but with {text[:40]!r}")
    for row, line in enumerate(lines[1:], 1):
        if _FENCE.fullmatch(line):
            return _Reader(lines[1:row]).read()
    raise Malformed(f"no second line of three hyphens within {MOST_CHARACTERS} characters")


class _Reader:
    """Reads the lines between the fences, from top to bottom."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._row = 0

    def read(self) -> dict[str, Any]:
        first = self._peek()
        found = self._block(first[0], 0) if first else {}
        if not isinstance(found, dict) or self._peek():
            self._fail("it is not a mapping of names to values")
        return found

    def _fail(self, why: str) -> NoReturn:
        # The fence is line 1.
        raise Malformed(f"line {min(self._row, len(self._lines)) + 2}: {why}")

    def _peek(self) -> Optional[tuple[int, str]]:
        """Return the indentation and the content of the next line that says something."""
        while self._row < len(self._lines):
            line = self._lines[self._row]
            content = line.strip()
            if content and not content.startswith("#"):
                indent = len(line) - len(line.lstrip(" "))
                if line[indent] == "\t":
                    self._fail("a tab indents it")
                return indent, content
            self._row += 1
        return None

    def _block(self, indent: int, depth: int) -> Any:
        line = self._peek()
        if line is None or depth > _DEEPEST:
            self._fail(f"it is nested more than {_DEEPEST} levels deep")
        if _is_item(line[1]):
            return self._list(indent, depth)
        if _key_end(line[1]) is not None:
            return self._mapping(indent, depth)
        self._row += 1
        return self._value(line[1], indent - 1, depth, in_mapping=False)

    def _mapping(self, indent: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while True:
            line = self._peek()
            if line is None or line[0] < indent:
                return found
            if line[0] > indent or _is_item(line[1]):
                self._fail("it is indented like nothing above it")
            end = _key_end(line[1])
            if end is None:
                self._fail(f"{line[1][:40]!r} is no name with a value")
            key = self._key(line[1][:end].rstrip())
            if key in found:
                self._fail(f"{key!r} is there twice")
            self._row += 1
            found[key] = self._value(line[1][end + 1 :].strip(), indent, depth, in_mapping=True)

    def _key(self, text: str) -> str:
        if text[:1] in ('"', "'"):
            return self._unquoted(text)
        if not text or text[0] in "?&*!|>%@`[]{},#" or text == "<<" or " #" in text:
            self._fail(f"the name {text[:40]!r} is not read here")
        return text

    def _list(self, indent: int, depth: int) -> list[Any]:
        found: list[Any] = []
        while True:
            line = self._peek()
            if line is None or line[0] < indent or (line[0] == indent and not _is_item(line[1])):
                return found
            if line[0] > indent:
                self._fail("it is indented like nothing above it")
            rest = line[1][1:].strip()
            rest = "" if rest.startswith("#") else rest
            if rest and (_is_item(rest) or (_key_end(rest) is not None and rest[0] not in "[{")):
                # A mapping or a list that begins beside the hyphen: read as if the hyphen were a space.
                replaced = " " * (indent + 1) + self._lines[self._row][indent + 1 :]
                self._lines[self._row] = replaced
                found.append(self._block(len(replaced) - len(replaced.lstrip(" ")), depth + 1))
            else:
                self._row += 1
                found.append(self._value(rest, indent, depth, in_mapping=False))

    def _value(self, rest: str, indent: int, depth: int, in_mapping: bool) -> Any:
        """Return the value that begins with the rest of a line; the row is the one after it."""
        if not rest or rest.startswith("#"):
            line = self._peek()
            nested = line and (line[0] > indent or (in_mapping and line[0] == indent and _is_item(line[1])))
            return self._block(line[0], depth + 1) if line and nested else Plain("")
        if rest[0] in "|>":
            return self._block_text(rest, indent)
        if rest[0] in "\"'[{":
            return self._enclosed(rest, depth)
        if rest[0] in "&*!%@`,]}?" or rest[:2] in (": ", "- "):
            self._fail(f"{rest[:20]!r}: anchors, tags and the like are not read here")
        return Plain(self._plain(rest, indent))

    def _plain(self, rest: str, indent: int) -> str:
        parts = [rest.split(" #", 1)[0].rstrip()]
        while " #" not in rest and self._row < len(self._lines):
            rest = self._lines[self._row].strip()
            line = self._lines[self._row]
            if rest and (len(line) - len(line.lstrip(" ")) <= indent or rest.startswith("#")):
                break
            parts.append(rest.split(" #", 1)[0].rstrip())
            self._row += 1
        if any(_key_end(part) is not None for part in parts):
            self._fail("a colon stands in text without quotes")
        return _fold("\n".join(parts).rstrip("\n"))

    def _block_text(self, header: str, indent: int) -> str:
        match = _BLOCK_HEADER.fullmatch(header)
        if match is None or (match[2] and match[4]):
            self._fail(f"{header[:20]!r} begins no block of text")
        start = self._row
        while self._row < len(self._lines):
            line = self._lines[self._row]
            if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
                break
            self._row += 1
        lines = self._lines[start : self._row]
        margins = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
        margin = indent + int(match[3]) if match[3] else (margins or [MOST_CHARACTERS])[0]
        if any(width < margin for width in margins):
            self._fail("a block of text is indented less than its first line")
        cut = [line[margin:] for line in lines]
        while cut and not cut[-1]:
            cut.pop()
        text = "\n".join(cut) if match[1] == "|" else _fold_block(cut)
        chomping = match[2] or match[4]
        if chomping == "-":
            return text
        blanks = len(lines) - len(cut) if chomping == "+" else 0
        return text + "\n" * (blanks + bool(cut))

    def _enclosed(self, rest: str, depth: int) -> Any:
        """Return a value in quotes or brackets, which may go on over the following lines."""
        tail = "\n".join([rest, *self._lines[self._row :]])
        value, end = self._flow(tail, 0, depth + 1)
        self._row += tail.count("\n", 0, end)
        after = tail[end:].split("\n", 1)[0]
        if after.strip() and not after.lstrip().startswith("#"):
            self._fail(f"{after.strip()[:20]!r} follows a value that is complete")
        return value

    def _flow(self, text: str, at: int, depth: int) -> tuple[Any, int]:
        if depth > _DEEPEST:
            self._fail(f"it is nested more than {_DEEPEST} levels deep")
        if text[at : at + 1] in ('"', "'"):
            match = (_DOUBLE_QUOTED if text[at] == '"' else _SINGLE_QUOTED).match(text, at)
            if match is None:
                self._fail("a quotation mark is missing")
            return self._unquoted(match[0]), match.end()
        if text[at : at + 1] == "[":
            return self._flow_list(text, at, depth)
        if text[at : at + 1] == "{":
            return self._flow_mapping(text, at, depth)
        match = _FLOW_PLAIN.match(text, at)
        if match is None or _key_end(match[0].strip()) is not None:
            self._fail(f"{text[at : at + 20]!r} is not read here")
        return Plain(match[0].strip()), match.end()

    def _flow_list(self, text: str, at: int, depth: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        at = _skip(text, at + 1)
        while text[at : at + 1] != "]":
            value, at = self._flow(text, at, depth + 1)
            found.append(value)
            at = self._separated(text, at, "]")
        return found, at + 1

    def _flow_mapping(self, text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        at = _skip(text, at + 1)
        while text[at : at + 1] != "}":
            if text[at : at + 1] in ('"', "'"):
                key, at = self._flow(text, at, depth + 1)
                at = _skip(text, at)
            else:
                end = text.find(":", at)
                key, at = self._key(text[at:end].strip()), end
                if re.search(r"[,\[\]{}\n]", key) or text[at + 1 : at + 2] not in (" ", "\n"):
                    self._fail(f"{key[:40]!r} is no name with a value")
            if text[at : at + 1] != ":" or key in found:
                self._fail(f"the name {str(key)[:40]!r} is there twice, or has no value")
            value, at = self._flow(text, _skip(text, at + 1), depth + 1)
            found[str(key)] = value
            at = self._separated(text, at, "}")
        return found, at + 1

    def _separated(self, text: str, at: int, closing: str) -> int:
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            return _skip(text, at + 1)
        if text[at : at + 1] != closing:
            self._fail(f"a comma or {closing} is missing")
        return at

    def _unquoted(self, quoted: str) -> str:
        if len(quoted) < 2 or quoted[-1] != quoted[0]:
            self._fail("a quotation mark is missing")
        if quoted[0] == "'":
            return _fold(quoted[1:-1]).replace("''", "'")
        text = _ESCAPE.sub(self._escaped, _fold(_ESCAPED_BREAK.sub(r"\1", quoted[1:-1])))
        try:
            # JSON writes what is beyond the first plane as two escapes.
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeError:
            self._fail("half a character is escaped")

    def _escaped(self, match: re.Match[str]) -> str:
        name = match[1]
        if len(name) > 1 and int(name[1:], 16) <= 0x10FFFF:
            return chr(int(name[1:], 16))
        if name not in _ESCAPES:
            self._fail(f"the escape {match[0]!r} is not read here")
        return _ESCAPES[name]


def _is_item(content: str) -> bool:
    return content == "-" or content.startswith("- ")


def _key_end(content: str) -> Optional[int]:
    """Return where the colon after a name stands, ``None`` where there is none."""
    start = 0
    if content[:1] in ('"', "'"):
        quoted = (_DOUBLE_QUOTED if content[0] == '"' else _SINGLE_QUOTED).match(content)
        if quoted is None:
            return None
        start = quoted.end()
        rest = content[start:].lstrip()
        if not (rest == ":" or rest.startswith(": ")):
            return None
    elif content[:1] in ("[", "{"):
        return None
    content = content.split(" #", 1)[0].rstrip() if start == 0 else content
    end = content.find(": ", start)
    if end < 0 and content.endswith(":"):
        end = len(content) - 1
    return end if end >= 0 else None


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _fold(text: str) -> str:
    """Return text over several lines as one: a line break is a space, and an empty line a line break."""
    if "\n" not in text:
        return text
    first, *rest = text.split("\n")
    folded, blanks = first.rstrip(" \t"), 0
    for index, line in enumerate(rest, 1):
        is_last = index == len(rest)
        part = line.lstrip(" \t") if is_last else line.strip(" \t")
        if not part and not is_last:
            blanks += 1
            continue
        folded += ("\n" * blanks or " ") + part
        blanks = 0
    return folded


def _fold_block(lines: Sequence[str]) -> str:
    folded, blanks, kept = "", 0, False
    for line in lines:
        if not line:
            blanks += 1
            continue
        keeps = line[0] in " \t"
        if not folded:
            folded = "\n" * blanks
        elif keeps or kept:
            folded += "\n" * (blanks + 1)
        else:
            folded += "\n" * blanks or " "
        folded, blanks, kept = folded + line, 0, keeps
    return folded

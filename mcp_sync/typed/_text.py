"""Text of servers as literals of Python code. Whatever it is, it stays text."""

from __future__ import annotations

import re
import textwrap


def literal(text: str) -> str:
    """Return a string literal on one line."""
    return '"' + "".join(map(_escaped, text)).replace("\n", "\\n").replace('"', '\\"') + '"'


def docstring(text: str, indent: str) -> str:
    """Return a docstring, with its quotes; empty for no text.

    Args:
        text: Any text.
        indent: What stands before each line.
    """
    # Python 3.13 cannot compile a docstring with half a character in it.
    whole = text.encode("utf-8", "replace").decode("utf-8")
    lines = [line.rstrip() for line in whole.strip().split("\n")]
    escaped = "".join(map(_escaped, textwrap.dedent("\n".join(lines)).strip()))
    if not escaped:
        return ""
    # No two quotes stand side by side, and none at the end.
    escaped = re.sub(r'"(?="|$)', r"\\" + '"', escaped)
    body = f"\n{indent}".join(escaped.split("\n"))
    body = re.sub(r"\n[ ]+(?=\n)", "\n", body)
    end = f"\n{indent}" if "\n" in body else ""
    return f'{indent}"""{body}{end}"""\n'


def _escaped(char: str) -> str:
    if char == "\n" or (char.isprintable() and char != "\\"):
        return char
    if char == "\\":
        return "\\\\"
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

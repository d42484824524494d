"""The README and the pages beside the examples, as the tests read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
EXAMPLES = ROOT / "examples"
PAGES = [README, *sorted(EXAMPLES.glob("*.md"))]

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block. One with a file is what the page has its reader put there; with a +, at its end."""

    language: str
    file: str
    text: str
    line: int


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def page_named(name: str) -> Path:
    return EXAMPLES / f"{name}.md"


def blocks(page: Path, *languages: str) -> list[Block]:
    return [block for block in _blocks(text_of(page)) if block.language in languages or not languages]


def _blocks(text: str) -> Iterator[Block]:
    for match in _FENCE.finditer(text):
        language, _, file = match[1].partition(" ")
        yield Block(language, file, match[2], text.count("\n", 0, match.start()) + 1)


def prose(page: Path) -> str:
    """Return the text of a page without its fenced blocks."""
    return _FENCE.sub("", text_of(page))


def section(page: Path, title: str) -> str:
    """Return what is below a title of the second level."""
    text = text_of(page)
    return text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def anchors(page: Path) -> list[str]:
    """Return the names by which the titles of a page can be linked to."""
    titles = re.findall(r"^#{1,6} (.+)$", prose(page), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]


def rows(text: str) -> list[list[str]]:
    """Return the cells of the rows of the tables in a text, without their heads."""
    found = []
    for table in re.findall(r"^\|.*\n\|[ :|-]+\n((?:\|.*\n?)*)", text, re.MULTILINE):
        for row in table.splitlines():
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]])
    return found


def names_in_code(cell: str) -> set[str]:
    """Return the names in the code of a cell, without what is in quotation marks."""
    code = re.sub(r'"[^"]*"', "", " ".join(re.findall(r"`([^`]+)`", cell)))
    return set(re.findall(r"[A-Za-z_]\w*", code))

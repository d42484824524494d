"""The names that a port leads to are there."""

from __future__ import annotations

import re

from .names import names_of
from .pages import README, names_in_code, page_named, rows, section

PAGE = page_named("porting-from-the-sdk")
VERSIONS = ["From 1.x", "From 2.x"]
# Words of Python and of requests, and what stands for something of the reader's.
GIVEN = set(
    """
    False True and as async def dumps from import in json or requests Session sys with
    answers args command envelope method path ResultType target transport uri url
    """.split()  # noqa: SIM905
)


def test_every_name_on_our_side_is_there() -> None:
    known = GIVEN | names_of("mcp_sync", without=["mcp_sync.cli", "mcp_sync.contrib"])
    tables = "".join(
        [section(README, "From the official SDK"), *(section(PAGE, title) for title in VERSIONS)]
    )
    found = [(right, names_in_code(right)) for _left, right in rows(tables)]

    assert len(found) > 60
    assert {cell: names - known for cell, names in found if names - known} == {}


def test_what_is_imported_can_be_imported() -> None:
    for _left, right in rows(section(PAGE, "From 1.x") + section(PAGE, "From 2.x")):
        for line in re.findall(r"`(from mcp_sync[^`]*)`", right):
            exec(line, {})

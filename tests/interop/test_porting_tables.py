"""The tables for a port name what the official SDKs really have."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from documentation import names
from documentation.pages import names_in_code, page_named, rows, section

from .install import venv_python

PAGE = page_named("porting-from-the-sdk")
# Words of Python and of other libraries, and what stands for something of the reader's.
GIVEN = set(
    """
    False True as async from import timedelta with
    AnyUrl args arguments command file name read ResultType seconds server tool uri url write
    """.split()  # noqa: SIM905
)


@pytest.mark.parametrize(
    ("maker", "packages", "title"),
    [
        ("sdk1", ["mcp.client", "mcp.shared", "mcp.types"], "From 1.x"),
        ("sdk2", ["mcp.client", "mcp.shared", "mcp_types"], "From 2.x"),
    ],
)
def test_every_name_on_the_side_of_the_sdk_is_there(maker: str, packages: list[str], title: str) -> None:
    printed = run(maker, names.__file__, *packages)
    known = GIVEN | set(json.loads(printed))
    found = [(left, names_in_code(left)) for left, _right in rows(section(PAGE, title))]

    assert len(found) > 30
    assert {cell: wrong - known for cell, wrong in found if wrong - known} == {}


@pytest.mark.parametrize(("maker", "title"), [("sdk1", "From 1.x"), ("sdk2", "From 2.x")])
def test_what_is_imported_from_the_sdk_can_be_imported(maker: str, title: str) -> None:
    lines = re.findall(r"`(from mcp[. ][^`]*)`", section(PAGE, title))

    assert lines
    run(maker, "-c", "; ".join(lines))


def run(maker: str, *words: str) -> str:
    command = [str(venv_python(maker)), "-W", "ignore", *words]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout

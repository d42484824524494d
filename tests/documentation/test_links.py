"""Every link of the README and of the pages leads somewhere, and every page can be found."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from .pages import PAGES, README, ROOT, anchors, prose, section, text_of

_LINK = re.compile(r"\]\(([^)\s]+)\)")


def links(page: Path) -> list[str]:
    return _LINK.findall(prose(page))


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.scheme == "https", link
            continue
        # Relative, and inside of the project: so it works wherever a copy of the repository is shown.
        target = (page.parent / parts.path).resolve() if parts.path else page
        assert ROOT in target.parents, link
        assert target.exists(), link
        if parts.fragment:
            assert parts.fragment in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_a_title_names_one_section(page: Path) -> None:
    names = anchors(page)

    assert len(names) == len(set(names))


def test_the_readme_leads_to_every_page_and_to_its_own_sections() -> None:
    found = set(_LINK.findall(section(README, "Where to look")))

    assert {link.partition("#")[0] for link in found} >= {f"examples/{page.name}" for page in PAGES[1:]}
    own = {f"#{name}" for name in anchors(README)}
    assert own - found == {"#mcp_sync", "#try-it", "#where-to-look", "#license"}


def test_the_pages_name_every_example() -> None:
    told = "".join(prose(page) for page in PAGES)
    there = [path.name for path in (ROOT / "examples").glob("*.py")]

    assert there
    assert [name for name in there if name not in told] == []


def test_they_speak_to_users_only() -> None:
    for page in PAGES:
        for word in ("/tmp", "/work", "/root", "issue #", "TODO"):
            assert word not in text_of(page), f"{page}: {word}"

"""The table of revisions."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_sync._protocol.versions import (
    HANDSHAKE_VERSIONS,
    LATEST_HANDSHAKE,
    LATEST_MODERN,
    MODERN_VERSIONS,
    TRAITS,
    best_common,
)

SCHEMAS = Path(__file__).parent.parent / "schema"


def test_every_published_revision_has_a_row_and_no_other_has():
    published = {folder.name for folder in SCHEMAS.iterdir() if folder.is_dir()}
    assert set(TRAITS) == published


def test_revisions_stand_newest_first():
    assert list(TRAITS) == sorted(TRAITS, reverse=True)
    assert LATEST_MODERN == MODERN_VERSIONS[0] == "2026-07-28"
    assert LATEST_HANDSHAKE == HANDSHAKE_VERSIONS[0] == "2025-11-25"


def test_every_revision_belongs_to_one_era():
    assert sorted([*MODERN_VERSIONS, *HANDSHAKE_VERSIONS]) == sorted(TRAITS)


@pytest.mark.parametrize(
    ("trait", "since", "until"),
    [
        ("modern", "2026-07-28", None),
        ("version_header", "2025-06-18", None),
        ("elicitation_modes", "2025-06-18", None),
    ],
)
def test_a_trait_belongs_to_the_revisions_that_the_specification_gives_it(trait, since, until):
    having = {version for version, traits in TRAITS.items() if getattr(traits, trait)}
    assert having == {version for version in TRAITS if since <= version <= (until or version)}


def test_elicitation_by_url_came_after_elicitation_by_form():
    assert TRAITS["2025-06-18"].elicitation_modes == ("form",)
    assert TRAITS["2025-11-25"].elicitation_modes == ("form", "url")


@pytest.mark.parametrize(
    ("theirs", "best"),
    [
        (["2024-11-05", "2025-06-18"], "2025-06-18"),
        (["2025-06-18", "2024-11-05", "2099-01-01"], "2025-06-18"),
        (["2099-01-01"], None),
        ([], None),
        ([None, 7, ["2025-06-18"], {}], None),
        ([None, "2025-03-26", {"a": 1}], "2025-03-26"),
    ],
)
def test_our_own_order_decides_which_common_revision_is_best(theirs, best):
    assert best_common(HANDSHAKE_VERSIONS, theirs) == best

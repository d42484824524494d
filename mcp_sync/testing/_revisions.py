"""Which revisions of the protocol a fake server speaks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Union

from .._protocol.versions import TRAITS


def served_versions(wanted: Union[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the revisions that are meant, newest first.

    Args:
        wanted: ``"all"``, ``"modern"``, ``"legacy"``, a version, or several.
    """
    if isinstance(wanted, str):
        known = {
            "all": tuple(TRAITS),
            "modern": tuple(version for version, traits in TRAITS.items() if traits.modern),
            "legacy": tuple(version for version, traits in TRAITS.items() if not traits.modern),
        }
        return known.get(wanted, (wanted,))
    # Dates sort as text; newest first, as the specification lists them.
    return tuple(sorted(wanted, reverse=True))


def is_modern(version: str) -> bool:
    """Whether a revision does without a handshake; one that is not known yet does."""
    traits = TRAITS.get(version)
    return traits is None or traits.modern

"""Which revisions of the protocol a fake server speaks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Union

from .._protocol.versions import TRAITS

_CHOICE = f'"all", "modern", "legacy", or one or several of {", ".join(TRAITS)}'
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def served_versions(wanted: Union[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the revisions that are meant, newest first.

    Args:
        wanted: ``"all"``, ``"modern"``, ``"legacy"``, a version, or several. A date that is no revision
            yet is one of the future.

    Raises:
        TypeError: It is neither text nor several texts.
        ValueError: It is no revision, or none at all.
    """
    if isinstance(wanted, str):
        known = {
            "all": tuple(TRAITS),
            "modern": tuple(version for version, traits in TRAITS.items() if traits.modern),
            "legacy": tuple(version for version, traits in TRAITS.items() if not traits.modern),
        }
        if wanted in known:
            return known[wanted]
        wanted = (wanted,)
    versions = tuple(wanted) if isinstance(wanted, Iterable) else (wanted,)
    for version in versions:
        if not isinstance(version, str):
            raise TypeError(f"versions must be text, {_CHOICE}, not {version!r}")
        if not _DATE.fullmatch(version):
            raise ValueError(f"versions must be {_CHOICE}, not {version!r}")
    if not versions:
        raise ValueError(f"versions must be {_CHOICE}, not nothing")
    # Dates sort as text; newest first, as the specification lists them.
    return tuple(sorted(versions, reverse=True))


def is_modern(version: str) -> bool:
    """Whether a revision does without a handshake; one that is not known yet does."""
    traits = TRAITS.get(version)
    return traits is None or traits.modern

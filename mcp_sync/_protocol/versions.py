"""The protocol revisions, and how they differ. No other module names a revision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class VersionTraits:
    """What distinguishes one revision from the others.

    Attributes:
        version: The revision's date, as it stands on the wire.
        modern: Stateless: every request carries version and capabilities; no handshake, no session.
        version_header: HTTP requests carry ``MCP-Protocol-Version``.
        elicitation_modes: How the server may ask the user.
    """

    version: str
    modern: bool = False
    version_header: bool = True
    elicitation_modes: tuple[str, ...] = ()


_TRAITS = (
    VersionTraits("2026-07-28", modern=True, elicitation_modes=("form", "url")),
    VersionTraits("2025-11-25", elicitation_modes=("form", "url")),
    VersionTraits("2025-06-18", elicitation_modes=("form",)),
    VersionTraits("2025-03-26", version_header=False),
    VersionTraits("2024-11-05", version_header=False),
)

TRAITS: dict[str, VersionTraits] = {traits.version: traits for traits in _TRAITS}
"""All known revisions, newest first."""

MODERN_VERSIONS = tuple(traits.version for traits in _TRAITS if traits.modern)
HANDSHAKE_VERSIONS = tuple(traits.version for traits in _TRAITS if not traits.modern)
LATEST_MODERN = MODERN_VERSIONS[0]
LATEST_HANDSHAKE = HANDSHAKE_VERSIONS[0]


def best_common(ours: Iterable[str], theirs: Iterable[object]) -> Optional[str]:
    """Return the first of ``ours`` that is among ``theirs``, or ``None``."""
    offered = set(filter(lambda item: isinstance(item, str), theirs))
    return next((version for version in ours if version in offered), None)

"""Definitions that only old revisions have."""

from __future__ import annotations

from mcp_sync.types._base import WireModel
from mcp_sync.types._lenient import Lenient
from mcp_sync.types.metadata import Annotations

__all__ = ["Annotated"]


class Annotated(WireModel):
    """Base of models with annotations (2024-11-05)."""

    annotations: Lenient[Annotations] = None

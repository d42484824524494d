"""Completion: suggestions for arguments (server/utilities/completion)."""

from __future__ import annotations

from typing import Literal, Optional

from mcp_sync.types._base import WireModel
from mcp_sync.types._lenient import Lenient
from mcp_sync.types.messages import Result
from mcp_sync.types.metadata import BaseMetadata
from mcp_sync.types.scalars import Number

__all__ = [
    "CompleteResult",
    "Completion",
    "CompletionArgument",
    "CompletionContext",
    "PromptReference",
    "ResourceReference",
    "ResourceTemplateReference",
]


class PromptReference(BaseMetadata):
    """The prompt whose argument is to be completed."""

    type: Literal["ref/prompt"] = "ref/prompt"


class ResourceTemplateReference(WireModel):
    """The resource template whose argument is to be completed.

    Attributes:
        uri: The template, or an address.
    """

    type: Literal["ref/resource"] = "ref/resource"
    uri: str


ResourceReference = ResourceTemplateReference
"""The name of revisions before 2025-06-18."""


class CompletionArgument(WireModel):
    """The argument to complete.

    Attributes:
        value: What the user has typed so far.
    """

    name: str
    value: str


class CompletionContext(WireModel):
    """What the user has filled in already (since 2025-06-18)."""

    arguments: Optional[dict[str, str]] = None


class Completion(WireModel):
    """Suggestions.

    Attributes:
        values: At most 100 of them, best first.
        total: How many there are in all, if the server knows.
        has_more: Whether there are more than these.
    """

    values: list[str]
    total: Lenient[Number] = None
    has_more: Lenient[bool] = None


class CompleteResult(Result):
    """The answer to `completion/complete`."""

    completion: Completion

"""Sampling: a server asks the client's language model (client/sampling; deprecated since 2026-07-28)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Optional, Union

from pydantic import Field

from mcp_sync.types._base import WireModel
from mcp_sync.types._lenient import Entries, Kept, Lenient
from mcp_sync.types.content import SamplingMessageContentBlock, TextContent
from mcp_sync.types.messages import Request, Result, TaskAugmentedRequestParams
from mcp_sync.types.scalars import IncludeContext, Number, Role, StopReason
from mcp_sync.types.tools import Tool

__all__ = [
    "CreateMessageRequest",
    "CreateMessageRequestParams",
    "CreateMessageResult",
    "CreateMessageResultWithTools",
    "ModelHint",
    "ModelPreferences",
    "SamplingMessage",
    "ToolChoice",
]

_OneOrMore = Annotated[
    Union[list[SamplingMessageContentBlock], SamplingMessageContentBlock],
    Field(union_mode="left_to_right"),
]


class ModelHint(WireModel):
    """A wish for a model.

    Attributes:
        name: A part of a model's name, such as `sonnet`.
    """

    name: Lenient[str] = None


class ModelPreferences(WireModel):
    """What the server cares about when the client chooses a model. The client may ignore it.

    Attributes:
        hints: Wishes, the first that can be met wins.
        cost_priority: How much low cost matters, from 0 to 1.
        speed_priority: How much speed matters, from 0 to 1.
        intelligence_priority: How much ability matters, from 0 to 1.
    """

    hints: Lenient[list[ModelHint]] = None
    cost_priority: Lenient[Number] = None
    speed_priority: Lenient[Number] = None
    intelligence_priority: Lenient[Number] = None


class ToolChoice(WireModel):
    """How the model may use tools (since 2025-11-25).

    Attributes:
        mode: `auto` lets the model decide (default), `required` makes it use one, `none` forbids it.
    """

    mode: Lenient[Literal["auto", "required", "none"]] = None


class SamplingMessage(WireModel):
    """One message to or from a model.

    Attributes:
        content: One block, or since 2025-11-25 a list of blocks.
    """

    role: Kept[Role]
    content: _OneOrMore
    meta: Lenient[dict[str, Any]] = None

    @property
    def content_as_list(self) -> list[SamplingMessageContentBlock]:
        """The blocks as a list, also when there is one."""
        return self.content if isinstance(self.content, list) else [self.content]


class CreateMessageRequestParams(TaskAugmentedRequestParams):
    """What a sampling callback receives.

    Attributes:
        messages: The conversation so far.
        model_preferences: What to consider in the choice of a model.
        system_prompt: A system prompt; the client may change it or leave it out.
        include_context: Deprecated wish for context of this or all servers.
        max_tokens: The most tokens to generate.
        stop_sequences: Texts that end the generation.
        metadata: Anything for the model's provider.
        tools: Tools that the model may use (since 2025-11-25).
        tool_choice: How it may use them.
    """

    messages: list[SamplingMessage]
    model_preferences: Lenient[ModelPreferences] = None
    system_prompt: Lenient[str] = None
    include_context: Lenient[IncludeContext] = None
    temperature: Lenient[Number] = None
    max_tokens: Number
    stop_sequences: Lenient[list[str]] = None
    metadata: Lenient[dict[str, Any]] = None
    tools: Optional[Annotated[list[Tool], Entries("tool")]] = None
    tool_choice: Lenient[ToolChoice] = None


class CreateMessageRequest(Request):
    """The server asks for a message of the model."""

    _always_sent: ClassVar[frozenset[str]] = frozenset({"method"})

    method: Literal["sampling/createMessage"] = "sampling/createMessage"
    params: CreateMessageRequestParams


class CreateMessageResult(Result):
    """What a sampling callback returns: the message that the model generated.

    Attributes:
        content: One block, or since 2025-11-25 a list of blocks.
        model: Name of the model.
        stop_reason: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or a provider's own word.
    """

    role: Kept[Role] = "assistant"
    content: _OneOrMore
    model: str
    stop_reason: Lenient[StopReason] = None

    @classmethod
    def from_text(
        cls, text: str, *, model: str, stop_reason: StopReason | None = "endTurn"
    ) -> CreateMessageResult:
        """Make a result of one text."""
        return cls(role="assistant", content=TextContent(text=text), model=model, stop_reason=stop_reason)

    @property
    def content_as_list(self) -> list[SamplingMessageContentBlock]:
        """The blocks as a list, also when there is one."""
        return self.content if isinstance(self.content, list) else [self.content]


CreateMessageResultWithTools = CreateMessageResult
"""One model serves both forms."""

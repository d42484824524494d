"""What a client and a server can do (basic/lifecycle)."""

from __future__ import annotations

from typing import Any

from mcp_sync.types._base import WireModel
from mcp_sync.types._lenient import Lenient

__all__ = [
    "Capability",
    "ClientCapabilities",
    "ClientTasksCapability",
    "ClientTasksRequestsCapability",
    "CompletionsCapability",
    "ElicitationCapability",
    "FormElicitationCapability",
    "LoggingCapability",
    "PromptsCapability",
    "ResourcesCapability",
    "RootsCapability",
    "SamplingCapability",
    "SamplingContextCapability",
    "SamplingToolsCapability",
    "ServerCapabilities",
    "ServerTasksCapability",
    "ServerTasksRequestsCapability",
    "TasksCallCapability",
    "TasksCancelCapability",
    "TasksCreateElicitationCapability",
    "TasksCreateMessageCapability",
    "TasksElicitationCapability",
    "TasksListCapability",
    "TasksSamplingCapability",
    "TasksToolsCapability",
    "ToolsCapability",
    "UrlElicitationCapability",
]


class Capability(WireModel):
    """A capability without settings: that it is there says all."""


LoggingCapability = Capability
CompletionsCapability = Capability
SamplingContextCapability = Capability
SamplingToolsCapability = Capability
FormElicitationCapability = Capability
UrlElicitationCapability = Capability
TasksListCapability = Capability
TasksCancelCapability = Capability
TasksCallCapability = Capability
TasksCreateMessageCapability = Capability
TasksCreateElicitationCapability = Capability


class RootsCapability(WireModel):
    """The client can list its roots.

    Attributes:
        list_changed: It tells when they change (until 2025-11-25).
    """

    list_changed: Lenient[bool] = None


class SamplingCapability(WireModel):
    """The client can ask a language model.

    Attributes:
        context: It can include context of servers.
        tools: It can let the model use tools.
    """

    context: Lenient[Capability] = None
    tools: Lenient[Capability] = None


class ElicitationCapability(WireModel):
    """The client can ask the user. Without settings it means forms.

    Attributes:
        form: By a form.
        url: By sending the user to a page.
    """

    form: Lenient[Capability] = None
    url: Lenient[Capability] = None


class TasksSamplingCapability(WireModel):
    """Sampling requests may run as tasks."""

    create_message: Lenient[Capability] = None


class TasksElicitationCapability(WireModel):
    """Elicitation requests may run as tasks."""

    create: Lenient[Capability] = None


class ClientTasksRequestsCapability(WireModel):
    """The requests of a server that may run as tasks."""

    sampling: Lenient[TasksSamplingCapability] = None
    elicitation: Lenient[TasksElicitationCapability] = None


class ClientTasksCapability(WireModel):
    """The client can run requests as tasks (2025-11-25)."""

    list: Lenient[Capability] = None
    cancel: Lenient[Capability] = None
    requests: Lenient[ClientTasksRequestsCapability] = None


class ClientCapabilities(WireModel):
    """What the client can do. A capability that is `None` is not there.

    Attributes:
        experimental: Capabilities outside the specification.
        extensions: Extensions by their identifiers, with their settings (since 2026-07-28).
    """

    experimental: Lenient[dict[str, Any]] = None
    roots: Lenient[RootsCapability] = None
    sampling: Lenient[SamplingCapability] = None
    elicitation: Lenient[ElicitationCapability] = None
    tasks: Lenient[ClientTasksCapability] = None
    extensions: Lenient[dict[str, Any]] = None


class PromptsCapability(WireModel):
    """The server offers prompts.

    Attributes:
        list_changed: It tells when their list changes.
    """

    list_changed: Lenient[bool] = None


class ResourcesCapability(WireModel):
    """The server offers resources.

    Attributes:
        subscribe: It tells when a resource changes.
        list_changed: It tells when their list changes.
    """

    subscribe: Lenient[bool] = None
    list_changed: Lenient[bool] = None


class ToolsCapability(WireModel):
    """The server offers tools.

    Attributes:
        list_changed: It tells when their list changes.
    """

    list_changed: Lenient[bool] = None


class TasksToolsCapability(WireModel):
    """Tool calls may run as tasks."""

    call: Lenient[Capability] = None


class ServerTasksRequestsCapability(WireModel):
    """The requests of a client that may run as tasks."""

    tools: Lenient[TasksToolsCapability] = None


class ServerTasksCapability(WireModel):
    """The server can run requests as tasks (2025-11-25)."""

    list: Lenient[Capability] = None
    cancel: Lenient[Capability] = None
    requests: Lenient[ServerTasksRequestsCapability] = None


class ServerCapabilities(WireModel):
    """What the server can do. A capability that is `None` is not there.

    Attributes:
        experimental: Capabilities outside the specification.
        extensions: Extensions by their identifiers, with their settings (since 2026-07-28).
    """

    experimental: Lenient[dict[str, Any]] = None
    logging: Lenient[LoggingCapability] = None
    completions: Lenient[CompletionsCapability] = None
    prompts: Lenient[PromptsCapability] = None
    resources: Lenient[ResourcesCapability] = None
    tools: Lenient[ToolsCapability] = None
    tasks: Lenient[ServerTasksCapability] = None
    extensions: Lenient[dict[str, Any]] = None

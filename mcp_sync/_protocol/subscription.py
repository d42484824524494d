"""What a client may ask a server to tell it, and what it is told ("Subscriptions" in the specification)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Optional, Union

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_RESOURCE_UPDATED = "notifications/resources/updated"
_BORDER = re.compile(r"[/?#]")


@dataclass(frozen=True)
class ToolsChanged:
    """The list of tools has changed."""


@dataclass(frozen=True)
class PromptsChanged:
    """The list of prompts has changed."""


@dataclass(frozen=True)
class ResourcesChanged:
    """The list of resources has changed."""


@dataclass(frozen=True)
class ResourceUpdated:
    """The contents of a resource have changed.

    Attributes:
        uri: The resource; perhaps a part of the one that was asked for.
    """

    uri: str


@dataclass(frozen=True)
class Resync:
    """Events may have been lost: read everything anew that the subscription is about."""


Event = Union[ToolsChanged, PromptsChanged, ResourcesChanged, ResourceUpdated, Resync]

_LISTS: Mapping[str, Event] = {
    "notifications/tools/list_changed": ToolsChanged(),
    "notifications/prompts/list_changed": PromptsChanged(),
    "notifications/resources/list_changed": ResourcesChanged(),
}


@dataclass(frozen=True)
class Interest:
    """What a subscription is about.

    Attributes:
        tools: The list of tools.
        prompts: The list of prompts.
        resource_list: The list of resources.
        resources: The contents of these resources, by their URIs.
    """

    tools: bool = False
    prompts: bool = False
    resource_list: bool = False
    resources: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tools or self.prompts or self.resource_list or self.resources)

    def as_filter(self) -> dict[str, Any]:
        """Return it as ``subscriptions/listen`` has it."""
        wanted = {
            "toolsListChanged": self.tools,
            "promptsListChanged": self.prompts,
            "resourcesListChanged": self.resource_list,
            "resourceSubscriptions": list(self.resources),
        }
        return {field: value for field, value in wanted.items() if value}

    def acknowledged(self, message: Mapping[str, Any]) -> Interest:
        """Return what of it an acknowledgement grants. What cannot be read counts as not granted."""
        params = message.get("params")
        granted = params.get("notifications") if isinstance(params, dict) else None
        granted = granted if isinstance(granted, dict) else {}
        uris = granted.get("resourceSubscriptions")
        known = {_plain(uri) for uri in uris if isinstance(uri, str)} if isinstance(uris, list) else set()
        return Interest(
            self.tools and granted.get("toolsListChanged") is True,
            self.prompts and granted.get("promptsListChanged") is True,
            self.resource_list and granted.get("resourcesListChanged") is True,
            tuple(uri for uri in self.resources if _plain(uri) in known),
        )

    def offered(self, capabilities: Any) -> Interest:
        """Return what of it a server with a handshake offers; all of it where that is not known."""
        if not isinstance(capabilities, dict):
            return self
        return Interest(
            self.tools and _has(capabilities, "tools", "listChanged"),
            self.prompts and _has(capabilities, "prompts", "listChanged"),
            self.resource_list and _has(capabilities, "resources", "listChanged"),
            # Servers on the official Python SDK 1.x say that they serve none, and do: so all are asked.
            self.resources if isinstance(capabilities.get("resources"), dict) else (),
        )

    def without(self, uris: Iterable[str]) -> Interest:
        """Return it without some of the resources."""
        refused = set(uris)
        return replace(self, resources=tuple(uri for uri in self.resources if uri not in refused))

    def lacking(self, honoured: Interest) -> list[str]:
        """Name what of it is not in ``honoured``, in words without URIs, which may hold secrets."""
        words = {"tools": "tools", "prompts": "prompts", "resource_list": "the list of resources"}
        lacking = [words[name] for name in words if getattr(self, name) and not getattr(honoured, name)]
        count = len(set(self.resources) - set(honoured.resources))
        return [*lacking, f"{count} of {len(self.resources)} resources"] if count else lacking

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(map(_plain, self.resources))

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._known), default=0)

    def _is_about(self, uri: str) -> bool:
        """Whether a resource is one of these, or a part of one."""
        known, uri = self._known, _plain(uri)
        borders = _BORDER.finditer(uri[: self._longest + 1])
        return uri in known or any(_plain(uri[: border.start()]) in known for border in borders)

    def event(self, message: Mapping[str, Any], shared: bool) -> Optional[Event]:
        """Return what a notification means to the subscription, ``None`` if nothing.

        Args:
            message: The notification.
            shared: Whether it was sent to everybody, and not to this subscription alone, whose server knows
                best which resources belong to those that were asked for.
        """
        method = message.get("method")
        if method == _RESOURCE_UPDATED:
            params = message.get("params")
            uri = params.get("uri") if isinstance(params, dict) else None
            if not isinstance(uri, str) or not self.resources:
                return None
            return ResourceUpdated(uri) if not shared or self._is_about(uri) else None
        event = _LISTS.get(method) if isinstance(method, str) else None
        if isinstance(event, ToolsChanged):
            return event if self.tools else None
        if isinstance(event, PromptsChanged):
            return event if self.prompts else None
        return event if self.resource_list else None


def _plain(uri: str) -> str:
    # Libraries for URLs add the slash of an empty path.
    return uri.rstrip("/")


def _has(capabilities: Mapping[str, Any], area: str, feature: str) -> bool:
    offer = capabilities.get(area)
    return isinstance(offer, dict) and offer.get(feature) is True

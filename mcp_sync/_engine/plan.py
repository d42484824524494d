"""What an engine is told by the client that it works for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Optional

from ..transports._base import Settings, Target
from .extensions import Extensions
from .opening import Identity
from .subscribed import Subscribed

if TYPE_CHECKING:
    from ..trace import Trace
    from .cache import ResponseCache
    from .observing import Tracing


@dataclass
class Plan:
    """What an engine needs to know to do its work. In a live client the listeners, the levels
    and the subscriptions change.

    Attributes:
        target: Where the server is.
        mode: ``"auto"``, ``"legacy"`` or a revision.
        settings: What channels get.
        identity: How the client introduces itself.
        listeners: How many take what the server sends unasked.
        reopen: Whether the first call opens, and a call after a loss opens anew.
        log_level: The lowest level of log messages that a session is set to, ``None`` to leave it.
        request_level: The level that every request asks for, where there are no sessions.
        extensions: What the client knows beside the protocol.
        subscriptions: The resources that a session is subscribed to.
        principal: For whom the calls are made, ``None`` if that was not said.
        cache: Keeps answers, ``None`` if none are to be kept.
        tracing: Tells an observer of the calls, ``None`` if there is none.
        trace: Writes down what goes over the wire, ``None`` if that is not wanted.
    """

    target: Target
    mode: str
    settings: Settings
    identity: Identity
    listeners: int
    reopen: bool
    log_level: Optional[str] = None
    request_level: Optional[str] = None
    extensions: Extensions = field(default_factory=Extensions)
    subscriptions: Subscribed = field(default_factory=Subscribed)
    principal: Optional[str] = None
    cache: Optional[ResponseCache] = None
    tracing: Optional[Tracing] = None
    trace: Optional[Trace] = None

    @property
    def listening(self) -> bool:
        """Whether anybody takes what the server sends unasked."""
        return self.listeners > 0

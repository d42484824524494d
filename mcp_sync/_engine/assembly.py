"""Puts the engine of a client together from what the user has said."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from .._protocol.eras import client_capabilities
from .._protocol.negotiation import LEGACY
from .._protocol.versions import TRAITS
from .._version import __version__
from ..handlers import Callbacks
from ..transports._base import Settings, Target
from .answers import Answers
from .engine import Engine
from .extensions import Extensions
from .opening import Identity
from .plan import Plan
from .router import Crew, Router

if TYPE_CHECKING:
    from .. import types
    from ..session import ClientSession


def build_engine(
    target: Target,
    session: weakref.ref[ClientSession],
    settings: Settings,
    callbacks: Callbacks,
    extensions: Extensions,
    *,
    client_info: Optional[types.Implementation],
    log_level: Optional[str],
    reopen: bool,
) -> Engine:
    """Return an engine that is not connected yet; its `Plan` may still be changed."""
    # Written by hand, so that a program which does not name itself loads no model for that.
    info = client_info.to_wire() if client_info else {"name": "mcp-sync", "version": __version__}
    answers = Answers(callbacks, session)
    router = Router(answers, Crew.of(settings.name, settings.limits), extensions)
    plan = Plan(
        target=target,
        mode=LEGACY,
        settings=settings,
        identity=Identity(info, lambda version: _capabilities(version, callbacks, extensions)),
        listeners=int(callbacks.listening),
        reopen=reopen,
        log_level=log_level,
        # A stateless server sends log messages only where a level was asked for.
        request_level=log_level or ("info" if callbacks.logging is not None else None),
        extensions=extensions,
    )
    return Engine(plan, router, answers)


def _capabilities(version: str, callbacks: Callbacks, extensions: Extensions) -> Mapping[str, Any]:
    return client_capabilities(
        TRAITS[version],
        sampling=callbacks.sampling is not None,
        elicitation=callbacks.elicitation is not None,
        roots=callbacks.list_roots is not None,
        extensions=extensions.settings(handshake=not TRAITS[version].modern),
    )

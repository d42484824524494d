"""What a caller may say about one call."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

from .._concurrency.cancel import CancelToken
from ..handlers import ProgressCallback

if TYPE_CHECKING:
    from ..tracing import ObservedCall

NOTHING: Mapping[str, Any] = MappingProxyType({})


class CallOptions(NamedTuple):
    """What a caller may say about one call, beside its params.

    Attributes:
        meta: Entries of the request's ``_meta``.
        headers: HTTP headers of this request alone.
        cancel: The token that cancels it.
        progress: Where progress goes.
        wants_progress: Whether to ask for progress although nobody takes it, to keep the clock going.
        resumption_token: Where to take up the response stream of an earlier call, instead of a new request.
        on_resumption_token: Takes each token with which this call could be taken up.
        capabilities: What the client declares for this request beside its capabilities (2026-07-28).
        stop_at: The kinds of results, not final ones, with which the caller wants to go on by itself.
        on_notification: Takes the notifications that come for this request, on the thread that reads them.
        cache: Whether the answer may come from the response cache: "use", "refresh" or "bypass" it.
        pause: Whether a request for input is raised, as `InputRequired`, instead of answered.
        observed: What an observer is told of this call.
    """

    meta: Mapping[str, Any] = NOTHING
    headers: Mapping[str, str] = NOTHING
    cancel: Optional[CancelToken] = None
    progress: Optional[ProgressCallback] = None
    wants_progress: bool = False
    resumption_token: str = ""
    on_resumption_token: Optional[Callable[[str], None]] = None
    capabilities: Mapping[str, Any] = NOTHING
    stop_at: tuple[str, ...] = ()
    on_notification: Optional[Callable[[dict[str, Any]], None]] = None
    cache: str = "use"
    pause: bool = False
    observed: Optional[ObservedCall] = None


NO_OPTIONS = CallOptions()

"""The callbacks that a user may set, and what they get.

A callback is a plain function. Progress, log messages and notifications are delivered one after the
other by one thread of the client; requests of the server (sampling, elicitation, roots) run on a few
threads of their own, or, on revision 2026-07-28, on the thread that made the call. All of them may call
the client, ``close()`` included. What a notification callback raises is logged and harms nothing; what a
request callback raises is answered as an internal error (on 2026-07-28: raised by the call).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from .errors import NotSupported

if TYPE_CHECKING:
    from . import types
    from .session import ClientSession

ProgressCallback = Callable[[float, Optional[float], Optional[str]], Any]
"""``progress_callback(progress, total, message)``"""

MessageHandler = Callable[[Any], Any]
"""``message_handler(message)``: every notification and server request (but ``ping``) as its model, and the
exceptions of the transport that concern no single call."""

LoggingCallback = Callable[["types.LoggingMessageNotificationParams"], Any]
"""``logging_callback(params)``"""

SamplingCallback = Callable[
    ["CallbackContext", "types.CreateMessageRequestParams"],
    "Union[types.CreateMessageResult, types.ErrorData]",
]
"""``sampling_callback(context, params)`` returns a ``CreateMessageResult``, or ``ErrorData`` to refuse."""

ElicitationCallback = Callable[["CallbackContext", Any], "Union[types.ElicitResult, types.ErrorData]"]
"""``elicitation_callback(context, params)``: params for a form or a URL; returns an ``ElicitResult``."""

ListRootsCallback = Callable[["CallbackContext"], "Union[types.ListRootsResult, types.ErrorData]"]
"""``list_roots_callback(context)`` returns a ``ListRootsResult``."""


@dataclass(frozen=True)
class CallbackContext:
    """Where a request of the server came from.

    Attributes:
        session: The client or session; may be called.
        request_id: The id of the server's request; on 2026-07-28 the key of the input request.
        meta: The request's ``_meta``, empty if it had none.
    """

    session: ClientSession
    request_id: Union[str, int]
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Callbacks:
    """The callbacks of one client."""

    sampling: Optional[SamplingCallback] = None
    elicitation: Optional[ElicitationCallback] = None
    list_roots: Optional[ListRootsCallback] = None
    logging: Optional[LoggingCallback] = None
    message: Optional[MessageHandler] = None

    @property
    def listening(self) -> bool:
        """Whether anybody takes what the server sends unasked."""
        return any(getattr(self, name) is not None for name in self.__dataclass_fields__)


class Progress:
    """Adds up what a callback reports; made by `progress`."""

    def __init__(self, context: CallbackContext, total: Optional[float]) -> None:
        self._context = context
        self._token = context.meta.get("progressToken")
        self.total = total
        self.current: float = 0

    def progress(self, amount: float, message: Optional[str] = None) -> None:
        """Report ``amount`` more, with an optional message, to the server."""
        self.current += amount
        if self._token is None:
            return
        try:
            self._context.session.send_progress_notification(
                self._token, self.current, total=self.total, message=message
            )
        except NotSupported:
            # The revision has no progress of the client, whatever the server put into its request.
            self._token = None


@contextmanager
def progress(context: CallbackContext, total: Optional[float] = None) -> Iterator[Progress]:
    """Report the progress of a sampling or elicitation callback to the server.

    Without a progress token in the server's request, and on revision 2026-07-28, it does nothing, so one
    callback serves both.

    Args:
        context: What the callback got.
        total: The sum that the amounts will reach, if it is known.
    """
    yield Progress(context, total)

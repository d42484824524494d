"""One live connection: a request goes out, and its answer comes in."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Callable, Optional

from .._concurrency.cancel import CancelToken
from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from .._protocol import codec, kinds
from .._protocol.eras import SERVER_INFO_KEY, Era
from .._protocol.frames import Frame
from .._protocol.methods import MethodSpec
from ..errors import (
    CallCancelled,
    CallTimeout,
    InvalidMessage,
    InvalidResult,
    MCPError,
    ProtocolError,
    RemoteError,
    SessionExpired,
    TransportError,
    UsageError,
    another,
    remote_error,
)
from ..options import Timeouts
from ..transports._base import Channel
from .call_options import NO_OPTIONS, NOTHING, CallOptions
from .call_table import CallTable
from .oddities import Oddities
from .outbox import LAST_WORD, Outbox
from .progress import ProgressSink
from .resumption import with_resumption
from .router import Router
from .unasked import Unasked
from .waits import settled_in_time
from .watchers import Watchers

logger = logging.getLogger("mcp_sync.session")
# How often a call that is made by a callback looks for its own progress, in seconds.
_INLINE_POLL = 0.02


class Connection:
    """Sends the requests of calls on a channel, and brings each call its answer. Never reopened.

    Args:
        channel: The transport; `start` starts it.
        router: Takes notifications and server requests.
        next_id: Gives the ids of requests, unique for the client's life.
        timeouts: The client's bounds.

    Attributes:
        era: The revision in use; set when the negotiation is done, and replaced as a whole.
        calls: Those in flight on it.
        server_info: The server's ``Implementation`` as it came.
        trusted: Whether the server has shown that it speaks the revision, as far as it can be made to.
        watchers: Who is told what becomes of it, and of the stream of what the server sends unasked.
        odd: What came and fits no call, for the error if nothing else comes.
    """

    era: Era

    def __init__(
        self, channel: Channel, router: Router, next_id: Callable[[], int], timeouts: Timeouts
    ) -> None:
        self.channel = channel
        self.calls = CallTable(channel)
        self.server_info: Optional[Mapping[str, Any]] = None
        self.trusted = False
        self.watchers = Watchers()
        self.odd = Oddities()
        self._router = router
        self._next_id = next_id
        self._timeouts = timeouts
        self._outbox = Outbox(channel, self.calls, router.sender, timeouts.close)
        self._unasked = Unasked(self.calls, router, self._outbox)

    @property
    def error(self) -> Optional[MCPError]:
        """Why the connection is dead, ``None`` while it lives."""
        return self.calls.error

    # --- what goes out ---------------------------------------------------------------------------

    def start(self, deadline: Deadline) -> None:
        """Connect the channel, unless the client was closed meanwhile."""
        if self.error is not None:
            raise another(self.error)
        self.channel.start(self, deadline)

    def exchange(
        self, era: Era, spec: MethodSpec, params: dict[str, Any], options: CallOptions, deadline: Deadline
    ) -> dict[str, Any]:
        """Send a request and return its raw result.

        Raises:
            UsageError: The params cannot be sent.
            RemoteError: The server answered with an error.
            TransportError, CallTimeout, CallCancelled, ProtocolError: There was no answer.
            InvalidResult: The result is no object.
        """
        call = PendingCall(self._next_id(), spec.method, deadline)
        progress = None
        # Most calls: then all that follows the params is written already.
        if options is NO_OPTIONS and params and "_meta" not in params:
            body = codec.encode_request(call.id, spec.method, params, era.meta_ending)
            frame = Frame(body, spec.method, era.headers(spec, params) if self.channel.is_http else NOTHING)
        else:
            frame, progress = self._with_options(era, spec, params, options, call)
        try:
            self.dispatch(frame, call, options.cancel)
            if progress is not None:
                self._await_progress(call, progress)
            if not call.outcomes and not call.wait():
                call.fail(self.timeout_error(call))
            reply = call.result()
        except BaseException as error:
            try:
                if not isinstance(error, RemoteError):
                    call.fail(error)
                    self._give_up(era, call, error)
                elif progress is not None:
                    # An answer like any other: what came before it is delivered first.
                    progress.drain(deadline, self._timeouts.close)
            finally:
                call.forget_outcome()
            raise
        finally:
            self.calls.pop(call.id, None)
        if progress is not None:
            progress.drain(deadline, self._timeouts.close)
        result = reply["result"]
        if not isinstance(result, dict):
            raise InvalidResult(f"the result of {spec.method} is no object", result=result)
        self.trusted = True
        if self.server_info is None:
            self.note_server_info(None, result.get("_meta"))
        return result

    def _with_options(
        self, era: Era, spec: MethodSpec, params: dict[str, Any], options: CallOptions, call: PendingCall
    ) -> tuple[Frame, Optional[ProgressSink]]:
        """Return what is sent for a call, and what takes its progress, if anybody wants that."""
        if options.observed is not None:
            options.observed.sending(call.id)
        meta = options.meta
        progress = None
        if options.progress is not None or options.wants_progress:
            meta = {**meta, "progressToken": call.id}
        if options.progress is not None:
            progress = ProgressSink(options.progress, call, self._router)
            call.progress = progress
        call.on_notification = options.on_notification
        headers = NOTHING
        if self.channel.is_http:
            headers = {**options.headers, **era.headers(spec, params)}
        elif options.headers:
            raise UsageError(f"{spec.method}: headers= needs HTTP, where each request has its own")
        body = self.encode(spec.method, era.params(params, meta, options.capabilities), call.id)
        frame = Frame(body, spec.method, headers)
        if options.resumption_token or options.on_resumption_token is not None:
            frame = with_resumption(frame, call, era, options, self.channel)
        return frame, progress

    def new_call(self, spec: MethodSpec, deadline: Deadline) -> PendingCall:
        """Make the call for a request that is about to be sent."""
        return PendingCall(self._next_id(), spec.method, deadline)

    def encode(self, method: str, params: Mapping[str, Any], request_id: Optional[int] = None) -> bytes:
        """Encode a request, or a notification if it has no id."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if request_id is not None:
            message["id"] = request_id
        if params:
            message["params"] = params
        return codec.encode(message)

    def dispatch(self, frame: Frame, call: PendingCall, cancel: Optional[CancelToken] = None) -> None:
        """Enter a call into the table and hand its frame to the channel.

        Raises:
            MCPError: The connection is dead, the token is cancelled, or the channel failed.
        """
        self.calls.enter(call)
        if cancel is not None:
            cancel.watch(call)
            if call.outcomes:
                return
        # Its silence cannot be over: whatever took time before has looked at that.
        if call.deadline.hard_end_passed():
            raise self.timeout_error(call)
        try:
            self.channel.request(frame, call)
        except CallTimeout:
            # In one form for all channels, which says whether it was the silence or the whole bound.
            if not call.settled:
                raise self.timeout_error(call) from None
        except TransportError:
            # Closing and cancelling break the channel too; then that is what the caller is told.
            if not call.settled:
                raise

    def _await_progress(self, call: PendingCall, progress: ProgressSink) -> None:
        if progress.inline is not None:
            while not call.wait(call.deadline.within(_INLINE_POLL)) and not call.deadline.expired:
                progress.deliver_inline()
            progress.deliver_inline()

    def wait(
        self,
        spec: MethodSpec,
        seconds: Optional[float],
        cancel: Optional[CancelToken],
        deadline: Deadline,
        entered: Optional[Callable[[PendingCall], None]] = None,
    ) -> None:
        """Let time pass before a request is sent again.

        Args:
            spec: The method of the request.
            seconds: How long at most, ``None``: up to the deadline.
            cancel: The token of the call.
            deadline: That of the call.
            entered: Is handed the call to wait with; to settle it is to end the wait.

        Raises:
            MCPError: What ends the wait: the token, the end of the client.
        """
        waiter = self.new_call(spec, deadline if seconds is None else deadline.within(seconds))
        try:
            self.calls.enter(waiter)
            if entered is not None:
                entered(waiter)
            settled_in_time(waiter, cancel)
        finally:
            self.calls.pop(waiter.id, None)
        deadline.touch()

    def timeout_error(self, call: PendingCall) -> CallTimeout:
        """Return what a call raises that did not end in time."""
        bound = call.deadline.reached
        text = f"{call.method} to {self.channel.peer} did not end within {bound or 0:g} s"
        if call.deadline.was_silent:
            text = (
                f"{call.method}: {self.channel.peer} was silent for {bound or 0:g} s (Timeouts.silence; with "
                "progress_callback= or reset_on_progress=True progress counts as a sign of life)"
            )
        return CallTimeout(
            text + self.odd.since(call.deadline.began), timeout=bound, request_sent=call.request_sent
        )

    def _give_up(self, era: Era, call: PendingCall, error: BaseException) -> None:
        """Tell the server that nobody waits any more, where the protocol wants it told."""
        # What is no error of ours came from a signal handler: Ctrl-C, a time limit of a task queue.
        if isinstance(error, MCPError) and not isinstance(error, (CallTimeout, CallCancelled)):
            return
        if self.error is not None or not call.request_sent or call.method == "initialize" or call.resumes:
            return
        if self.channel.is_http and not self.channel.duplex and not era.cancel_notification:
            return  # The closed response stream has told it.
        params: dict[str, Any] = {"requestId": call.id}
        if isinstance(error, CallCancelled) and error.reason:
            params["reason"] = error.reason.encode("utf-8", "replace").decode()
        frame = Frame(self.encode("notifications/cancelled", params), "notifications/cancelled")
        self._outbox.post(frame, LAST_WORD)

    def notify(self, method: str, params: Mapping[str, Any], deadline: Deadline) -> None:
        """Send a notification."""
        self.channel.send(Frame(self.encode(method, params), method), deadline)

    def adopt(self, era: Era) -> None:
        """Speak a revision from now on, as it was negotiated."""
        self.note_server_info(era.server.get("serverInfo"), era.server.get("_meta"))
        self.era = era

    def note_server_info(self, info: Any, meta: Any) -> None:
        """Keep how the server introduced itself: in its answer to ``initialize``, or in any result's meta."""
        if info is None and isinstance(meta, dict):
            info = meta.get(SERVER_INFO_KEY)
        if isinstance(info, dict):
            self.server_info = info

    # --- what comes in ---------------------------------------------------------------------------

    def receive(self, message: Any, call: Optional[PendingCall] = None) -> None:
        """Take what the peer sent. See `Inbound.receive`."""
        if call is not None:
            call.deadline.touch()  # Whatever comes on its own stream is a sign of life.
        kind = kinds.classify(message)
        if kind is kinds.RESPONSE:
            self._response(message, call)
        elif kind is kinds.NOTIFICATION:
            self._unasked.notification(message, call)
        elif kind is kinds.REQUEST and self._may_request():
            self._unasked.request(message, call)
        elif kind is kinds.REQUEST:
            self.report(ProtocolError(f"the server sent a request, {message['method']}, which it must not"))
        elif isinstance(message, list):
            for item in message:
                self.receive(item, call)
        else:
            self.report(InvalidMessage("what arrived is no JSON-RPC message", excerpt=repr(message)[:200]))

    def _response(self, message: dict[str, Any], own: Optional[PendingCall]) -> None:
        call = self.calls.of_response(message, own)
        if call is None:
            self._drop_answer(message)
            return
        if message.get("error") is None and message.get("result") is not None:
            call.settle(message)
            return
        outcome = kinds.outcome(message)
        if not isinstance(outcome, kinds.ErrorParts):
            text = f"{call.method}: {self.channel.peer}: {outcome}"
            call.fail(InvalidMessage(text, excerpt=repr(message)[:200]))
        else:
            call.fail(remote_error(*outcome, method=call.method, peer=self.channel.peer))

    def _drop_answer(self, message: Mapping[str, Any]) -> None:
        logger.debug("Dropped an answer to no call in flight (id %r)", message.get("id"))
        self.odd.note_answer(message)
        if message.get("id") is None:
            error = message.get("error")
            what = "a result" if error is None else f"an error, {error!r:.200},"
            self.report(ProtocolError(f"{what} for no request came"))

    def _may_request(self) -> bool:
        # During the handshake there is no era yet, and a server may ping already.
        era = getattr(self, "era", None)
        return era is None or era.server_requests

    def report(self, error: Exception) -> None:
        """Pass on a fault; where it can be told which call's answer it was, that call fails with it."""
        logger.debug("%s: %s", self.channel.peer, error)
        if isinstance(error, InvalidMessage):
            self.odd.note_junk(error.excerpt)
            call = self.calls.of_id(error.request_id)
            if call is not None:
                text = f"{call.method}: {self.channel.peer}: {error}"
                call.fail(InvalidMessage(text, excerpt=error.excerpt, request_id=call.id))
        self._router.report(error)

    def stream_stands(self, gap: bool) -> None:
        """See `Inbound.stream_stands`."""
        self.watchers.stands(gap)

    def stream_lost(self, error: MCPError) -> None:
        """See `Inbound.stream_lost`."""
        if isinstance(error, SessionExpired):
            self.retire(error)
        else:
            self.watchers.falls(error)

    def retire(self, error: SessionExpired) -> None:
        """Let no new call begin, and those in flight go on."""
        self.calls.retire(error)
        self.watchers.over(error)

    def lost(self, error: MCPError) -> None:
        """Fail every call in flight, and every later one. Idempotent."""
        self.watchers.over(self.calls.end(error))

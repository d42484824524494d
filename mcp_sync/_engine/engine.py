"""The calls of a client.

The way of one call goes through five files, there and back:

1. ``_tool_verbs`` (for other verbs, ``verbs``) builds the params, and asks `Engine.call`.
2. Here, `Engine.final_result` takes the current connection, opening one if need be (`Lifecycle.connection`),
   and sees to results that are not final yet; `Engine.call` validates the final one.
3. ``connection``: `Connection.exchange` makes the `PendingCall`, hands its request to `Channel.request`, and
   waits. `Connection.receive` takes what comes back, and settles the call with it.
4. ``transports/_http/channel`` or ``transports/_stdio/channel`` sends the request.
5. ``transports/_http/responses`` or ``transports/_stdio/reader`` reads the answer, and has it received. Which
   thread does that, ``transports/_base`` tells.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional, TypeVar

from pydantic import BaseModel, ValidationError

from .._concurrency.deadline import Deadline
from .._concurrency.fork import no_fork
from .._protocol import methods
from .._protocol.brief import excerpt
from .._protocol.eras import COMPLETE, INPUT_REQUIRED, LOG_LEVEL_KEY, Era, StatelessEra
from .._protocol.input_rounds import input_requests, next_params
from .._protocol.methods import MethodSpec
from .._protocol.negotiation import may_be_older, unfit
from .._protocol.recovery import Again, after_failure
from .._protocol.versions import MODERN_VERSIONS, best_common
from ..errors import (
    CallCancelled,
    CallTimeout,
    HTTPStatusError,
    InputRoundsExceeded,
    InvalidResult,
    MCPError,
    NotSupported,
    RemoteError,
    SessionExpired,
    TransportError,
    UnsupportedProtocolVersion,
    UrlElicitationRequired,
)
from ..types._lenient import first_problem
from .call_options import NO_OPTIONS, CallOptions
from .connection import Connection
from .interim import InterimCall
from .lifecycle import Lifecycle

if TYPE_CHECKING:
    from ..tracing import ObservedCall

logger = logging.getLogger("mcp_sync.session")
M = TypeVar("M", bound=BaseModel)
# What a client is given for the requests of a server.
_CALLBACKS = {
    "elicitation/create": "elicitation_callback",
    "sampling/createMessage": "sampling_callback",
    "roots/list": "list_roots_callback",
}


class Engine(Lifecycle):
    """Makes the calls of one client. Safe for any number of threads.

    `call` gives the validated result, from the cache if that has it; the cache gets it by `fresh`; `call_raw`
    gives it as it came. They all end in `final_result`, which tells an observer, sends by
    `_send_until_answered`, and goes on from a result that is not final.
    """

    def call(
        self,
        spec: MethodSpec,
        params: dict[str, Any],
        model: type[M],
        options: CallOptions,
        deadline: Deadline,
    ) -> M:
        """Make a call and return its validated result.

        Raises:
            InvalidResult: The result has not the shape of ``model``.
            MCPError: Everything that `errors` lists.
        """
        cache = self.plan.cache
        if cache is not None:
            return cache.call(self, spec, params, model, options, deadline)
        return _validated(spec, model, self.final_result(spec, params, options, deadline)[1])

    def fresh(
        self,
        spec: MethodSpec,
        params: dict[str, Any],
        model: type[M],
        options: CallOptions,
        deadline: Deadline,
    ) -> tuple[bool, dict[str, Any], M]:
        """Make a call, whatever is in the cache.

        Returns:
            What `final_result` does; and that result, validated.
        """
        is_first, result = self.final_result(spec, params, options, deadline)
        return is_first, result, _validated(spec, model, result)

    def call_raw(
        self, spec: MethodSpec, params: dict[str, Any], options: CallOptions, deadline: Deadline
    ) -> dict[str, Any]:
        """Make a call and return its final result as it came, or one of a kind in ``options.stop_at``."""
        return self.final_result(spec, params, options, deadline)[1]

    def final_result(
        self, spec: MethodSpec, params: dict[str, Any], options: CallOptions, deadline: Deadline
    ) -> tuple[bool, dict[str, Any]]:
        """Make a call, and tell an observer of it if there is one.

        Returns:
            Whether the server's first answer was the final one; the final result as it came.
        """
        tracing = self.plan.tracing
        # What a subscription waits for, perhaps for days, is no call.
        if tracing is not None and options.observed is None and options.on_notification is None:
            return tracing.final_result(self, spec, params, options, deadline)
        try:
            connection = self.connection(deadline, options.cancel)
            try:
                kind, result = self._send_until_answered(connection, spec, params, options, deadline)
            except UrlElicitationRequired as refusal:
                with no_fork():
                    from .visits import visit_first
                connection = visit_first(self, connection, spec, options, deadline, refusal)
                kind, result = self._send_until_answered(connection, spec, params, options, deadline)
            except (RemoteError, HTTPStatusError) as refusal:
                self._check_revision(connection, refusal, options, deadline)
                raise
            is_first = kind == COMPLETE
            if not is_first:
                result = self._go_on(spec, params, options, deadline, kind, result)
        except BaseException as error:
            self.counters.failure(error)
            raise
        self.counters.call()
        return is_first, result

    def _check_revision(
        self, connection: Connection, refusal: MCPError, options: CallOptions, deadline: Deadline
    ) -> None:
        """After the first refusal by a server that was said to speak a modern revision, ask whether it does.

        Raises:
            NegotiationFailed: It does not.
        """
        era = connection.era
        if connection.trusted or era.handshake or era.server or not may_be_older(refusal):
            return
        bound = deadline.within(self.plan.settings.timeouts.probe)
        options = CallOptions(headers=options.headers, cancel=options.cancel)
        answer: Any
        try:
            answer = connection.exchange(era, methods.DISCOVER, {}, options, bound)
        except MCPError as error:
            answer = error
        fault = unfit(era.version, refusal, answer)
        if fault is not None:
            raise fault from refusal
        connection.trusted = True

    def _go_on(
        self,
        spec: MethodSpec,
        params: dict[str, Any],
        options: CallOptions,
        deadline: Deadline,
        kind: str,
        result: dict[str, Any],
    ) -> dict[str, Any]:
        """Go from a result that is not final to the final one, or to one that the caller takes as it is."""
        try:
            rounds = 0
            while kind == INPUT_REQUIRED and kind not in options.stop_at:
                rounds += 1
                if rounds > self.plan.settings.limits.input_rounds:
                    raise InputRoundsExceeded(
                        f"{spec.method}: the server asked for input {rounds} times (Limits.input_rounds)"
                    )
                requests = input_requests(spec, result)
                if requests and options.pause:
                    with no_fork():
                        from .pausing import paused
                    raise paused(self.plan, self.version, spec, params, options.meta, result)
                responses = self.answer_inputs(requests, spec, result, deadline)
                again = next_params(params, result, responses)
                connection = self.connection(deadline, options.cancel)
                kind, result = self._send_until_answered(connection, spec, again, options, deadline)
            if kind == COMPLETE or kind in options.stop_at:
                return result
            extension = self.plan.extensions.of_result(kind, spec.method)
            if extension is None:
                shown = excerpt(repr(kind))
                raise InvalidResult(f"{spec.method}: unknown kind of result {shown}", result=result)
            interim = InterimCall(self, spec, params, options, deadline, result)
            try:
                return extension.finish(interim)
            finally:
                interim.drain()
        except (TransportError, CallTimeout, CallCancelled) as error:
            error.request_sent = True  # Whatever became of the last request, the first one was answered.
            raise

    def _send_until_answered(
        self,
        connection: Connection,
        spec: MethodSpec,
        params: dict[str, Any],
        options: CallOptions,
        deadline: Deadline,
    ) -> tuple[str, dict[str, Any]]:
        """Send a request; again where `recovery.after_failure` says so.

        Returns:
            The kind of the result, as the era has it in which it was sent, and the result.
        """
        failures: list[MCPError] = []
        try:
            while True:
                try:
                    return self._send(connection, spec, params, options, deadline)
                except TransportError as error:
                    if isinstance(error, SessionExpired):
                        connection.retire(error)
                    failures.append(error)
                    again = self._after_failure(failures, connection, spec, deadline)
                    if again is None:
                        raise
                    logger.info("%s is sent again: %s", spec.method, error)
                    self.counters.retry()
                if again.wait:
                    connection.wait(spec, again.wait, options.cancel, deadline)
                if again.anew:
                    connection = self.connection(deadline, options.cancel)
        finally:
            failures.clear()  # Errors know this frame: nothing shall wait for the garbage collector.

    def _after_failure(
        self, failures: list[MCPError], connection: Connection, spec: MethodSpec, deadline: Deadline
    ) -> Optional[Again]:
        return after_failure(
            failures,
            spec,
            self.plan.settings.retry,
            deadline.remaining(),
            # A session that was to be taken up is gone for good.
            reopens=self.plan.reopen and not self.takes_up,
            shared=connection.channel.duplex,
            chance=random.random(),
        )

    def _send(
        self,
        connection: Connection,
        spec: MethodSpec,
        params: dict[str, Any],
        options: CallOptions,
        deadline: Deadline,
    ) -> tuple[str, dict[str, Any]]:
        era = connection.era
        if not (spec.handshake and spec.stateless):  # What all eras have needs no check.
            era.check(spec)
        if options is not NO_OPTIONS or self.plan.request_level is not None:
            options = self._for_era(options, spec, connection)
        try:
            result = connection.exchange(era, spec, params, options, deadline)
        except UnsupportedProtocolVersion as refusal:
            other = self._other_version(connection, era, refusal)
            if other is None:
                raise
            era = other
            result = connection.exchange(era, spec, params, options, deadline)
        return era.result_kind(result), result

    def _for_era(self, options: CallOptions, spec: MethodSpec, connection: Connection) -> CallOptions:
        """Return the options of one request, as the era has them in which it is sent.

        Raises:
            NotSupported: It cannot have them.
        """
        era = connection.era
        if options.pause and era.handshake:
            raise NotSupported(
                f'on_input="raise" needs a revision without a handshake, not {era.version}: for that, set an '
                "elicitation_callback",
                method=spec.method,
                version=era.version,
            )
        if self.plan.request_level is not None and era.level_per_request:
            options = options._replace(meta={LOG_LEVEL_KEY: self.plan.request_level, **options.meta})
        if options.observed is not None:
            options = _observed(options, options.observed, connection)
        return options

    def _other_version(
        self, connection: Connection, era: Era, refusal: UnsupportedProtocolVersion
    ) -> Optional[Era]:
        """Return the era to try once more after the server refused the revision, if there is one."""
        supported = refusal.data.get("supported") if isinstance(refusal.data, Mapping) else None
        if not isinstance(supported, list) or not isinstance(era, StatelessEra):
            return None
        version = best_common(MODERN_VERSIONS, supported)
        if version is None:
            return None
        identity = self.plan.identity
        other = StatelessEra(version, identity.client_info, identity.capabilities(version), era.server)
        connection.channel.configure(other.wire(self.plan.listening))
        connection.era = other
        return other

    def answer_inputs(
        self, requests: Mapping[str, Any], spec: MethodSpec, result: Mapping[str, Any], deadline: Deadline
    ) -> dict[str, Any]:
        """Run the callbacks for input requests, on the calling thread, and return the answers by their keys.

        Raises:
            InvalidResult: There is no callback for one of them; none was run then.
            Exception: What a callback raised.
        """
        answers = self.answers
        for request in requests.values():
            if not answers.has(request["method"]):
                text = f"{spec.method}: the server asks for {request['method']}, for which no callback is set"
                raise InvalidResult(f"{text}: {_way_to_answer(request['method'])}", result=result)
        deadline.hold()
        try:
            return {key: answers.answer(request, key) for key, request in requests.items()}
        finally:
            deadline.release()

    def after_fork_in_child(self) -> None:
        """See `Lifecycle.after_fork_in_child`."""
        super().after_fork_in_child()
        if self.plan.cache is not None:
            self.plan.cache.after_fork_in_child()
            self.router.watch(self.plan.cache.observe)


def _observed(options: CallOptions, call: ObservedCall, connection: Connection) -> CallOptions:
    """Return the options of one request of a call that an observer is told of."""
    call.protocol_version = connection.era.version
    call.session_id = connection.channel.session_id
    return options._replace(meta={**call.meta, **options.meta}) if call.meta else options


def _way_to_answer(method: str) -> str:
    return f'give the client {_CALLBACKS.get(method, "a callback")}=, or the call on_input="raise"'


def _validated(spec: MethodSpec, model: type[M], result: dict[str, Any]) -> M:
    try:
        # As `model_validate`, which takes as long again to find out that nobody gave it options.
        validated: M = model.__pydantic_validator__.validate_python(result)
        return validated
    except ValidationError as error:
        text = f"the result of {spec.method} is malformed: {first_problem(error)}"
        raise InvalidResult(text, result=result) from error

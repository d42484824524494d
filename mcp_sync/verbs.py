"""The verbs of the protocol as blocking methods. Each is written once, for `ClientSession` and `Client`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Optional, Union

from . import types
from ._arguments import (
    as_completed_argument,
    as_dict,
    as_reference,
    as_uri,
    check_instance,
    check_level,
    check_number,
)
from ._calls import Headers, Meta, call_options, pausing
from ._concurrency.cancel import CancelToken
from ._concurrency.fork import no_fork
from ._engine.call_options import NO_OPTIONS
from ._extension_verbs import ExtensionVerbs
from ._future_verbs import FutureVerbs
from ._protocol import methods
from ._task_verbs import TaskVerbs
from ._watch_verbs import WatchVerbs
from .errors import InputRequired, NotSupported, UsageError
from .handlers import ProgressCallback
from .options import UNSET, TimeoutArgument, check_validation


class Verbs(WatchVerbs, TaskVerbs, FutureVerbs, ExtensionVerbs):
    """What `ClientSession` documents: all methods that make a call."""

    # --- resources ------------------------------------------------------------------------------------

    def list_resources(
        self,
        cursor: Optional[str] = None,
        *,
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
        cache: str = "use",
    ) -> types.ListResourcesResult:
        """Return one page of the server's resources. `resources` follows the pages."""
        options = call_options(meta, cancel, headers, cache=cache)
        return self._page(methods.LIST_RESOURCES, types.ListResourcesResult, cursor, options, timeout)

    def resources(
        self, *, timeout: TimeoutArgument = UNSET, headers: Headers = None, cache: str = "use"
    ) -> Iterator[types.Resource]:
        """Iterate over all resources; ``timeout`` bounds each page."""
        return self._all(
            lambda cursor: self.list_resources(cursor, timeout=timeout, headers=headers, cache=cache),
            "resources",
        )

    def list_resource_templates(
        self,
        cursor: Optional[str] = None,
        *,
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
        cache: str = "use",
    ) -> types.ListResourceTemplatesResult:
        """Return one page of the server's resource templates. `resource_templates` follows the pages."""
        model = types.ListResourceTemplatesResult
        options = call_options(meta, cancel, headers, cache=cache)
        return self._page(methods.LIST_RESOURCE_TEMPLATES, model, cursor, options, timeout)

    def resource_templates(
        self, *, timeout: TimeoutArgument = UNSET, headers: Headers = None, cache: str = "use"
    ) -> Iterator[types.ResourceTemplate]:
        """Iterate over all resource templates; ``timeout`` bounds each page."""
        return self._all(
            lambda cursor: self.list_resource_templates(
                cursor, timeout=timeout, headers=headers, cache=cache
            ),
            "resource_templates",
        )

    def read_resource(
        self,
        uri: str,
        *,
        timeout: TimeoutArgument = UNSET,
        progress_callback: Optional[ProgressCallback] = None,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
        on_input: str = "answer",
        cache: str = "use",
    ) -> types.ReadResourceResult:
        """Return the contents of a resource; ``on_input`` as with `call_tool`.

        Raises:
            ResourceNotFound, InvalidParams: No such resource (older servers, 2026-07-28).
            InputRequired: Only with ``on_input="raise"``.
        """
        options = call_options(meta, cancel, headers, progress_callback, cache=cache)
        options = pausing(options, on_input)
        params = {"uri": as_uri(uri)}
        return self._call(methods.READ_RESOURCE, params, types.ReadResourceResult, options, timeout)

    # --- prompts and completion -----------------------------------------------------------------------

    def list_prompts(
        self,
        cursor: Optional[str] = None,
        *,
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
        cache: str = "use",
    ) -> types.ListPromptsResult:
        """Return one page of the server's prompts. `prompts` follows the pages."""
        options = call_options(meta, cancel, headers, cache=cache)
        return self._page(methods.LIST_PROMPTS, types.ListPromptsResult, cursor, options, timeout)

    def prompts(
        self, *, timeout: TimeoutArgument = UNSET, headers: Headers = None, cache: str = "use"
    ) -> Iterator[types.Prompt]:
        """Iterate over all prompts; ``timeout`` bounds each page."""
        return self._all(
            lambda cursor: self.list_prompts(cursor, timeout=timeout, headers=headers, cache=cache), "prompts"
        )

    def get_prompt(
        self,
        name: str,
        arguments: Optional[Mapping[str, str]] = None,
        *,
        timeout: TimeoutArgument = UNSET,
        progress_callback: Optional[ProgressCallback] = None,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
        on_input: str = "answer",
    ) -> types.GetPromptResult:
        """Return a prompt, filled with arguments (strings, says the specification).

        ``on_input`` is as with `call_tool`.
        """
        check_instance("the name of a prompt", name, str)
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = as_dict("arguments", arguments)
        options = pausing(call_options(meta, cancel, headers, progress_callback), on_input)
        return self._call(methods.GET_PROMPT, params, types.GetPromptResult, options, timeout)

    def complete(
        self,
        ref: Union[types.PromptReference, types.ResourceTemplateReference, Mapping[str, Any]],
        argument: Mapping[str, str],
        context_arguments: Optional[Mapping[str, str]] = None,
        *,
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> types.CompleteResult:
        """Return completions for an argument of a prompt or of a resource template.

        Args:
            ref: ``PromptReference(name=...)`` or ``ResourceTemplateReference(uri=...)``.
            argument: ``{"name": ..., "value": what was typed so far}``.
            context_arguments: Arguments that are settled already.
            timeout: See the class.
            meta: See the class.
            cancel: See the class.
            headers: HTTP headers of this request alone.
        """
        params: dict[str, Any] = {"ref": as_reference(ref), "argument": as_completed_argument(argument)}
        if context_arguments is not None:
            params["context"] = {"arguments": as_dict("context_arguments", context_arguments)}
        options = call_options(meta, cancel, headers)
        return self._call(methods.COMPLETE, params, types.CompleteResult, options, timeout)

    # --- calls that waited for input --------------------------------------------------------------------

    def resume(
        self,
        envelope: Union[InputRequired, Mapping[str, Any], str, bytes],
        answers: Mapping[str, Any],
        *,
        timeout: TimeoutArgument = UNSET,
        progress_callback: Optional[ProgressCallback] = None,
        reset_on_progress: bool = False,
        raise_on_error: bool = False,
        validation: Optional[str] = None,
        on_input: str = "raise",
        key: Union[str, bytes, None] = None,
        max_age: Optional[float] = None,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> Any:
        """Go on with a call that raised `InputRequired`, here or in another process (2026-07-28).

        The request is made again with the answers. Everything is checked before anything is sent, and a tool
        is never called twice by one `resume`; that the same envelope is not resumed twice is for the
        application to see to.

        Args:
            envelope: The exception, or what its ``to_json()`` returned, as it is or as JSON text.
            answers: For each key of ``requests`` what a callback would return: an `ElicitResult`, a
                `CreateMessageResult`, a `ListRootsResult`, or that as a dict. The form of an accepted
                elicitation is completed with its defaults and must match its schema.
            timeout: See the class.
            progress_callback: ``f(progress, total, message)``.
            reset_on_progress: As with `call_tool`.
            raise_on_error: As with `call_tool`.
            validation: As with `call_tool`.
            on_input: As with `call_tool`, where the server asks once more; by default that raises a new
                `InputRequired`.
            key: The key that ``to_json()`` was given.
            max_age: The most seconds since the call paused.
            meta: Entries of ``_meta``, beside and instead of those of the call.
            cancel: See the class.
            headers: HTTP headers of this request alone; those of the call are not kept.

        Returns:
            What the method of the call returns, such as `CallToolResult`.

        Raises:
            EnvelopeRejected: It was changed, is too old, or belongs to another server, principal or revision.
            AnswerInvalid: An answer does not match its form.
            UsageError: There is no answer for a request, or one for none, or one of a wrong kind.
            InputRequired: The server asks again.
        """
        with no_fork():
            from ._resuming import PausedCall
        paused = PausedCall(envelope, key, max_age, self._engine.plan)
        params = paused.params(answers)
        meta = {**paused.meta, **as_dict("meta", meta)}
        options = call_options(meta, cancel, headers, progress_callback, reset_on_progress)
        options, deadline = pausing(options, on_input), self._deadline(timeout)
        paused.check_revision(self._engine.connection(deadline, cancel).era.version)
        if paused.task is not None:
            return self._resume_task(paused.task, params, options, deadline, raise_on_error, validation)
        if paused.spec is methods.CALL_TOOL:
            if validation is not None:
                check_validation(validation)
            result = self._call_tool(params, options, deadline)
            self._judge(params["name"], result, raise_on_error, validation, deadline)
            return result
        return self._engine.call(paused.spec, params, paused.model, options, deadline)

    # --- everything else ------------------------------------------------------------------------------

    def send_ping(self, *, timeout: TimeoutArgument = UNSET, meta: Meta = None) -> types.EmptyResult:
        """See whether the server answers; by ``server/discover`` on 2026-07-28, which has no ping."""
        deadline = self._deadline(timeout)
        spec = self._engine.connection(deadline).era.ping
        self._engine.call_raw(spec, {}, call_options(meta), deadline)
        return types.EmptyResult()

    def set_logging_level(self, level: types.LoggingLevel, *, timeout: TimeoutArgument = UNSET) -> None:
        """Set the lowest level of log messages that the server sends; part of each request on 2026-07-28."""
        check_level(level)
        deadline = self._deadline(timeout)
        if not self._engine.connection(deadline).era.level_per_request:
            params = {"level": level}
            self._engine.call(methods.SET_LEVEL, params, types.EmptyResult, NO_OPTIONS, deadline)
        self._engine.plan.log_level = self._engine.plan.request_level = level

    def send_progress_notification(
        self,
        progress_token: types.ProgressToken,
        progress: float,
        total: Optional[float] = None,
        message: Optional[str] = None,
    ) -> None:
        """Report progress of a request that the server made (up to 2025-11-25)."""
        if isinstance(progress_token, bool) or not isinstance(progress_token, (str, int)):
            raise UsageError(f"a progress token is a string or an integer, not {progress_token!r:.80}")
        check_number("progress", progress)
        params: dict[str, Any] = {"progressToken": progress_token, "progress": progress}
        if total is not None:
            check_number("total", total)
            params["total"] = total
        if message is not None:
            check_instance("message", message, str)
            params["message"] = message
        self._notify_legacy("notifications/progress", params)

    def send_roots_list_changed(self) -> None:
        """Tell the server that the roots have changed (up to 2025-11-25)."""
        self._notify_legacy("notifications/roots/list_changed", {})

    def _notify_legacy(self, method: str, params: Mapping[str, Any]) -> None:
        deadline = self._deadline(UNSET)
        connection = self._engine.connection(deadline)
        version = connection.era.version
        if not connection.era.client_notifications:
            raise NotSupported(f"{method} does not exist in {version}", method=method, version=version)
        connection.notify(method, params, deadline)

    def request(
        self,
        method: str,
        params: Optional[Mapping[str, Any]] = None,
        result_type: Any = dict,
        *,
        timeout: TimeoutArgument = UNSET,
        progress_callback: Optional[ProgressCallback] = None,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> Any:
        """Send any request.

        Args:
            method: The method.
            params: Its params, without ``_meta``.
            result_type: A pydantic model for the result, or ``dict`` for the result as it came.
            timeout: See the class.
            progress_callback: ``f(progress, total, message)``.
            meta: See the class.
            cancel: See the class.
            headers: HTTP headers of this request alone.
        """
        options = call_options(meta, cancel, headers, progress_callback)
        check_instance("the method", method, str)
        spec = self._engine.plan.extensions.spec_of(method)
        deadline = self._deadline(timeout)
        if not (result_type is dict or callable(getattr(result_type, "model_validate", None))):
            raise UsageError(f"result_type must be dict or a pydantic model, not {result_type!r}")
        given = as_dict("params", params)
        if method == methods.CALL_TOOL.method and self._pins is not None:
            self._pins.check(self, str(given.get("name")), options, deadline)  # type: ignore[arg-type]
        if self._engine.plan.cache is not None:
            options = options._replace(cache="bypass")
        if result_type is dict:
            return self._engine.call_raw(spec, given, options, deadline)
        return self._engine.call(spec, given, result_type, options, deadline)

    def notify(
        self, method: str, params: Optional[Mapping[str, Any]] = None, *, timeout: TimeoutArgument = UNSET
    ) -> None:
        """Send any notification."""
        check_instance("the method", method, str)
        given, deadline = as_dict("params", params), self._deadline(timeout)
        self._engine.connection(deadline).notify(method, given, deadline)

"""The verbs for what changes on a server: subscriptions to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Optional

from . import types
from ._arguments import as_uri, check_callback
from ._calls import Meta, call_options
from ._concurrency.cancel import CancelToken
from ._concurrency.fork import no_fork
from ._protocol import methods
from ._tool_verbs import ToolVerbs
from .options import UNSET, TimeoutArgument

if TYPE_CHECKING:
    from .subscriptions import EventCallback, Subscription


class WatchVerbs(ToolVerbs):
    """What `ClientSession` documents, as far as it concerns changes."""

    # Those that the client itself keeps: with a callback, or of `subscribe_resource`.
    _subscriptions: list[Subscription]

    def subscribe_resource(
        self,
        uri: str,
        *,
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
    ) -> types.EmptyResult:
        """Have the server notify ``message_handler`` when a resource changes.

        On 2026-07-28, where a subscription is a request, it is kept open in the background, as with `listen`.
        A `Client` that has to open another session or connection subscribes there again; a forked child on
        2026-07-28 has to do so by itself.

        Raises:
            NotSupported: The server does not tell of changes of this resource (2026-07-28).
        """
        options = call_options(meta, cancel)
        uri, deadline = as_uri(uri), self._deadline(timeout)
        if not self._engine.connection(deadline, cancel).era.handshake:
            with no_fork():
                from .subscriptions import subscribe
            subscribe(self, uri, deadline, options.meta)
            return types.EmptyResult()
        result = self._engine.call(methods.SUBSCRIBE, {"uri": uri}, types.EmptyResult, options, deadline)
        self._engine.plan.subscriptions.add(uri)
        return result

    def unsubscribe_resource(
        self,
        uri: str,
        *,
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
    ) -> types.EmptyResult:
        """End what `subscribe_resource` began. What `listen` has asked for goes on."""
        options = call_options(meta, cancel)
        uri, deadline = as_uri(uri), self._deadline(timeout)
        nobody_is_left = self._engine.plan.subscriptions.discard(uri)
        if not self._engine.connection(deadline, cancel).era.handshake:
            with no_fork():
                from .subscriptions import unsubscribe
            unsubscribe(self, uri)
        elif nobody_is_left:
            self._engine.call_raw(methods.UNSUBSCRIBE, {"uri": uri}, options, deadline)
        return types.EmptyResult()

    def listen(
        self,
        tools: bool = False,
        prompts: bool = False,
        resource_list: bool = False,
        resources: Iterable[str] = (),
        *,
        on_event: Optional[EventCallback] = None,
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
    ) -> Subscription:
        """Watch the server: be told when its lists, or the contents of resources, change.

        ::

            with client.listen(tools=True, resources=[uri]) as events:
                for event in events:
                    ...

        On 2026-07-28 it is a request of its own (``subscriptions/listen``). Up to 2025-11-25 it takes what
        the server tells everybody, and subscribes to the resources; there a server that does not answer about
        its own stream is waited for no longer than a second.

        Args:
            tools: Tell when the list of tools changes: `ToolsChanged`.
            prompts: The same for prompts: `PromptsChanged`.
            resource_list: The same for the list of resources: `ResourcesChanged`.
            resources: Tell when the contents of these change: `ResourceUpdated`, with the URI.
            on_event: ``f(event)``, called for each event in order on the thread of the client's callbacks;
                the client keeps the subscription then. Without it, iterate over what is returned.
            timeout: Until the server has acknowledged it; the subscription itself has no bound.
            meta: Entries of the request's ``_meta``.

        Returns:
            The open subscription; ``honoured`` says what of it the server agreed to.

        Raises:
            UsageError: Nothing was asked for, or what makes no sense.
            MethodNotFound, NotSupported: The server has no subscriptions.
            CallTimeout: It did not acknowledge the subscription in time.
        """
        with no_fork():
            from .subscriptions import interest, listen
        asked = interest(tools, prompts, resource_list, resources)
        check_callback("on_event", on_event, 1)
        options = call_options(meta)
        return listen(self, asked, on_event, self._deadline(timeout), options.meta)

"""What a fake server tells its clients by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, cast

from ._rpc import Message, notification
from ._subscriptions import Listening, Subscriptions

if TYPE_CHECKING:
    from ._server import FakeServer

_RESOURCE_UPDATED = "notifications/resources/updated"


class Announcing:
    """What `FakeServer` inherits: the notifications, and the subscriptions that carry them.

    Attributes:
        subscriptions: What is open of ``subscriptions/listen``.
    """

    subscriptions: Subscriptions

    def notify(self, method: str, params: Optional[Message] = None) -> None:
        """Send a notification to every client that is there and asked for it.

        That is: with a handshake each one (updates of a resource only to its subscribers), without one
        each ``subscriptions/listen`` whose filter names it.
        """
        for subscription in self.subscriptions.open:
            subscription.offer(method, params or {})
        for connection in cast("FakeServer", self).connections:
            wanted = method != _RESOURCE_UPDATED or (params or {}).get("uri") in connection.subscribed
            if connection.version and wanted:
                connection.tell(notification(method, params))

    def tools_changed(self) -> None:
        """Tell that the list of tools has changed."""
        self.notify("notifications/tools/list_changed")

    def prompts_changed(self) -> None:
        """Tell that the list of prompts has changed."""
        self.notify("notifications/prompts/list_changed")

    def resources_changed(self) -> None:
        """Tell that the list of resources has changed."""
        self.notify("notifications/resources/list_changed")

    def resource_updated(self, uri: str) -> None:
        """Tell that a resource has changed."""
        self.notify(_RESOURCE_UPDATED, {"uri": uri})

    def complete_elicitation(self, elicitation_id: str = "elicitation-1") -> None:
        """Note that a page has been visited, and tell the client that was asked for it"""
        server = cast("FakeServer", self)
        server.completed_elicitations.add(elicitation_id)
        for connection in server.connections:
            if elicitation_id in connection.elicitations:
                connection.elicitations.discard(elicitation_id)
                params = {"elicitationId": elicitation_id}
                connection.tell(notification("notifications/elicitation/complete", params))

    # --- subscriptions/listen ----------------------------------------------------------------------------

    def listen_with(self, *plans: Listening) -> None:
        """Serve the next ``subscriptions/listen`` by the first plan, the next by the second, and so on.

        The last plan goes for all later ones, too; without any, all are served as they should.
        """
        self.subscriptions.plan(plans)

    def wait_for_subscriptions(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait until ``count`` of ``subscriptions/listen`` are open: what is told now reaches them.

        Args:
            count: How many; 0 waits for the end of all.
            timeout: In seconds.

        Raises:
            TimeoutError: It did not come to that.
        """
        if not self.subscriptions.wait(count, timeout):
            raise TimeoutError(f"{len(self.subscriptions.open)} subscriptions are open, not {count}")

    def end_subscriptions(self) -> None:
        """End every ``subscriptions/listen`` with a result, as a server does that shuts down."""
        for subscription in self.subscriptions.open:
            subscription.end()

    def drop_subscriptions(self) -> None:
        """End every ``subscriptions/listen`` without a result: their event streams just end.

        To break a channel that all messages share, use ``endpoint.drop_connections()`` or a `Fault`.
        """
        for subscription in self.subscriptions.open:
            subscription.end(graceful=False)

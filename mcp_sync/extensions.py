"""Extensions: what a client learns beside the protocol, without a change to its core.

An extension is an object that is given to a client: ``Client(..., extensions=[MyExtension()])``. It says
what the client declares to the server, which methods there are, which kinds of results they bring, and what
is to be done with a result that is not final yet. See "Extensions" in the specification (SEP-2133). They
belong to revision 2026-07-28 and later, but one may say that it is declared in a handshake, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Protocol, Union

if TYPE_CHECKING:
    from .session import ClientSession


@dataclass(frozen=True)
class Method:
    """A method that an extension adds.

    Attributes:
        name: The name on the wire.
        name_param: The param that names what the method works on; it is sent as the header ``Mcp-Name`` too.
        idempotent: Whether a request may be sent twice without harm, and so is sent again after a failure.
        input_rounds: Whether the server may answer that it needs input first.
        handshake: Whether it exists on the revisions with a handshake (up to 2025-11-25), too.
        cacheable: Whether its results say how long they may be kept (``ttlMs``, ``cacheScope``), so that a
            client with ``cache=`` may keep them, as it does those of `mcp_sync.skills`. (Those of ``request``
            are never kept.)
    """

    name: str
    name_param: Optional[str] = None
    idempotent: bool = False
    input_rounds: bool = False
    handshake: bool = False
    cacheable: bool = False


class Interim(Protocol):
    """A call whose result is of a kind that an extension has announced: not the final one.

    Attributes:
        method: The method that was called.
        params: Its params.
        result: The result that came, as it came.
    """

    method: str
    params: Mapping[str, Any]
    result: Mapping[str, Any]

    @property
    def session(self) -> ClientSession:
        """The client."""

    def call(self, method: str, params: Mapping[str, Any], silence: Optional[float] = None) -> dict[str, Any]:
        """Make a request that belongs to the call: within its time, and cancelled with it.

        Args:
            method: The method.
            params: Its params.
            silence: Seconds of silence after which this request fails with `CallTimeout`, where they shall
                be others than those of the call.

        Raises:
            MCPError: As any call.
        """

    def pause(self, seconds: float) -> None:
        """Let time pass, until `wake` is called; the clock of the call's silence starts anew then.

        Raises:
            CallTimeout, CallCancelled, ClientClosed: The call ended meanwhile.
        """

    def wake(self) -> None:
        """End the pause that is on, or else the next one. From any thread; neither blocks nor raises."""

    def answer(self, requests: Mapping[str, Any]) -> dict[str, Any]:
        """Run the callbacks of the client for input requests, and return their answers by the same keys.

        Raises:
            InvalidResult: There is no callback for one of them; none was run then.
            InputRequired: The call was made with ``on_input="raise"``; none was run then.
            Exception: What a callback raised.
        """

    def report(self, progress: float, total: Optional[float] = None, message: Optional[str] = None) -> None:
        """Pass progress on to the ``progress_callback`` of the call, if there is one. A sign of life."""

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a request whose answer nobody waits for, although the call may be over: a cancellation.

        Returns within a fraction of a second, and raises nothing.
        """


class Extension:
    """What an extension says about itself. Subclass it, and override what it needs.

    One object may serve any number of clients at the same time: what belongs to a call is in the `Interim`.

    Attributes:
        identifier: Its name, as in ``"com.example/search"``.
        methods: The methods that it adds.
        result_types: The kinds of results (``resultType``) that it understands, each with the methods that
            may have such a result.
        handshake: Whether it is declared to servers of revisions with a handshake (up to 2025-11-25), too.
        notifications: The models of its notifications, by method: ``message_handler`` gets them as these.
    """

    identifier: str = ""
    methods: tuple[Method, ...] = ()
    result_types: Mapping[str, tuple[str, ...]] = {}
    handshake: bool = False
    notifications: Mapping[str, Any] = {}

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that the client declares with the identifier."""
        return {}

    def finish(self, interim: Interim) -> dict[str, Any]:
        """Return the final result of a call that has a result of one of `result_types`.

        Runs on the thread that made the call, which waits for it.

        Raises:
            MCPError: The call fails with it.
        """
        raise NotImplementedError

    def notified(self, session: ClientSession, notification: Any) -> None:
        """Take one of `notifications`. Runs on the thread of the callbacks; the default does nothing."""


class DeclaredExtension(Extension):
    """One that is only declared: the application sees to all the rest with ``request`` and ``notify``."""

    def __init__(self, identifier: str, settings: Optional[Mapping[str, Any]] = None) -> None:
        self.identifier = identifier
        self._settings = dict(settings or {})

    def settings(self) -> Mapping[str, Any]:
        """Return what was given."""
        return self._settings


ExtensionsArgument = Union[Mapping[str, Mapping[str, Any]], Iterable[Union[Extension, str]]]
"""What a client takes: extensions, or identifiers that are only declared, perhaps with their settings."""

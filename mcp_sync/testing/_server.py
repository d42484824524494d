"""The fake server itself."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Callable, NamedTuple, Optional, Union

from . import _caching, _catalog
from ._announcing import Announcing
from ._catalog import FakePrompt, FakeResource, FakeTool
from ._exchange import Connection
from ._functions import Function
from ._offering import Offering
from ._revisions import is_modern, served_versions
from ._rpc import Message, Send
from ._serving import Serving
from ._skills import FakeSkill
from ._subscriptions import Subscriptions
from ._tasks import Tasks

Completer = Callable[[Message, Message, Message], Iterable[str]]


class Override(NamedTuple):
    """What answers a method instead of the fake server's own way."""

    function: Function
    raw: bool


class FakeServer(Offering, Announcing, Serving):
    """A small MCP server for tests, of any revision, without a network.

    ::

        def add(a: int, b: int) -> dict:
            return {"sum": a + b}

        server = FakeServer(tools=[add], resources={"demo://readme": "Hello"})
        with Client(InMemory(server)) as client:
            assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}
        assert server.received("tools/call")[0]["params"]["name"] == "add"

    It tells of changes by `tools_changed`, `resource_updated` and their like, over what the client has opened
    for that: ``subscriptions/listen`` (`listen_with` has it misbehave, `drop_subscriptions` breaks it off)
    or, with a handshake, the connection itself. A tool with ``task=True`` runs as a task; `tasks` shows and
    ends them. `add_skill` and `add_app` serve what these extensions are about.

    Tools, prompts and resources are plain functions. One whose first parameter is named ``context`` gets a
    `ToolContext`. What a tool returns becomes its result: a string its text, a dict its structured content,
    content blocks and whole results stay what they are, an exception becomes a result with ``isError``.

    It may be used by any number of threads at once. As the server of `InMemory` it is one connection: clients
    of the handshake era should not share it at the same time.

    Args:
        tools: Functions or `FakeTool`, in a list or by name.
        resources: By URI: text, bytes, contents, a function, or a `FakeResource`. A URI with
            ``{variables}`` is a template.
        prompts: Functions or `FakePrompt`, in a list or by name. A string that they return becomes the
            user's message.
        versions: The revisions that the server speaks: ``"modern"``, ``"legacy"``, ``"all"``, a version
            or several.
        page_size: How many items a page of a list has, ``None`` for all on one page.
        instructions: What the server says about its use.
        server_info: Name and version of the server.
        capabilities: What the server declares, default: what it has.
        complete: ``complete(ref, argument, context_arguments)`` returns the suggestions for an argument.
        ttl_ms: How long results may be cached (where the revision knows that), in milliseconds: for all
            methods, or by method, as in ``{"tools/list": 60_000}``; a function is called with the params
            of the request, so that pages can differ. ``None`` leaves the hint out. May be set at any time.
            A function of a resource can return contents with hints of their own, too.
        cache_scope: ``"private"`` or ``"public"``, in the same forms.
        answer_timeout: Seconds that a tool waits for an answer of the client (handshake era, and tasks).
        request_state: Whether requests for input carry a state. Without, earlier answers are forgotten, so
            that a tool gets no further than its first question.
        principal: ``principal(headers)`` tells from the headers of an HTTP request whose it is. Tasks and
            states of input rounds are then of no use to anybody else. Default: everybody is the same.
        extensions: Settings of further extensions that the server declares, by their identifiers.
        task_ttl_ms: How long tasks say that they are kept, ``None`` for ever.
        poll_interval_ms: How often tasks say that clients should ask, ``None`` for nothing.

    Raises:
        TypeError: ``tools``, ``resources``, ``prompts`` or ``versions`` is of another kind.
        ValueError: ``versions`` names no revision.
    """

    def __init__(
        self,
        tools: _catalog.Tools = None,
        resources: _catalog.Resources = None,
        prompts: _catalog.Prompts = None,
        *,
        versions: Union[str, Iterable[str]] = "all",
        page_size: Optional[int] = None,
        instructions: Optional[str] = None,
        server_info: Optional[Mapping[str, Any]] = None,
        capabilities: Optional[Message] = None,
        complete: Optional[Completer] = None,
        ttl_ms: _caching.TTLs = 0,
        cache_scope: _caching.Scopes = "private",
        answer_timeout: float = 30.0,
        request_state: bool = True,
        principal: Optional[Callable[[Mapping[str, str]], Optional[str]]] = None,
        extensions: Optional[Mapping[str, Message]] = None,
        task_ttl_ms: Optional[int] = 3_600_000,
        poll_interval_ms: Optional[int] = 10,
    ) -> None:
        self.versions = served_versions(versions)
        self.modern_versions = tuple(version for version in self.versions if is_modern(version))
        self.handshake_versions = tuple(version for version in self.versions if not is_modern(version))
        self.tools: dict[str, FakeTool] = _catalog.named_items("tools", tools, _catalog.as_tool)
        self.prompts: dict[str, FakePrompt] = _catalog.named_items("prompts", prompts, _catalog.as_prompt)
        self.resources: dict[str, FakeResource] = _catalog.resources_by_uri(resources)
        self.skills: dict[str, FakeSkill] = {}
        self.page_size = page_size
        self.instructions = instructions
        self.server_info = dict(server_info or {"name": "fake-server", "version": "1.0"})
        self.complete = complete
        self.ttl_ms: _caching.TTLs = ttl_ms
        self.cache_scope: _caching.Scopes = cache_scope
        self.answer_timeout = answer_timeout
        self.overrides: dict[str, Override] = {}
        self.subscriptions = Subscriptions()
        self.request_state = request_state
        self.principal = principal
        self.completed_elicitations: set[str] = set()
        self.extensions = dict(extensions or {})
        self.task_ttl_ms = task_ttl_ms
        self.poll_interval_ms = poll_interval_ms
        self.tasks = Tasks()
        self.secret = os.urandom(32)
        self._capabilities = capabilities
        # Guards `_received` and `_connections`; who waits for messages waits on it.
        self._lock = threading.Condition()
        self._received: list[Any] = []
        self._connections: set[Connection] = set()
        self._own = self.connect()

    @property
    def has_own_capabilities(self) -> bool:
        """Whether what the server declares was given, and is not derived from what it has."""
        return self._capabilities is not None

    @property
    def capabilities(self) -> Message:
        """What the server declares, apart from extensions and tasks where these are derived."""
        if self._capabilities is not None:
            return self._capabilities
        found: Message = {"logging": {}}
        if self.tools:
            found["tools"] = {"listChanged": True}
        if self.prompts:
            found["prompts"] = {"listChanged": True}
        if self.resources:
            found["resources"] = {"listChanged": True, "subscribe": True}
        if self.complete is not None:
            found["completions"] = {}
        return found

    def supports(self, area: str, feature: str) -> bool:
        """Whether a feature is served: all are, except where other capabilities have been declared."""
        if self._capabilities is None:
            return True
        declared = self._capabilities.get(area)
        return isinstance(declared, dict) and bool(declared.get(feature))

    # --- messages ----------------------------------------------------------------------------------------

    def handle(self, message: Any, send: Send) -> Optional[Message]:
        """Take one message of the client, as `InMemory` passes it, and return the response if one is due."""
        if isinstance(message, dict) and message.get("method") == "initialize":
            self._own.send = send
        return self._own.handle(message, send)

    def connect(self) -> Connection:
        """Make a connection of its own: another state of the handshake, other requests in flight."""
        connection = Connection(self)
        with self._lock:
            self._connections.add(connection)
        return connection

    @property
    def connections(self) -> list[Connection]:
        """The connections that are open now."""
        with self._lock:
            return list(self._connections)

    def disconnect(self, connection: Connection) -> None:
        """Forget a connection and cancel what is in flight on it."""
        with self._lock:
            self._connections.discard(connection)
        connection.close()

    def record(self, message: Any) -> None:
        """Note what arrived."""
        with self._lock:
            self._received.append(message)
            self._lock.notify_all()

    @property
    def requests(self) -> list[Any]:
        """Every message that arrived so far, in order: requests, notifications and responses."""
        with self._lock:
            return list(self._received)

    def received(self, method: str) -> list[Message]:
        """Return the messages of one method that arrived so far."""
        return [item for item in self.requests if isinstance(item, dict) and item.get("method") == method]

    def count(self, method: str) -> int:
        """Return how many messages of one method have arrived so far."""
        return len(self.received(method))

    def wait_for(self, method: str, count: int = 1, timeout: float = 10.0) -> list[Message]:
        """Wait until ``count`` messages of one method have arrived, and return those that have.

        Raises:
            TimeoutError: They did not in ``timeout`` seconds.
        """
        with self._lock:
            if not self._lock.wait_for(lambda: self.count(method) >= count, timeout):
                raise TimeoutError(f"{self.count(method)} messages of {method} have arrived, not {count}")
            return self.received(method)

    # --- what it offers ------------------------------------------------------------------------------------

    def on(self, method: str, function: Function, *, raw: bool = False) -> None:
        """Answer a method differently, checks of version and ``_meta`` included.

        Args:
            method: The method of a request or notification.
            function: Called as ``function(message)`` or ``function(message, context)``. It returns the
                result, ``None`` for no answer at all, or ``NotImplemented`` for the usual one; or it
                raises `RpcError`.
            raw: Leave the result as it is; otherwise what the revision asks of every result is added.
        """
        self.overrides[method] = Override(function, raw)

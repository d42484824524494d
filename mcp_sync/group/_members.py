"""The servers of a group: opened, asked and closed at the same time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any, Callable, Optional, TypeVar

from .._arguments import check_instance
from .._calls import deadline_of
from .._concurrency import fork
from .._concurrency.cancel import CancelToken
from .._concurrency.deadline import Deadline
from .._servers.making import as_server, read_servers
from .._servers.shelf import Servers, Shelf
from .._servers.status import StatusTable
from .._servers.together import Job, Outcome, close_all, together
from .._unpicklable import Unpicklable
from ..client import Client
from ..config import ConfigError
from ..config._variables import Inputs
from ..errors import (
    CallCancelled,
    CallTimeout,
    ClientClosed,
    ConnectFailed,
    MCPError,
    NegotiationFailed,
    NotSupported,
    TransportError,
    UsageError,
)
from ..errors._base import another
from ..options import UNSET, TimeoutArgument, Timeouts, check_seconds
from ._filter import Rule, Rules
from ._names import POLICIES, Names
from ._slow import Question, Slow

logger = logging.getLogger("mcp_sync.group")

T = TypeVar("T")
M = TypeVar("M", bound="Members")


class Members(Unpicklable):
    """What `ClientGroup` documents, as far as it concerns its servers and not what they have."""

    def __init__(
        self,
        servers: Servers,
        *,
        names: str = "prefix",
        separator: str = "_",
        for_models: bool = False,
        allow: Rule = None,
        deny: Rule = None,
        on_error: str = "skip",
        server_timeout: Optional[float] = 10,
        threads: int = 32,
        inputs: Inputs = None,
        **options: Any,
    ) -> None:
        _check_choice("names", names, POLICIES)
        _check_choice("on_error", on_error, ("skip", "raise"))
        check_instance("separator", separator, str)
        check_instance("threads", threads, int)
        check_seconds("server_timeout", server_timeout)
        if threads < 1 or not separator:
            raise UsageError("threads must be at least 1, and separator must not be empty")
        self._inputs = inputs
        self._raises = on_error == "raise"
        self._patience = None if self._raises else server_timeout
        self._slow = Slow()
        self._threads = threads
        self._rules = Rules(allow, deny)
        self._tool_names = Names("tool", names, separator, for_models)
        self._prompt_names = Names("prompt", names, separator, for_models)
        self._shelf = Shelf("group", servers, inputs, options, self._rules.of)
        # Held while servers are added or removed, so that no change gets lost. No I/O, and no waiting.
        self._changing = threading.RLock()
        self._shelf.servers()
        fork.watch(self)

    def __getitem__(self, name: str) -> Client:
        """Return the client of one server, which opens on first use and goes by the same rules for tools.

        Raises:
            ConfigError: There is no such server, or it cannot be used, or is disabled.
            ClientClosed: The group is closed.
        """
        return self._shelf.client(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._shelf.servers()))

    def __len__(self) -> int:
        return len(self._shelf.servers())

    def __contains__(self, name: object) -> bool:
        return name in self._shelf.servers()

    def __repr__(self) -> str:
        return f"<ClientGroup {', '.join(self)}>"

    def __enter__(self: M) -> M:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def add(self, name: str, server: Any) -> None:
        """Add a server. It is opened when it is used.

        Raises:
            UsageError: There is one of that name.
            ConfigError: Its configuration cannot be.
        """
        if not isinstance(name, str) or not name:
            raise UsageError("a server needs a name: a string that is not empty")
        added = as_server(name, server, self._inputs)
        with self._changing:
            if name in self:
                raise UsageError(f"the group has a server {name!r} already")
            self._shelf.replace({**self._shelf.servers(), name: added})

    def remove(self, name: str, timeout: Optional[float] = None) -> None:
        """Remove a server, and close its client: calls in flight end with `ClientClosed`.

        Args:
            name: The server.
            timeout: Seconds that closing may take; default ``Timeouts.close``.

        Raises:
            ConfigError: There is none of that name.
        """
        check_seconds("timeout", timeout)
        with self._changing:
            if name not in self:
                self._shelf.client(name)
            left = {each: server for each, server in self._shelf.servers().items() if each != name}
            gone = self._shelf.replace(left)
            self._slow.forget(name)
            self._forget(name)
        close_all("group", gone, _bound(timeout))

    def reconnect(self, name: str, *, timeout: TimeoutArgument = UNSET) -> Client:
        """Close the client of a server, and open a new one. Variables of its configuration are read anew.

        Raises:
            UsageError: It is a client of yours.
            MCPError: What `Client.open` raises.
        """
        if self._shelf.is_brought(name):
            raise UsageError(f"the client {name!r} is yours: it opens anew by itself, or make another one")
        close_all("group", self._shelf.take(name), Timeouts().close)
        client = self._shelf.client(name)
        return self._watched(name, lambda: client.open(timeout=timeout))

    def reload(self, servers: Servers) -> None:
        """Take over a changed configuration. Servers that are the same in it stay open.

        Raises:
            ConfigError: It cannot be read. Nothing has changed then.
        """
        found = read_servers(servers() if callable(servers) else servers, self._inputs)
        with self._changing:
            before = self._shelf.servers()
            gone = self._shelf.replace(found)
            for name in before:
                if found.get(name) != before[name]:
                    self._slow.forget(name)
                if name not in found:
                    self._forget(name)
        close_all("group", gone, Timeouts().close)

    def _forget(self, name: str) -> None:
        self._tool_names.forget(name)
        self._prompt_names.forget(name)

    def open(self, *, timeout: TimeoutArgument = UNSET) -> StatusTable:
        """Open all servers at the same time, and return how it stands with them.

        Args:
            timeout: Seconds for all together; default: those of each client, and ``server_timeout``.

        Raises:
            MCPError: Only with ``on_error="raise"``.
        """

        def opening(client: Client, token: CancelToken) -> None:
            bound = client._timeout if timeout is UNSET else timeout
            client._engine.open(deadline_of(None if bound is UNSET else bound), cancel=token)

        self._each(opening, whole(timeout), is_patient=timeout is not UNSET)
        return self.status()

    def status(self) -> StatusTable:
        """Return how it stands with each server, asking none. ``print`` shows it as a table."""
        return StatusTable(self._shelf.status(name) for name in self)

    def close(self, timeout: Optional[float] = None) -> None:
        """Close all clients at the same time, but for those of yours. Idempotent, from any thread.

        Args:
            timeout: Seconds that it may take in all; default ``Timeouts.close``.
        """
        check_seconds("timeout", timeout)
        self._shelf.close(_bound(timeout))

    def after_fork_in_child(self) -> None:
        """Replace locks that another thread may have held. The clients see to themselves."""
        self._changing = threading.RLock()
        # Whoever asks them is not in this process.
        self._slow = Slow()
        self._shelf.after_fork_in_child()
        self._tool_names.after_fork_in_child()
        self._prompt_names.after_fork_in_child()

    def _each(
        self, ask: Callable[[Client, CancelToken], T], deadline: Deadline, is_patient: bool
    ) -> dict[str, T]:
        """Ask all servers at the same time, and return what those said that did, by name.

        Args:
            ask: Asks one.
            deadline: How long that may take in all.
            is_patient: Whether any server may keep the others waiting until then.
        """
        self._shelf.check_open()
        names = [name for name in self if not self._shelf.is_disabled(name)]
        patience = None if is_patient else self._patience
        aside = set() if patience is None else self._slow.aside(names)
        questions = {name: Question() for name in names if name not in aside or not self._slow.is_asked(name)}
        jobs = {name: self._job(name, question, ask) for name, question in questions.items()}
        outcomes = together("group", jobs, deadline, self._threads, patience, aside)
        found: dict[str, T] = {}
        for name in names:
            outcome = outcomes.get(name)
            if outcome is not None and outcome.error is None:
                found[name] = outcome.value
                continue
            if outcome is None:
                # Nobody has waited for it, and the warning was given when somebody did.
                logger.debug("Server %s is left out: it has not answered yet", name)
                continue
            error = self._failed(name, questions[name], outcome)
            if self._raises:
                raise error
            logger.warning("Server %s is left out: %s", name, error)
        return found

    def _job(self, name: str, question: Question, ask: Callable[[Client, CancelToken], Any]) -> Job:
        def run(token: CancelToken) -> Any:
            self._slow.ask(name, question)
            try:
                answer = ask(self[name], token)
                question.is_answered = True
            except MCPError as error:
                if self._slow.was_asked(name, question) and not isinstance(
                    error, (UsageError, CallCancelled)
                ):
                    # Perhaps nobody waits for it any more, and it tells more than that it took too long.
                    self._shelf.failures[name] = another(error)
                raise
            finally:
                question.is_over = True
            self._answered(name)
            return answer

        return run

    def _failed(self, name: str, question: Question, outcome: Outcome) -> MCPError:
        """Remember that a server is down, or slow, and return why."""
        error = outcome.error
        assert error is not None
        if not isinstance(error, MCPError) or _is_slip(error):
            raise error
        self._shelf.failures[name] = error
        if outcome.is_late and not isinstance(error, ClientClosed):
            self._slow.add(name, question)
        if question.is_answered:
            self._answered(name)
        return error

    def _answered(self, name: str) -> None:
        self._slow.forget(name)
        self._shelf.failures.pop(name, None)

    def _watched(self, name: str, call: Callable[[], T]) -> T:
        """Make a call to one server, and remember whether it is up."""
        try:
            result = call()
        except (TransportError, NegotiationFailed, CallTimeout) as error:
            if isinstance(error, (ConnectFailed, NegotiationFailed)):
                self._shelf.failures[name] = another(error)
            # Its address, or command, is not what it is called by here.
            error.args = (f"server {name!r}: {error}",)
            raise
        self._answered(name)
        return result


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")


def _is_slip(error: MCPError) -> bool:
    """Whether it is the caller's fault, and not that of one server."""
    return isinstance(error, UsageError) and not isinstance(error, (ConfigError, ClientClosed, NotSupported))


def _bound(timeout: Optional[float]) -> Optional[float]:
    return Timeouts().close if timeout is None else timeout


def whole(timeout: TimeoutArgument) -> Deadline:
    """Return the deadline of something that several calls are made for."""
    return Deadline(None) if timeout is UNSET else deadline_of(timeout)

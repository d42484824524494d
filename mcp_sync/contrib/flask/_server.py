"""What ``mcp[alias]`` is: a server, as the user of the current request sees it."""

from __future__ import annotations

import time
from typing import Any, Callable, Optional

from flask import g, has_request_context

from ...errors import AuthorizationRequired, InputRequired, InsufficientScope
from .._bounded import BoundedClient, Budget, is_modern
from . import signals
from ._pending import answered
from ._state import AppState

_PAUSING = ("call_tool", "get_prompt", "read_resource")


class Server:
    """A server of the application. Has all methods of a `Client`; ``mcp["github"].call_tool(...)``.

    Where users log in to the server, they are called for the user of the request, else with the client that
    all share. All calls of a request end within ``MCP_DEADLINE`` together. When the server asks for input,
    `InputRequired` is raised (2026-07-28).

    Args:
        state: The application.
        alias: The server.
        client: What takes the place of the client that all share.
        budget: What takes the place of ``MCP_DEADLINE``.
    """

    def __init__(
        self, state: AppState, alias: str, client: Any = None, budget: Optional[Budget] = None
    ) -> None:
        self._state = state
        self._alias = alias
        self._own_client = client
        self._budget = budget

    def __repr__(self) -> str:
        return f"<Server {self._alias!r}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._state.asks_users(self._alias):
            return getattr(self.for_user(), name)
        return getattr(self._bounded(self.client, None), name)

    @property
    def client(self) -> Any:
        """The `Client` that all share; see `Registry`."""
        return self._state.registry[self._alias] if self._own_client is None else self._own_client

    def for_user(self, key: Any = None) -> Any:
        """Return the client of one user: with the user's own grant, and answers of the user's own.

        Args:
            key: Who, as ``principal_getter`` says it; by default whom that names.

        Raises:
            LoginRequired: Nobody is logged in.
            ConfigError: There is no such server.
        """
        return self._view(self._state.principal() if key is None else f"user:{key}")

    def _view(self, principal: str) -> BoundedClient:
        views = g.setdefault("_mcp_sync_views", {})
        view = views.get((self._alias, principal))
        if view is None:
            view = self._state.client_of(self._alias, principal, self.client)
            views[(self._alias, principal)] = view
        return self._bounded(view, principal)

    def status(self) -> Any:
        """Return what there is of the user's grant; see `OAuth.status`. Asks nobody."""
        state, alias = self._state, self._alias
        return state.oauth(alias, state.principal()).status(state.server_url(alias))

    def _bounded(self, client: Any, principal: Optional[str]) -> BoundedClient:
        budget = self._budget or _budget(self._state)

        def around(name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
            return _Call(self._state, self._alias, principal, client, budget, name, verb)

        return BoundedClient(client, budget, around)


def _budget(state: AppState) -> Budget:
    """Return that of the request; each look-up has its own where there is none."""
    if not has_request_context():
        return Budget(state.settings.seconds("DEADLINE"))
    if "_mcp_sync_budget" not in g:
        g._mcp_sync_budget = Budget(state.settings.seconds("DEADLINE"))
    return g._mcp_sync_budget  # type: ignore[no-any-return]


class _Call:
    """One verb of a client."""

    def __init__(
        self,
        state: AppState,
        alias: str,
        principal: Optional[str],
        client: Any,
        budget: Budget,
        name: str,
        verb: Callable[..., Any],
    ) -> None:
        self._state = state
        self._alias = alias
        self._principal = principal
        self._client = client
        self._budget = budget
        self._name = name
        self._verb = verb

    def __call__(self, *args: Any, **options: Any) -> Any:
        try:
            if self._name not in _PAUSING:
                return self._verb(*args, **options)
            return self._pausing(*args, **options)
        except InputRequired as waiting:
            waiting._mcp_server = self._alias  # type: ignore[attr-defined]
            raise
        except (AuthorizationRequired, InsufficientScope) as error:
            error._mcp_server = self._alias  # type: ignore[union-attr]
            told = {"server": self._alias, "principal": self._principal}
            signals.send(signals.authorization_required, **told)
            raise

    def _pausing(self, *args: Any, **options: Any) -> Any:
        found = answered(self._state, self._alias, self._principal, self._name, args, options)
        if found is not None:
            return found
        if "on_input" not in options and has_request_context() and is_modern(self._client, self._budget):
            options["on_input"] = "raise"
        if self._name != "call_tool":
            return self._verb(*args, **options)
        return self._tool(*args, **options)

    def _tool(self, *args: Any, **options: Any) -> Any:
        began, is_well = time.monotonic(), False
        try:
            result = self._verb(*args, **options)
            is_well = not getattr(result, "is_error", False)
            return result
        finally:
            signals.send(
                signals.tool_called,
                server=self._alias,
                principal=self._principal,
                tool=args[0] if args else options.get("name"),
                seconds=time.monotonic() - began,
                ok=is_well,
            )

"""Many servers as one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Callable, Optional

from .. import types
from .._arguments import check_instance
from .._concurrency.cancel import CancelToken
from .._concurrency.deadline import Deadline
from ..client import Client
from ..errors import MethodNotFound, UsageError
from ..options import UNSET, TimeoutArgument
from ._members import Members, whole
from ._names import Names, Origin


class ClientGroup(Members):
    """Many servers as one: their tools, prompts and resources in one list, each call sent to the right one.

    Nothing is opened before it is used. What concerns all servers is done with all of them at the same time,
    so it takes as long as the slowest. A server that is down harms no other: it is left out, and `status`
    says why. ``group["name"]`` is the `Client` of one server. Safe for any number of threads, and after a
    fork.

    Tools and prompts are named ``server_tool``. A name stays as long as its server is in the group, and does
    not depend on which servers are up. Where two would be the same, one of them gets a digest.

    Args:
        servers: A `Config`, the path of a file with one, or a mapping of names to servers. A server is what
            `Client` takes, a mapping as in such a file, a `ServerConfig`, or a `Client` of yours, which stays
            open and as it is.
        names: ``"prefix"``; or names without one. Where two servers have a tool of the same name then,
            ``"error"`` raises `UsageError`, and ``"first"`` shows that of the server that comes first (once
            shown, it stays that one).
        separator: What stands between server and tool.
        for_models: Have only names that every vendor of models accepts: at most 64 letters, digits, ``_`` and
            ``-``. Others are cut and get a digest.
        allow: Which tools there are, in lists and for calls: patterns (as of `fnmatch`) for the names that
            the servers give them, or for ``server/tool``; or ``f(server, tool)``, which returns whether.
        deny: Which there are not, even if allowed; the same way. In doubt, where a tool has a slash in its
            own name, a pattern with a slash counts for that as well.
        on_error: What happens where all servers are asked and some fail: ``"skip"`` them with a warning in
            the log, or ``"raise"`` the first error.
        server_timeout: Seconds that one server may keep the others waiting where all are asked, from the last
            answer of another on; ``None`` for as long as its client waits. It is left out then, and asked on
            behind the scenes; until it has answered nobody waits for it any more. Where a method gets a
            ``timeout``, that counts alone; and none of this with ``on_error="raise"``.
        threads: How many servers are opened or asked at a time.
        inputs: As for `load_config`.
        options: Arguments of all clients, where the configuration of the server says nothing else.

    Raises:
        ConfigError: The configuration cannot be read.
        UsageError: An argument makes no sense.
    """

    # --- tools --------------------------------------------------------------------------------------------

    def tools(self, *, timeout: TimeoutArgument = UNSET, cache: str = "use") -> list[types.Tool]:
        """Return the tools of all servers, named as this group names them.

        Args:
            timeout: Seconds for all together; default: those of each client, for each page, and
                ``server_timeout``.
            cache: As for `Client.list_tools`.

        Raises:
            UsageError: Two servers have a tool of the same name (``names="error"``).
            MCPError: Only with ``on_error="raise"``.
        """
        return self._tools(timeout, cache, is_patient=timeout is not UNSET)

    def _tools(
        self, timeout: TimeoutArgument = UNSET, cache: str = "use", is_patient: bool = False
    ) -> list[types.Tool]:
        found = self._listed(lambda client: client.list_tools, "tools", timeout, cache, is_patient)
        # A client of the user has no filter of its own.
        return self._named(self._tool_names, found, lambda server, name: self._rules.allows(server, name))

    def call_tool(
        self,
        name: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        timeout: TimeoutArgument = UNSET,
        **options: Any,
    ) -> Any:
        """Call a tool by the name that it has in this group.

        Where the name alone does not say which server has it, the tools are listed first.

        Args:
            name: The tool.
            arguments: As for `Client.call_tool`.
            timeout: Seconds for the whole call.
            options: As for `Client.call_tool`.

        Returns:
            What `Client.call_tool` returns: a ``CallToolResult``, or what ``result_type=`` says.

        Raises:
            UsageError: There is no such tool, or it may not be used.
            MCPError: As for `Client.call_tool`.
        """
        budget = _Budget(timeout)
        server, tool = self._tool(name, budget)
        client = self[server]
        result: types.CallToolResult = self._watched(
            server, lambda: client.call_tool(tool, arguments, timeout=budget.next(), **options)
        )
        return result

    def find_tool(self, name: str, *, timeout: TimeoutArgument = UNSET) -> Origin:
        """Return which server has a tool, and how it calls it: for what only `Client` has.

        ::

            server, tool = group.find_tool("reports_build")
            handle = group[server].start_task(tool, {"month": "May"})

        Raises:
            UsageError: There is no such tool, or it may not be used.
        """
        return self._tool(name, _Budget(timeout))

    def _tool(self, name: str, budget: _Budget) -> Origin:
        origin = self._find(self._tool_names, "tool", name, lambda: self._tools(budget.next()))
        if not self._rules.allows(*origin):
            raise UsageError(f"the tool {name!r} is not among those that may be used")
        return origin

    # --- prompts and resources ----------------------------------------------------------------------------

    def prompts(self, *, timeout: TimeoutArgument = UNSET, cache: str = "use") -> list[types.Prompt]:
        """Return the prompts of all servers, named as this group names them. See `tools`."""
        return self._prompts(timeout, cache, is_patient=timeout is not UNSET)

    def _prompts(
        self, timeout: TimeoutArgument, cache: str = "use", is_patient: bool = False
    ) -> list[types.Prompt]:
        found = self._listed(lambda client: client.list_prompts, "prompts", timeout, cache, is_patient)
        return self._named(self._prompt_names, found)

    def get_prompt(
        self,
        name: str,
        arguments: Optional[Mapping[str, str]] = None,
        *,
        timeout: TimeoutArgument = UNSET,
        **options: Any,
    ) -> types.GetPromptResult:
        """Return a prompt by the name that it has in this group. See `call_tool`."""
        budget = _Budget(timeout)
        server, prompt = self._find(self._prompt_names, "prompt", name, lambda: self._prompts(budget.next()))
        client = self[server]
        return self._watched(
            server, lambda: client.get_prompt(prompt, arguments, timeout=budget.next(), **options)
        )

    def resources(
        self, *, timeout: TimeoutArgument = UNSET, cache: str = "use"
    ) -> list[tuple[str, types.Resource]]:
        """Return the resources of all servers, each with the name of its server. See `tools`."""
        return self._resources(timeout, cache, is_patient=timeout is not UNSET)

    def _resources(
        self, timeout: TimeoutArgument, cache: str = "use", is_patient: bool = False
    ) -> list[tuple[str, types.Resource]]:
        found = self._listed(lambda client: client.list_resources, "resources", timeout, cache, is_patient)
        return [(server, item) for server, items in found.items() for item in items]

    def read_resource(
        self, uri: str, server: Optional[str] = None, *, timeout: TimeoutArgument = UNSET, **options: Any
    ) -> types.ReadResourceResult:
        """Return the contents of a resource.

        Args:
            uri: The resource.
            server: Whose it is. Without it the resources are listed, and exactly one server must have it.
            timeout: Seconds for the whole call.
            options: As for `Client.read_resource`.

        Raises:
            UsageError: No server lists it, or several do.
            MCPError: As for `Client.read_resource`.
        """
        budget = _Budget(timeout)
        if server is None:
            listed = self._resources(budget.next())
            owners = list(dict.fromkeys(owner for owner, item in listed if item.uri == str(uri)))
            if len(owners) != 1:
                have = "no server lists" if not owners else f"{' and '.join(owners)} have"
                raise UsageError(f"{have} the resource {uri}{self._not_asked()}: say which one by server=")
            server = owners[0]
        client, name = self[server], server
        return self._watched(name, lambda: client.read_resource(uri, timeout=budget.next(), **options))

    def _listed(
        self,
        verb: Callable[[Client], Callable[..., Any]],
        items: str,
        timeout: TimeoutArgument,
        cache: str,
        is_patient: bool,
    ) -> dict[str, list[Any]]:
        """List something of all servers: nothing of one that knows no such method."""
        deadline = whole(timeout)

        def listing(client: Client, token: CancelToken) -> list[Any]:
            def page(cursor: Optional[str]) -> Any:
                return verb(client)(cursor, timeout=_left(deadline, timeout), cancel=token, cache=cache)

            try:
                return list(client._all(page, items))
            except MethodNotFound:
                return []

        return self._each(listing, deadline, is_patient)

    def _named(
        self,
        names: Names,
        found: Mapping[str, list[Any]],
        allows: Optional[Callable[[str, str], bool]] = None,
    ) -> list[Any]:
        servers = tuple(self)
        named = []
        for server, items in found.items():
            for item in items:
                if allows is None or allows(server, item.name):
                    name = names.name(Origin(server, item.name), servers)
                    if name is not None:
                        named.append(item.model_copy(update={"name": name}))
        return named

    def _find(self, names: Names, what: str, name: str, learn: Callable[[], Any]) -> Origin:
        """Return whose a name is; ask the servers if it does not say so itself."""
        check_instance(f"the name of a {what}", name, str)
        origin = names.find(name) or names.parse(name, tuple(self))
        if origin is None:
            learn()
            origin = names.find(name)
        if origin is None:
            known = names.known()
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise UsageError(f"no server of the group has a {what} {name!r}{self._not_asked()}{hint}")
        return origin

    def _not_asked(self) -> str:
        """Say which servers may have what was not found."""
        names = [name for name in self if name in self._shelf.failures]
        return f" ({' and '.join(names)} could not be asked)" if names else ""


def _left(deadline: Deadline, timeout: TimeoutArgument) -> TimeoutArgument:
    """Return what is left of a timeout, for the next call."""
    return timeout if timeout is UNSET or timeout is None else deadline.remaining()


class _Budget:
    """A timeout for several calls, one after the other."""

    def __init__(self, timeout: TimeoutArgument) -> None:
        self._timeout = timeout
        self._deadline = whole(timeout)
        self._is_used = False

    def next(self) -> TimeoutArgument:
        """Return the timeout of the next call: the whole of it for the first, whose errors name it."""
        if self._is_used:
            return _left(self._deadline, self._timeout)
        self._is_used = True
        return self._timeout

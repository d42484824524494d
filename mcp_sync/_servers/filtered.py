"""A client that offers and calls some tools of its server only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Callable, Optional

from .. import types
from .._concurrency.deadline import Deadline
from .._concurrency.fork import no_fork
from .._engine.call_options import CallOptions
from ..client import Client
from ..errors import UsageError

if TYPE_CHECKING:
    from ..principals import PrincipalView

Filter = Callable[[str], bool]


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name fits one of these patterns, letter case included."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class Filtered(Client):
    """A `Client`, or a view of one, to which only some tools exist. `client_class` says which."""

    _allows: Filter

    def _list_tools(
        self, cursor: Optional[str], options: CallOptions, deadline: Deadline
    ) -> types.ListToolsResult:
        page = super()._list_tools(cursor, options, deadline)
        # A copy: the page may be one that a cache keeps.
        return page.model_copy(update={"tools": [tool for tool in page.tools if self._allows(tool.name)]})

    def _call_tool(
        self, params: dict[str, Any], options: CallOptions, deadline: Deadline
    ) -> types.CallToolResult:
        self._check(params["name"])
        return super()._call_tool(params, options, deadline)

    def start_task(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """See `Client.start_task`."""
        self._check(name)
        return super().start_task(name, *args, **kwargs)

    def request(self, method: str, params: Any = None, *args: Any, **kwargs: Any) -> Any:
        """See `Client.request`."""
        if method == "tools/call" and isinstance(params, Mapping):
            self._check(params.get("name"))
        return super().request(method, params, *args, **kwargs)

    def for_principal(
        self, key: str, auth: Any = None, headers: Optional[Mapping[str, str]] = None
    ) -> PrincipalView:
        """See `Client.for_principal`."""
        with no_fork():
            from ..principals import PrincipalView

        view = super().for_principal(key, auth, headers)
        if isinstance(view, Filtered):
            return view
        # The client makes its views; what is not for it is not for them.
        view.__class__ = _with_filter(PrincipalView, self._allows)
        return view

    def _check(self, name: Any) -> None:
        if not self._allows(name):
            raise UsageError(f"the tool {name!r} of {self.name} is not among those that may be used")


def client_class(
    allow: Optional[Iterable[str]], deny: Iterable[str], also: Optional[Filter] = None
) -> type[Client]:
    """Return the class of clients that offer and call certain tools only: `Client` itself for all tools.

    Args:
        allow: Patterns of what may be used, ``None`` for all.
        deny: Patterns of what may not, even if allowed.
        also: A further condition.
    """
    if allow is None and not deny and also is None:
        return Client

    def allows(name: str) -> bool:
        is_allowed = (allow is None or matches(name, allow)) and not matches(name, deny)
        return is_allowed and (also is None or bool(also(name)))

    return _with_filter(Client, allows)


def _with_filter(kind: type[Client], allows: Filter) -> type[Any]:
    bases = (Filtered,) if kind is Client else (Filtered, kind)
    return type(kind.__name__, bases, {"_allows": staticmethod(allows), "__doc__": kind.__doc__})

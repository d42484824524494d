"""Which tools of a group there are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable, Optional, Union

from .._arguments import check_callback
from .._servers.filtered import Filter, matches
from ..errors import UsageError

Rule = Union[Iterable[str], Callable[[str, str], bool], None]


class Rules:
    """What is allowed, and what is denied even if allowed.

    Args:
        allow: Patterns, or ``f(server, tool)``; ``None`` allows all.
        deny: The same; ``None`` denies nothing.

    Raises:
        UsageError: One of them is something else.
    """

    def __init__(self, allow: Rule, deny: Rule) -> None:
        self._allow = _checked("allow", allow)
        self._deny = _checked("deny", deny)

    def of(self, server: str) -> Optional[Filter]:
        """Return what holds for the tools of a server, ``None`` if all are allowed."""
        if self._allow is None and self._deny is None:
            return None
        return lambda tool: self.allows(server, tool)

    def allows(self, server: str, tool: str) -> bool:
        """Whether a tool may be used."""
        is_allowed = self._allow is None or _applies(self._allow, server, tool)
        return is_allowed and not (self._deny is not None and self._denies(server, tool))

    def _denies(self, server: str, tool: str) -> bool:
        if _applies(self._deny, server, tool):
            return True
        # The name of a tool may have a slash, too: in doubt it is denied.
        return not callable(self._deny) and matches(tool, self._deny)


def _checked(name: str, rule: Any) -> Any:
    if rule is None or callable(rule):
        check_callback(name, rule)
        return rule
    patterns = None if isinstance(rule, (str, bytes)) or not isinstance(rule, Iterable) else tuple(rule)
    if patterns is None or not all(isinstance(each, str) for each in patterns):
        raise UsageError(f'{name} must be a list of patterns such as ["read_*"], or f(server, tool)')
    return patterns


def _applies(rule: Any, server: str, tool: str) -> bool:
    if callable(rule):
        return bool(rule(server, tool))
    full = f"{server}/{tool}"
    # A pattern with a slash names the server, too.
    return any(matches(full if "/" in pattern else tool, (pattern,)) for pattern in rule)

"""The names under which a group shows what its servers have."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

from ..errors import UsageError

POLICIES = ("prefix", "error", "first")

# What all vendors of models accept in the name of a tool: letters, digits, _ and -, 64 in all, the first of
# them no digit and no hyphen.
_LONGEST = 64
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
_START = re.compile(r"[A-Za-z_]")
# How many digits of a digest tell two names apart; more, should these not do.
_DIGITS = (8, 16, 32)
_DIGEST = re.compile(r"_[0-9a-f]{8,32}$")


class Origin(NamedTuple):
    """Whose it is, and how it is called there."""

    server: str
    name: str


class Names:
    """Gives names, and keeps them: what has a name keeps it as long as its server is there.

    With ``"prefix"`` a name depends on nothing but the server, what it calls the thing, and the names of the
    other servers; not on what these have, or which of them are up. Where ``server_name`` would mean something
    else as well, or is not fit for a model, a digest of both is added to it. Safe for any number of threads.

    Args:
        what: What is named, for messages.
        policy: ``"prefix"``; without one, ``"error"`` refuses two of one name, ``"first"`` shows the first.
        separator: What stands behind the prefix.
        for_models: Whether every vendor of models must accept the names.
    """

    def __init__(self, what: str, policy: str, separator: str, for_models: bool) -> None:
        self._what = what
        self._policy = policy
        self._separator = separator
        self._for_models = for_models
        # Guards both. Nothing but look-ups and digests under it.
        self._lock = threading.RLock()
        self._origins: dict[str, Origin] = {}
        self._names: dict[Origin, str] = {}

    def name(self, origin: Origin, servers: Iterable[str]) -> Optional[str]:
        """Return the name of something, ``None`` if it is hidden by another of that name.

        Args:
            origin: Whose it is.
            servers: All servers of the group.

        Raises:
            UsageError: Another server has one of that name.
        """
        with self._lock:
            known = self._names.get(origin)
            if known is not None:
                return known
            name = self._wanted(origin, servers) if self._policy == "prefix" else self._plain(origin)
            if name is not None:
                self._origins[name], self._names[origin] = origin, name
            return name

    def find(self, name: str) -> Optional[Origin]:
        """Return whose name this is, as far as names were given."""
        return self._origins.get(name)

    def parse(self, name: str, servers: Sequence[str]) -> Optional[Origin]:
        """Return whose name this is by its prefix, ``None`` if that does not tell."""
        if self._policy != "prefix" or _DIGEST.search(name):
            return None
        origin = self._split(name, servers)
        with self._lock:
            return origin if origin is not None and self._wanted(origin, servers) == name else None

    def known(self) -> list[str]:
        """Return all names that were given."""
        with self._lock:
            return list(self._origins)

    def forget(self, server: str) -> None:
        """Free the names of a server."""
        with self._lock:
            for origin in [each for each in self._names if each.server == server]:
                del self._origins[self._names.pop(origin)]

    def after_fork_in_child(self) -> None:
        """Replace a lock that another thread may have held."""
        self._lock = threading.RLock()

    def _wanted(self, origin: Origin, servers: Iterable[str]) -> str:
        natural = f"{origin.server}{self._separator}{origin.name}"
        fit = self._fit(natural)
        if fit == natural and self._split(natural, servers) == origin and self._is_free(natural, origin):
            return natural
        return self._with_digest(fit, origin)

    def _plain(self, origin: Origin) -> Optional[str]:
        fit = self._fit(origin.name)
        name = fit if fit == origin.name else self._with_digest(fit, Origin("", origin.name))
        other = self._origins.get(name)
        if other is None:
            return name
        if self._policy == "error":
            raise UsageError(
                f"both {other.server!r} and {origin.server!r} have a {self._what} {origin.name!r}: "
                'name them by names="prefix", or take the first by names="first"'
            )
        return None

    def _is_free(self, name: str, origin: Origin) -> bool:
        return self._origins.get(name, origin) == origin

    def _fit(self, name: str) -> str:
        if not self._for_models:
            return name
        name = _UNFIT.sub("_", name)
        return (name if _START.match(name) else f"_{name}")[:_LONGEST]

    def _with_digest(self, name: str, origin: Origin) -> str:
        digest = hashlib.sha256("\0".join(origin).encode("utf-8", "surrogatepass")).hexdigest()
        for digits in _DIGITS:
            room = _LONGEST - digits - 1 if self._for_models else None
            found = f"{name[:room]}_{digest[:digits]}"
            if self._is_free(found, origin):
                break
        return found

    def _split(self, name: str, servers: Iterable[str]) -> Optional[Origin]:
        """Split a name after the longest prefix."""
        fitting = [each for each in servers if name.startswith(each + self._separator)]
        if not fitting:
            return None
        server = max(fitting, key=len)
        return Origin(server, name[len(server) + len(self._separator) :])

"""What the objects of a process tell each other: that a user has logged in or out, and which tokens serve."""

from __future__ import annotations

_MANY = 1024
_LATEST = 16  # tokens that are known to have been of use


class News:
    """Which change was the latest.

    Attributes:
        mark: Another object after each change; it is replaced in one step.
    """

    __slots__ = ("_served", "mark")

    def __init__(self) -> None:
        self.mark = object()
        # By their hashes, as nobody is to find a token here. Replaced in one step.
        self._served: tuple[int, ...] = ()

    def tell(self) -> None:
        """Note that something has changed."""
        self.mark = object()

    def has_served(self, server: str, token: str) -> bool:
        """Whether a server has taken a token, as far as this process remembers."""
        return hash((server, token)) in self._served

    def serves(self, server: str, token: str) -> None:
        """Note that a server has taken a token."""
        if not self.has_served(server, token):
            self._served = (*self._served[1 - _LATEST :], hash((server, token)))


def news_of(principal: str, application: str) -> News:
    """Return the news about the grants of a user of an application, whatever store they are in.

    That some users have them in common costs a look into the store now and then, and there is nothing to be
    locked or thrown away.
    """
    return _all[hash((principal, application)) % _MANY]


_all = [News() for _ in range(_MANY)]

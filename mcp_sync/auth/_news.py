"""What the objects of a process tell each other: that a user has logged in, or out."""

from __future__ import annotations

_MANY = 1024


class News:
    """Which change was the latest.

    Attributes:
        mark: Another object after each change; it is replaced in one step.
    """

    __slots__ = ("mark",)

    def __init__(self) -> None:
        self.mark = object()

    def tell(self) -> None:
        """Note that something has changed."""
        self.mark = object()


def news_of(principal: str, application: str) -> News:
    """Return the news about the grants of a user of an application, whatever store they are in.

    That some users have them in common costs a look into the store now and then, and there is nothing to be
    locked or thrown away.
    """
    return _all[hash((principal, application)) % _MANY]


_all = [News() for _ in range(_MANY)]

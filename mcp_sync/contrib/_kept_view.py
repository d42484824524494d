"""What users call servers with, from one request to the next."""

from __future__ import annotations

from typing import Any

from ..principals import PrincipalView


class KeptView(PrincipalView):
    """The client of one user. Other requests use it, too: the end of a ``with`` block leaves it open."""

    def __exit__(self, *exc_info: Any) -> None:
        """Leave it to the next request."""

"""Which redirects are followed: those to the same server that keep the message."""

from __future__ import annotations

from typing import NamedTuple, Optional
from urllib.parse import urljoin

from requests.utils import requote_uri

from ..._protocol.urls import origin, public_url

KEEPING_THE_MESSAGE = (307, 308)
# The others turn a POST into a GET (RFC 9110 section 15.4), which is right only where there is no message.
REDIRECTS = (301, 302, 303, *KEEPING_THE_MESSAGE)
MOST_REDIRECTS = 5


class Redirect(NamedTuple):
    """Where a redirect leads to.

    Attributes:
        url: The URL, absolute.
        refusal: Why it is not followed, ``None`` if it is.
    """

    url: str
    refusal: Optional[str] = None


def redirect(
    status: int, url: str, location: Optional[str], followed: tuple[int, ...] = KEEPING_THE_MESSAGE
) -> Redirect:
    """Decide about a redirect. Another server never gets what was meant for this one.

    Args:
        status: The status of the response.
        url: Where the request was sent.
        location: The response's ``Location``.
        followed: The statuses of redirects that are followed.
    """
    if location is None:
        return Redirect(url, "a redirect without a location")
    target = requote_uri(urljoin(url, location))
    here, there, where = origin(url), origin(target), public_url(target)
    if here[0] == "https" and there[0] == "http":
        return Redirect(target, f"a redirect to {where} is refused: it would send the request in clear")
    if here != there:
        return Redirect(target, f"a redirect to {where} is not followed: it is another server")
    if status not in followed:
        return Redirect(target, f"a redirect to {where} is not followed: it would drop the message")
    return Redirect(target)

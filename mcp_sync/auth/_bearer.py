"""A token that the user has, as an authorization of requests."""

from __future__ import annotations

import weakref
from typing import Any, Optional
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase

from .._arguments import check_instance
from .._protocol.urls import is_loopback, origin, public_url
from ..errors import UsageError
from ._resending import drain, rewound, send_again
from ._sources import TokenSource, check_source, read_source

_NAME = "the token of BearerToken"


class BearerToken(AuthBase):
    """Send a token in the ``Authorization`` header (RFC 6750): ``Client(url, auth=BearerToken("..."))``.

    It works with ``requests`` alone, too. It belongs to the server of the first request, and is sent to no
    other origin, neither after a redirect nor later. Safe for any number of threads.

    A function is called for each request, on the thread of the call, so it should keep what it fetches. After
    a 401 it is called once more; if it returns another token now, the request is sent once again.

    Args:
        token: The token, or a function that returns it.
        allow_http: Send it in clear to other machines, too. Everybody on the way can read and use it then.

    Raises:
        UsageError: It is no token; at a request: it would go in clear, or to another server.
        AuthError: At a request: the function failed.
    """

    def __init__(self, token: TokenSource, *, allow_http: bool = False) -> None:
        if isinstance(token, str) and token[:7].lower() == "bearer ":
            raise UsageError(f"{_NAME} is given without the word Bearer")
        check_source(_NAME, token)
        check_instance("allow_http", allow_http, bool)
        self._source = token
        self._allow_http = allow_http
        # The origin of the first request. Whoever comes first sets it, in one step.
        self._bound: dict[str, tuple[str, str, Optional[int]]] = {}

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Put the token on a request."""
        self._check_target(request.url or "")
        token = self.read()
        _present(request, token)
        if not isinstance(self._source, str):
            request.register_hook("response", _Repetition(self, token, request).after)  # type: ignore[no-untyped-call]
        return request

    def read(self) -> str:
        """Return the token that a request would get now.

        Raises:
            AuthError: The function that gives it failed.
        """
        return read_source(_NAME, self._source)

    def _newer(self, token: str) -> Optional[str]:
        """Return the token that is valid now, ``None`` if it is still the same."""
        current = self.read()
        return None if current == token else current

    def _may_go_to(self, url: str) -> bool:
        """Whether the token may be sent to a URL."""
        return self._bound.get("origin") == origin(url) and not self._is_exposed(url)

    def _is_exposed(self, url: str) -> bool:
        parts = urlsplit(url)
        return not (self._allow_http or parts.scheme.lower() == "https" or is_loopback(parts.hostname))

    def _check_target(self, url: str) -> None:
        if self._is_exposed(url):
            raise UsageError(
                f"the token would go to {public_url(url)} in clear: use https, or allow_http=True if you must"
            )
        here = origin(url)
        bound = self._bound.setdefault("origin", here)
        if bound != here:
            raise UsageError(
                f"this BearerToken belongs to {_shown(bound)}: make another one for {public_url(url)}"
            )

    def __repr__(self) -> str:
        return "BearerToken(...)"


class _Repetition:
    """The one time that a refused request is sent again, each time that it is sent by the user."""

    def __init__(self, auth: BearerToken, token: str, request: requests.PreparedRequest) -> None:
        self._auth = auth
        self._token = token
        self._done = False
        # The request holds this. What is sent again, or follows a redirect, is a copy of it.
        self._prepared = weakref.ref(request)

    def after(self, response: requests.Response, **options: Any) -> requests.Response:
        """Send the request again if it was refused and there is another token by now."""
        request = response.request
        if request is self._prepared():
            self._done = False
        # requests copies the hook to the request that follows a redirect, wherever that leads.
        if response.status_code != 401 or self._done or not self._auth._may_go_to(request.url or ""):
            return response
        self._done = True
        try:
            token = self._auth._newer(self._token)
            if token is None or not rewound(request):
                return response
            drain(response)
        except BaseException:
            response.close()
            raise
        # Before it is copied: should the answer be a redirect, requests goes on from this one.
        _present(request, token)
        if request is self._prepared():
            self._token = token
        return send_again(response, options)


def _present(request: requests.PreparedRequest, token: str) -> None:
    request.headers["Authorization"] = f"Bearer {token}"


def _shown(server: tuple[str, str, Optional[int]]) -> str:
    scheme, host, port = server
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

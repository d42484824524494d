"""How a request that was refused is sent once more: in the middle of a `requests` response hook."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Optional

import requests
from requests.cookies import extract_cookies_to_jar
from requests.exceptions import UnrewindableBodyError
from requests.utils import rewind_body

# What is drained of a refusal, so that its connection can be used again. Of more it is not worth it.
_DRAINED = 65536


def rewound(request: requests.PreparedRequest) -> bool:
    """Set the body of a request back to its start; return ``False`` if it has none to go back to."""
    if request.body is None or isinstance(request.body, (str, bytes, bytearray, memoryview)):
        return True
    try:
        rewind_body(request)
    except UnrewindableBodyError:
        return False
    return True


def drain(response: requests.Response) -> None:
    """Read the rest of a short body, so that the connection is free; close that of a long or broken one."""
    body, handled = b"", sys.exc_info()[1]
    try:
        for chunk in response.iter_content(4096):
            body += chunk
            if len(body) > _DRAINED:
                break
    except requests.RequestException as error:
        _forget_frames(error, handled)
    response._content = body  # For whoever looks into the history.
    response.close()


def _forget_frames(error: Optional[BaseException], handled: Optional[BaseException]) -> None:
    """Take from an error, and from those that it came from, the frames that they know.

    ``handled`` is what the caller was handling before, which stays as it is.

    Python's context managers may make a circle of an error and its own frames: until the garbage is
    collected, that would keep alive whatever the callers have, the connection among it.
    """
    while error is not None and error is not handled:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def send_again(response: requests.Response, options: Mapping[str, Any]) -> requests.Response:
    """Send the request of a response again, with the headers that it has now.

    Args:
        response: The refusal, drained; it becomes part of the history of the new response.
        options: What requests passed to the hook.
    """
    request = response.request
    again = request.copy()
    jar: Any = again._cookies  # type: ignore[attr-defined]
    extract_cookies_to_jar(jar, request, response.raw)  # type: ignore[no-untyped-call]
    again.prepare_cookies(jar)
    answer: requests.Response = response.connection.send(again, **options)
    answer.history = [*response.history, response]
    return answer

"""Reading the head of a response, and the `requests.Response` made of it.

http.client has headers parsed by the email package, which takes longer than all the rest of a response;
`requests.Response` and urllib3's build things that are hardly ever looked at. Here the usual head is split
by hand, the unusual one is left to http.client, and everything else is made when it is asked for.
"""

from __future__ import annotations

import datetime
import http.client
import io
import re
from collections.abc import Iterable
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Optional

import requests
from requests.cookies import RequestsCookieJar, extract_cookies_to_jar
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers
from urllib3.response import HTTPResponse

if TYPE_CHECKING:
    from .connection import BoundedConnection

# HTTP/1.0, interim responses and whatever else are left to http.client.
_STATUS_LINE = re.compile(r"HTTP/1\.1 ([2-5][0-9][0-9])(?: (.*))?")
# What has more is left to http.client, and to its limits.
_MOST_HEADERS = 100
_MOST_INTERIM = 20
_SWITCHING_PROTOCOLS = 101
# Made once: CPython 3.13.0 crashes where one is made when the interpreter has begun to end.
_NO_TIME = datetime.timedelta(0)


class Headers(CaseInsensitiveDict):  # type: ignore[type-arg]
    """Headers whose copy and iteration are cheap."""

    _store: dict[str, tuple[str, str]]

    @classmethod
    def of(cls, pairs: dict[str, tuple[str, str]]) -> Headers:
        """Make headers of names and values by the names in lower case; the dict is not copied."""
        headers = cls.__new__(cls)
        headers._store = pairs
        return headers

    def copy(self) -> Headers:
        """Return an independent copy."""
        return self.of(self._store.copy())

    def pairs(self) -> Iterable[tuple[str, str]]:
        """Return names and values, to iterate over."""
        return self._store.values()


class Head(http.client.HTTPResponse):
    """An http.client response over the reader of its connection, which outlives it.

    Args:
        reader: Where to read; never closed from here.
        method: The method of the request.

    Attributes:
        fields: The headers.
    """

    fields: Headers
    _message: Any
    _pairs: Any

    def __init__(self, reader: io.BufferedReader, method: Optional[str]) -> None:
        # Not the parent's, which would make another file of the socket.
        self.fp = reader
        self.debuglevel = 0
        self._method = method
        self.msg = None

    def begin(self) -> None:
        """Read up to the empty line behind the headers. Interim responses are passed over.

        Raises:
            http.client.HTTPException: There is no head, or one that is too large.
        """
        for _ in range(_MOST_INTERIM):
            if self._begin_usual():
                return
            super().begin()
            if self.status < 200 and self.status != _SWITCHING_PROTOCOLS:
                self.headers = None
                continue
            # The white space behind a value stays there with http.client.
            self.fields = Headers.of(
                _by_name((name, value.strip(" \t")) for name, value in self.headers.items())
            )
            return
        raise http.client.HTTPException(f"more than {_MOST_INTERIM} interim responses")

    def _begin_usual(self) -> bool:
        """Read a head that has arrived as a whole and has nothing odd about it, or nothing at all."""
        buffered = self.fp.peek(1)
        end = buffered.find(b"\r\n\r\n")
        head = buffered[:end]
        count = head.count(b"\r\n")
        if end < 0 or count > _MOST_HEADERS or head.count(b"\n") != count or head.count(b"\r") != count:
            return False
        first, *lines = head.decode("iso-8859-1").split("\r\n")
        status_line = _STATUS_LINE.fullmatch(first)
        pairs = [_split(line) for line in lines]
        if status_line is None or None in pairs:
            return False
        fields = _by_name(pairs)
        status = int(status_line[1])
        if not self._frame(fields, status):
            return False
        self.fp.read(end + 4)
        self.code = self.status = status
        self.reason = (status_line[2] or "").strip()
        self.fields = Headers.of(fields)
        self._message = None
        self._pairs = pairs
        return True

    def _frame(self, fields: dict[str, tuple[str, str]], status: int) -> bool:
        """Find out where the body ends, as http.client does, or return ``False`` if that takes thought."""
        coding = fields["transfer-encoding"][1].lower() if "transfer-encoding" in fields else ""
        length = fields["content-length"][1] if "content-length" in fields else ""
        connection = fields["connection"][1].lower() if "connection" in fields else ""
        if coding not in ("", "chunked") or connection not in ("", "close", "keep-alive"):
            return False
        if length and (coding or not length.isdigit() or not length.isascii()):
            return False
        self.version = 11
        self.chunked = bool(coding)
        self.chunk_left = None
        self.length = int(length) if length else None
        if status in (204, 304) or self._method == "HEAD":
            self.length = 0
        self.will_close = connection == "close" or (not coding and self.length is None)
        return True

    @property
    def msg(self) -> Any:
        """The headers as a message of the email package."""
        if self._message is None and self._pairs is not None:
            self._message = http.client.HTTPMessage()
            for name, value in self._pairs:
                self._message.set_raw(name, value)
        return self._message

    @msg.setter
    def msg(self, message: Any) -> None:
        self._message = message
        self._pairs = None

    headers = msg

    def read1(self, n: int = -1) -> bytes:
        """Read what is at hand, or wait for some of it; ``b""`` at the end of the body."""
        data = b"" if self.length == 0 else super().read1(n)
        if self.length == 0:
            self._close_conn()  # Before Python 3.13 the parent forgets to.
        return data

    def close(self) -> None:
        """Give up what is left of the body; the connection cannot be used after that."""
        if not self.isclosed():
            self.will_close = True
            self._close_conn()
        super().close()

    def _close_conn(self) -> None:
        self.fp = None  # type: ignore[assignment]


def _split(line: str) -> Optional[tuple[str, str]]:
    """Split a line of the head, or return ``None`` if it is an odd one: folded, or without a fit name."""
    name, colon, value = line.partition(":")
    if not colon or not name or " " in name or not (name.isascii() and name.isprintable()):
        return None
    return name, value.strip(" \t")


def _by_name(pairs: Iterable[Any]) -> dict[str, tuple[str, str]]:
    """Collect headers by their names in lower case; the values of several with one name are joined."""
    found: dict[str, tuple[str, str]] = {}
    for name, value in pairs:
        key = name.lower()
        found[key] = (name, f"{found[key][1]}, {value}") if key in found else (name, value)
    return found


class Answer(requests.Response):
    """A response of our adapter. What is rarely asked for is made when it is.

    Attributes:
        head: Where its body is read from.
        held: The connection that it came on, until that is given back.
    """

    held: Optional[BoundedConnection]

    def __init__(self, head: Head, request: requests.PreparedRequest, held: BoundedConnection) -> None:
        # Not the parent's, which builds a cookie jar.
        self._content = False  # type: ignore[assignment]
        self._content_consumed = False
        self._next = None
        self.head = head
        self.held = held
        self.status_code = head.status
        self.reason = head.reason
        self.headers = head.fields
        self.request = request
        self.url = request.url or ""
        self.history = []
        self.elapsed = _NO_TIME

    @cached_property
    def raw(self) -> Any:  # type: ignore[override]
        """The response as urllib3 has it."""
        head, held = self.head, self.held
        return HTTPResponse(
            body=head,
            headers=dict(self.headers),
            status=head.status,
            version=head.version,
            reason=head.reason,
            preload_content=False,
            decode_content=False,
            original_response=head,
            pool=held.pool if held is not None else None,
            connection=held,
            request_method=self.request.method,
        )

    @cached_property
    def cookies(self) -> RequestsCookieJar:  # type: ignore[override]
        """The cookies that this response sets."""
        jar = RequestsCookieJar()
        if "set-cookie" in self.headers:
            self.keep_cookies(jar)
        return jar

    def keep_cookies(self, jar: RequestsCookieJar) -> None:
        """Put the cookies that this response sets into a jar."""
        source = SimpleNamespace(_original_response=self.head)
        extract_cookies_to_jar(jar, self.request, source)  # type: ignore[no-untyped-call]

    def release(self) -> None:
        """Give the connection back; the body cannot be read after that."""
        held, self.held = self.held, None
        if held is None:
            return
        raw = self.__dict__.get("raw")
        if raw is not None:
            raw.release_conn()  # It would close the connection when it is collected.
        else:
            held.pool._put_conn(held)

    def detach(self) -> tuple[Any, bytes]:
        """Take the socket over, and what has been read behind the head; see `BoundedConnection.detach`."""
        held = self.held
        assert held is not None
        parts = held.detach()
        self.held = None
        return parts

    def abort(self) -> None:
        """Close the connection."""
        held, self.held = self.held, None
        if held is not None:
            held.close()

    @cached_property
    def encoding(self) -> Optional[str]:  # type: ignore[override]
        """The charset that the headers tell."""
        return get_encoding_from_headers(self.headers)

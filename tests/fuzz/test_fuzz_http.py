"""Heads and bodies of HTTP: as http.client reads them, and never a hang."""

from __future__ import annotations

import gzip
import http.client
import io
import zlib
from typing import Any, Optional, Union

from hypothesis import given
from hypothesis import strategies as st

from mcp_sync.transports._http.adapter.response import Head
from mcp_sync.transports._http.errors import FOREIGN
from mcp_sync.transports._http.inflating import CHUNK, Inflater

from .shapes import Pieces, cut, damaged, tokens

HEADS = st.builds(
    lambda status, lines, body: status + b"\r\n" + lines + b"\r\n" + body,
    st.sampled_from([b"HTTP/1.1 200 OK", b"HTTP/1.1 404", b"HTTP/1.0 200 OK", b"HTTP/1.1 204 No Content"]),
    st.lists(
        st.sampled_from(
            [
                b"Content-Length: 3\r\n",
                b"content-length:5\r\n",
                b"Content-Length: x\r\n",
                b"A: b\r\n",
                b"a: c\r\n",
                b"Transfer-Encoding: chunked\r\n",
                b"Transfer-Encoding: gzip\r\n",
                b"Connection: close\r\n",
                b"Connection: Keep-Alive\r\n",
                b"Connection: upgrade, close\r\n",
                b" folded\r\n",
                b"no colon\r\n",
                b": empty\r\n",
                b"B : c\r\n",
                b"C:\t d \r\n",
                b"D: e\n",
                b"E: \xe9\r\n",
                b"Content-Length: 4, 4\r\n",
            ]
        )
        | tokens(b"A", b": ", b"\r", b"\n", b"\r\n", b"x"),
        max_size=6,
    ).map(b"".join),
    st.sampled_from(
        [b"", b"abc", b"abcdefgh", b"3\r\nabc\r\n0\r\n\r\n", b"3;x=y\r\nabc\r\n0\r\nT: r\r\n\r\n"]
    ),
)


class Connection:
    """A socket, as far as http.client looks at it."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def makefile(self, mode: str) -> Any:
        return self._file


Outcome = Union[str, tuple[Any, ...]]


def told(response: http.client.HTTPResponse, fields: Any) -> tuple[Any, ...]:
    joined: dict[str, str] = {}
    for name, value in fields:
        joined[name.lower()] = f"{joined[name.lower()]}, {value}" if name.lower() in joined else value
    return response.status, response.version, joined, response.chunked, response.length, response.will_close


def plain(data: bytes) -> Optional[tuple[Any, ...]]:
    """Read a response with http.client; ``None`` where it accepts none."""
    response = http.client.HTTPResponse(Connection(io.BufferedReader(io.BytesIO(data))), method="POST")
    try:
        response.begin()
        # White space behind a value is none of it (RFC 9110, section 5.5).
        head = told(response, [(name, value.strip(" \t")) for name, value in response.headers.items()])
        return (*head, response.read())
    except (http.client.HTTPException, OSError, ValueError):
        return None
    finally:
        response.close()


def ours(pieces: list[bytes]) -> Optional[tuple[Any, ...]]:
    """Read a response with our reader; anything else than a failure that is translated gets out."""
    reader = io.BufferedReader(Pieces(pieces))
    head = Head(reader, "POST")
    try:
        head.begin()
        read = told(head, head.fields.items())
        return (*read, b"".join(iter(lambda: head.read1(7), b"")))
    except FOREIGN:
        return None


@given(cut(HEADS | damaged(HEADS)))
def test_a_response_is_read_as_http_client_reads_it(example: tuple[bytes, list[bytes]]) -> None:
    data, pieces = example
    expected = plain(data)
    read = ours(pieces)
    if expected is None or expected[0] < 200:
        return
    if expected[0] == 204:
        # There is no body (RFC 9112, section 6.3); http.client reads chunks all the same.
        expected = (*expected[:-1], b"")
    assert read == expected


@st.composite
def chunked(draw: Any) -> tuple[bytes, bytes]:
    """Return a body, and how it looks in chunks."""
    parts = draw(st.lists(st.binary(min_size=1, max_size=20), max_size=6))
    extension = draw(st.sampled_from([b"", b";a=b", b" "]))
    trailer = draw(st.sampled_from([b"", b"X: y\r\n"]))
    framed = b"".join(b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in parts)
    return b"".join(parts), framed + b"0\r\n" + trailer + b"\r\n"


@given(chunked(), st.integers(1, 50))
def test_chunks_come_out_as_they_went_in(example: tuple[bytes, bytes], size: int) -> None:
    body, framed = example
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed
    read = ours([data[i : i + size] for i in range(0, len(data), size)])
    assert read is not None
    assert read[-1] == body


@given(
    damaged(chunked().map(lambda pair: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + pair[1]))
)
def test_damaged_chunks_are_a_failure_of_the_connection(data: bytes) -> None:
    ours([data])


def inflated(pieces: list[bytes], coding: str) -> bytes:
    waiting = iter([*pieces, b"", b"", b""])
    inflater = Inflater(coding)
    plain = []
    while True:
        part = inflater.next(lambda: next(waiting), lambda: None)
        assert len(part) <= CHUNK
        if not part:
            return b"".join(plain)
        plain.append(part)


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


@given(st.binary(max_size=300), st.sampled_from(["gzip", "members", "deflate", "raw"]), st.data())
def test_a_compressed_body_comes_out_however_it_is_cut(body: bytes, kind: str, data: Any) -> None:
    half = len(body) // 2
    packed = {
        "gzip": lambda: gzip.compress(body),
        "members": lambda: gzip.compress(body[:half]) + gzip.compress(body[half:]) + b"\0\0",
        "deflate": lambda: zlib.compress(body),
        "raw": lambda: raw_deflate(body),
    }[kind]()
    _, pieces = data.draw(cut(st.just(packed)))
    coding = "gzip" if kind in ("gzip", "members") else "deflate"
    assert inflated(pieces, coding) == body


@given(damaged(st.binary(max_size=100).map(gzip.compress)), st.sampled_from(["gzip", "x-gzip", "deflate"]))
def test_damaged_compression_is_a_failure_of_the_connection(packed: bytes, coding: str) -> None:
    try:
        inflated([packed] if packed else [], coding)
    except FOREIGN:
        pass

"""The frames of RFC 6455: what is written, and how what was read is cut into messages. No I/O."""

from __future__ import annotations

import struct
from typing import NamedTuple, Optional, Union

from websocket import ABNF

from .._pieces import compacted

CONTINUATION, TEXT, BINARY = ABNF.OPCODE_CONT, ABNF.OPCODE_TEXT, ABNF.OPCODE_BINARY
CLOSE, PING, PONG = ABNF.OPCODE_CLOSE, ABNF.OPCODE_PING, ABNF.OPCODE_PONG

NORMAL = 1000
PROTOCOL_ERROR = 1002
TOO_BIG = 1009
# Codes that only stand for the lack of one, and must not be sent.
_NEVER_SENT = (1005, 1006, 1015)
_CODE_NAMES = {
    1000: "normal",
    1001: "going away",
    1002: "protocol error",
    1003: "unsupported data",
    1007: "invalid data",
    1008: "policy violation",
    1009: "message too big",
    1010: "extension missing",
    1011: "internal error",
    1012: "restart",
    1013: "try again later",
    1014: "bad gateway",
}

_FINAL = 0x80
_RESERVED = 0x70
_OPCODE = 0x0F
_MASKED = 0x80
_CONTROL = 0x08
_LONGEST_CONTROL = 125
_SHORT, _LONG = 126, 127
_SHORTEST_HEAD = 2


def text_frame(message: bytes) -> bytes:
    """Return a whole text message, masked."""
    return control_frame(TEXT, message)


def control_frame(opcode: int, payload: bytes = b"") -> bytes:
    """Return one frame that stands for itself, masked."""
    frame: bytes = ABNF.create_frame(payload, opcode).format()
    return frame


def close_frame(code: Optional[int] = NORMAL) -> bytes:
    """Return a frame that ends the connection; without a code if it is one that cannot be sent."""
    has_code = code is not None and code not in _NEVER_SENT
    return control_frame(CLOSE, struct.pack("!H", code) if has_code else b"")


def close_reason(payload: bytes) -> tuple[Optional[int], str]:
    """Return the code of a close frame, ``None`` if it has none, and all that it says, in words."""
    if len(payload) < struct.calcsize("!H"):
        return None, "without a code"
    (code,) = struct.unpack_from("!H", payload)
    name = f" ({_CODE_NAMES[code]})" if code in _CODE_NAMES else ""
    text = " ".join(payload[2:].decode("utf-8", "replace").split())
    return code, f"with code {code}{name}{f': {text}' if text else ''}"


class Broken(Exception):
    """What was read is no WebSocket."""


class TooLarge(Exception):
    """A message is larger than the limit."""


class Received(NamedTuple):
    """A whole message, or a control frame."""

    opcode: int
    payload: bytes


class _Frame(NamedTuple):
    end: int
    final: bool
    opcode: int
    payload: bytes


class _Fragments(NamedTuple):
    """The beginning of a message that has not come to its end."""

    opcode: int
    parts: list[bytes]
    size: int


class FrameBuffer:
    """Cuts what was read into messages and control frames. For one thread at a time.

    What was read is added to `pieces`, and an empty piece is the end of the stream. Each message stays at
    the head until it is dropped. A signal handler may raise in the middle of any method: the state changes
    in single steps, so that whoever comes next takes up where it was left.

    Args:
        limit: The largest message that is accepted, in bytes.
        rest: What has been read already.
    """

    __slots__ = ("_limit", "_state")

    def __init__(self, limit: int, rest: bytes = b"") -> None:
        self._limit = limit
        # The pieces not cut yet; how many bytes they need for the next step; the messages that are complete,
        # the first one last; the message that has begun; and why nothing more can be read.
        self._state: tuple[
            list[bytes], int, list[Received], Optional[_Fragments], Union[Broken, TooLarge, None]
        ] = ([rest] if rest else [], _SHORTEST_HEAD, [], None, None)

    @property
    def pieces(self) -> list[bytes]:
        """Where to add one piece, when `head` has nothing left."""
        return self._state[0]

    @property
    def fault(self) -> Union[Broken, TooLarge, None]:
        """Why nothing more can be read. What came before it is still to be had."""
        return self._state[4]

    @property
    def ended(self) -> bool:
        """Whether there is no more to come: the end of the stream, or a fault."""
        pieces = self._state[0]
        return self.fault is not None or (bool(pieces) and not pieces[-1])

    def head(self) -> Optional[Received]:
        """Return the first complete message, or ``None`` if there is none."""
        ready = self._state[2]
        if not ready:
            self._cut()
            ready = self._state[2]
        return ready[-1] if ready else None

    def drop(self) -> None:
        """Drop the message at the head."""
        self._state[2].pop()

    def _cut(self) -> None:
        pieces, needed, ready, fragments, fault = self._state
        # Joined once, when a frame is complete: adding up piece by piece would take quadratic time.
        if fault is not None or not pieces:
            return
        size = sum(map(len, pieces))
        if size < needed:
            if pieces[-1]:
                self._state = (compacted(pieces, size), needed, ready, fragments, None)
            return
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        ready = []
        at = 0
        parts: list[bytes] = []
        try:
            while True:
                frame = self._next_frame(data, at)
                if isinstance(frame, int):
                    needed = frame
                    break
                at = frame.end
                if frame.opcode & _CONTROL:
                    ready.append(Received(frame.opcode, frame.payload))
                else:
                    fragments = self._add(frame, fragments, parts, ready)
        except (Broken, TooLarge) as error:
            fault = error
        if fragments is not None and parts:
            fragments = fragments._replace(parts=[*fragments.parts, b"".join(parts)])
        ready.reverse()
        rest = [data[at:]] if at < len(data) else []
        if pieces and not pieces[-1]:
            rest.append(b"")
        self._state = (rest, needed, ready, fragments, fault)

    def _add(
        self, frame: _Frame, fragments: Optional[_Fragments], parts: list[bytes], ready: list[Received]
    ) -> Optional[_Fragments]:
        """Take a frame of a message; ``parts`` are those that came just now."""
        if (fragments is None) == (frame.opcode == CONTINUATION):
            raise Broken("a message began within another" if fragments else "a message had no beginning")
        if fragments is None:
            if frame.final:
                ready.append(Received(frame.opcode, frame.payload))
                return None
            fragments = _Fragments(frame.opcode, [], 0)
        size = fragments.size + len(frame.payload)
        if size > self._limit:
            raise TooLarge
        if frame.payload:
            parts.append(frame.payload)
        if not frame.final:
            return fragments._replace(size=size)
        ready.append(Received(fragments.opcode, b"".join([*fragments.parts, *parts])))
        parts.clear()
        return None

    def _next_frame(self, data: bytes, at: int) -> Union[_Frame, int]:
        """Return the frame that begins at a place, or how many bytes are needed from there."""
        if len(data) - at < _SHORTEST_HEAD:
            return _SHORTEST_HEAD
        first, length = data[at], data[at + 1]
        opcode = first & _OPCODE
        _check(first, length)
        start = at + _SHORTEST_HEAD
        if length >= _SHORT:
            size = 2 if length == _SHORT else 8
            if len(data) < start + size:
                return _SHORTEST_HEAD + size
            length = int.from_bytes(data[start : start + size], "big")
            start += size
        if length > self._limit:
            raise TooLarge
        end = start + length
        if len(data) < end:
            return end - at
        return _Frame(end, bool(first & _FINAL), opcode, data[start:end])


def _check(first: int, second: int) -> None:
    """Refuse the head of a frame that no server may send."""
    opcode = first & _OPCODE
    if first & _RESERVED:
        raise Broken("a reserved bit is set")
    if opcode not in ABNF.OPCODES:
        raise Broken(f"there is no opcode {opcode}")
    if second & _MASKED:
        raise Broken("a frame of the server is masked")
    if opcode & _CONTROL and (not first & _FINAL or second > _LONGEST_CONTROL):
        raise Broken("a control frame is too long or in parts")

"""How a fault strikes: what becomes of an answer, and of the bytes that carry it."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Optional, Protocol

from .._concurrency.deadline import Deadline
from ._faults import Fault, FaultPlan
from ._rpc import Message, Raw, Send, encode

GARBAGE = b"<html>502 Bad Gateway</html>"
_LOOK = 0.02


class Line(Protocol):
    """A connection, as far as a fault deals with it."""

    def put(self, data: bytes) -> None:
        """Send bytes as they are."""

    def drop(self) -> None:
        """Close it."""

    def reset(self) -> None:
        """Close it without ceremony."""

    def end_process(self, fault: Fault) -> None:
        """End the process, or its output."""

    def ended(self) -> bool:
        """Whether nobody is there any more."""


class MessageLine(Line, Protocol):
    """A line with nothing around its messages.

    Attributes:
        lock: Keeps messages apart; held while one is sent.
    """

    lock: Any

    def write(self, message: Message) -> None:
        """Send a message."""

    def frame(self, message: Message) -> bytes:
        """Return the bytes that carry a message."""


def fault_of(plan: Optional[FaultPlan], message: Any) -> Optional[Fault]:
    """Return the fault that a message of the client meets."""
    method = message.get("method") if isinstance(message, dict) else None
    return plan.meet(method) if plan is not None and isinstance(method, str) else None


def altered(reply: Message, fault: Optional[Fault], send: Send) -> Optional[Message]:
    """Return what is sent instead of a reply, if anything; what comes ahead is passed to ``send``."""
    kind = "" if fault is None else fault.kind
    if kind == "no_answer":
        return None
    if kind == "garbage":
        return Raw(GARBAGE)
    if kind == "truncate":
        data = encode(reply)
        return Raw(data[: len(data) // 2])
    if kind == "wrong_id":
        return {**reply, "id": f"not-{reply.get('id')}"}
    if kind == "no_result":
        return {key: value for key, value in reply.items() if key not in ("result", "error")}
    if kind == "noise":
        send(Raw(GARBAGE))
    if kind == "duplicate":
        send(reply)
    return reply


class Strike:
    """A fault at work on a line.

    Args:
        fault: What happens.
        plan: What ends a stall.
        line: Where it happens.
    """

    def __init__(self, fault: Fault, plan: FaultPlan, line: Line) -> None:
        self.fault = fault
        self._plan = plan
        self._line = line

    def stop(self) -> bool:
        """Do what ends or delays everything; return whether it goes on."""
        fault, line = self.fault, self._line
        if fault.kind == "stall":
            return waited(self._plan.released, fault.seconds, line.ended)
        if fault.kind == "drop":
            line.drop()
        elif fault.kind == "reset":
            line.reset()
        elif fault.kind in ("exit", "kill", "mute"):
            line.end_process(fault)
        else:
            return True
        return False

    def put(self, data: bytes, cut: int) -> bool:
        """Send bytes of which the fault strikes those from ``cut`` on; return whether it goes on."""
        if cut:
            self._line.put(data[:cut])
        if not self.stop():
            return False
        if self.fault.kind == "drip":
            self.drip(data[cut:])
        elif data[cut:]:
            self._line.put(data[cut:])
        return True

    def drip(self, data: bytes) -> None:
        """Send byte after byte."""
        for index in range(len(data)):
            if self._line.ended():
                return
            self._line.put(data[index : index + 1])
            if self.fault.seconds:
                time.sleep(self.fault.seconds)

    def put_message(self, data: bytes, line: MessageLine) -> None:
        """Send the bytes of a whole answer."""
        cut = {"body": len(data) // 2, "end": len(data)}.get(self.fault.at, 0)
        # What has not begun holds up nobody else.
        if cut or self.stop():
            with line.lock:
                if cut:
                    self.put(data, cut)
                elif self.fault.kind == "drip":
                    self.drip(data)
                else:
                    line.put(data)


def waited(released: threading.Event, seconds: Optional[float], ended: Callable[[], bool]) -> bool:
    """Wait until it is released or time is up; return ``False`` if everything ended meanwhile."""
    deadline = Deadline(seconds)
    while not (released.is_set() or deadline.expired):
        if ended():
            return False
        released.wait(deadline.within(_LOOK).remaining())
    return True

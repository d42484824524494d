"""Run a handler where CPython would run that of a signal: after calls, as functions start, at jumps back.

Since Python 3.11 these are all points there are. Before, there are more, which no code is safe from. Python
3.10 looks for signals at jumps forward too: between the test and the body of an ``if`` in a ``finally``.
Python 3.9 does after most instructions: between the end of a ``try`` or a ``with`` and what has to follow it.
"""

from __future__ import annotations

import dis
import gc
import sys
import threading
from types import CodeType, FrameType
from typing import Any, Callable

_START = "start"
# What makes a frame ready, until the interpreter looks; and what Python 3.9 and 3.10 never look ahead of.
_NOT_YET = ("RESUME", "COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR", "GEN_START")
_COVERED = ("SETUP_FINALLY", "SETUP_WITH")


class Struck(BaseException):
    """What the handler raises."""


class _Strike:
    """Counts the points that a thread passes, and runs a handler at one of them."""

    def __init__(self, number: int, handler: Callable[[], Any]) -> None:
        self.count = 0
        self.number = number
        self._handler = handler
        self._names: dict[CodeType, dict[int, str]] = {}
        self._before: dict[int, tuple[str, int]] = {}

    def enter(self, frame: FrameType) -> None:
        """Take it that a frame begins, or goes on after a ``yield``."""
        self._before[id(frame)] = _START, -1

    def step(self, frame: FrameType, offset: int) -> None:
        """Take it that the instruction at an offset comes next."""
        code = frame.f_code
        if code not in self._names:
            self._names[code] = {each.offset: each.opname for each in dis.get_instructions(code)}
        name = self._names[code][offset]
        if name in _NOT_YET:
            self.enter(frame)
            return
        last, self._before[id(frame)] = self._before.get(id(frame), ("", -1)), (name, offset)
        if name not in _COVERED and _looks_for_signals(*last, offset):
            self.count += 1
            if self.count == self.number:
                self._handler()


def _looks_for_signals(name: str, at: int, offset: int) -> bool:
    """Whether the interpreter does so between an instruction and the next, which is at an offset."""
    if name.startswith("CALL"):
        return not name.startswith("CALL_INTRINSIC")
    return name == _START or ("JUMP" in name and offset < at)


def _raise() -> None:
    raise Struck


def strike_at(
    number: int,
    function: Callable[[], Any],
    only: str = "/mcp_sync/",
    handler: Callable[[], Any] = _raise,
) -> bool:
    """Run a function and, at the n-th point, from 1, within files whose path has ``only``, a handler.

    Args:
        number: Which point.
        function: What is struck.
        only: What the paths have of the files whose points count.
        handler: What strikes; otherwise `Struck` is raised.

    Returns:
        Whether there was such a point: ``False`` if the function came to its end before.
    """
    strike = _Strike(number, handler)
    run = _run_traced if sys.version_info < (3, 12) else _run_monitored
    # What an earlier test has left is not to be collected, and its finaliser struck, in here.
    collects = gc.isenabled()
    gc.disable()
    try:
        run(function, strike, only)
    except Struck:
        pass
    finally:
        if collects:
            gc.enable()
    return strike.count >= number


def _run_traced(function: Callable[[], Any], strike: _Strike, only: str) -> None:
    def trace_calls(frame: FrameType, event: str, argument: Any) -> Any:
        if only not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        strike.enter(frame)
        return trace

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            strike.step(frame, frame.f_lasti)
        return trace

    tracing = sys.gettrace()
    sys.settrace(trace_calls)
    try:
        function()
    finally:
        sys.settrace(tracing)


def _run_monitored(function: Callable[[], Any], strike: _Strike, only: str) -> None:
    """Do what `_run_traced` does. From Python 3.12 on, tracing misses the instructions of some frames."""
    monitoring: Any = sys.monitoring
    tool, events = monitoring.DEBUGGER_ID, monitoring.events
    thread = threading.get_ident()

    def of_interest(code: CodeType) -> bool:
        ours = threading.get_ident() == thread and strike.count < strike.number
        return ours and only in code.co_filename

    def enter(code: CodeType, offset: int) -> None:
        if of_interest(code):
            strike.enter(sys._getframe(1))

    def step(code: CodeType, offset: int) -> None:
        if of_interest(code):
            strike.step(sys._getframe(1), offset)

    callbacks = {events.PY_START: enter, events.PY_RESUME: enter, events.INSTRUCTION: step}
    monitoring.use_tool_id(tool, "strikes")
    try:
        for event, callback in callbacks.items():
            monitoring.register_callback(tool, event, callback)
        monitoring.set_events(tool, sum(callbacks))
        function()
    finally:
        monitoring.set_events(tool, 0)
        for event in callbacks:
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)

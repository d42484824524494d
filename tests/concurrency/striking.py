"""Raise where CPython (3.11 and later) would run a signal handler: after calls, at the start of functions,
and at jumps back."""

from __future__ import annotations

import dis
import sys
from types import CodeType, FrameType
from typing import Any, Callable, Optional

_POINTS = ("CALL", "CALL_KW", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD")


class Struck(BaseException):
    """What the handler raises."""


def strike_at(number: int, function: Callable[[], Any], only: str = "/mcp_sync/") -> bool:
    """Run a function and raise `Struck` at the n-th point, from 1, within files whose path has ``only``.

    Returns:
        Whether there was such a point: ``False`` if the function came to its end before.
    """
    names: dict[CodeType, dict[int, str]] = {}
    before: dict[int, Optional[str]] = {}
    count = 0

    def trace_calls(frame: FrameType, event: str, argument: Any) -> Any:
        if only not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return trace

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if event == "opcode":
            code = frame.f_code
            if code not in names:
                names[code] = {each.offset: each.opname for each in dis.get_instructions(code)}
            last, before[id(frame)] = before.get(id(frame)), names[code].get(frame.f_lasti)
            if last in _POINTS:
                count += 1
                if count == number:
                    sys.settrace(None)
                    raise Struck
        return trace

    tracing = sys.gettrace()
    sys.settrace(trace_calls)
    try:
        function()
    except Struck:
        pass
    finally:
        sys.settrace(tracing)
    return count >= number

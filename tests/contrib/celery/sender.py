"""Sends tasks and looks at them: one command in JSON on each line of the input, one answer for each.

It is a process of its own, as the connections of Celery live as long as that.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from contrib.celery import jobs
from mcp_sync.contrib.celery import answer, question


def do(what: str, *args: Any) -> Any:
    if what == "send":
        name, arguments = args
        return getattr(jobs, name).delay(*arguments).id
    result = jobs.app.AsyncResult(args[0])
    if what == "answer":
        return answer(result, args[1])
    # Before the rest: what is asked then is there when the state says so.
    state = result.state
    asked = question(result) or {}
    info = result.info
    if isinstance(info, BaseException):
        info = {"error": type(info).__name__, "args": list(info.args), "text": str(info)}
    questions = {key: request.params.message for key, request in asked.items()}
    return {"state": state, "info": info, "questions": questions}


for line in sys.stdin:
    try:
        print(json.dumps({"is": do(*json.loads(line))}, default=str), flush=True)
    except Exception as error:
        print(json.dumps({"failed": repr(error)}), flush=True)

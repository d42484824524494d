"""Sends tasks and looks at them: one command in JSON on each line of the input, one answer for each.

It is a process of its own, as the connections of Celery live as long as that.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from celery import chain, group

from contrib.celery import jobs
from mcp_sync.contrib.celery import answer, cancel_followed, look_again, question


def kinds(error: BaseException) -> list[str]:
    return [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "mcp_sync.errors"]


def do(what: str, *args: Any) -> Any:
    if what == "send":
        name, arguments = args
        return getattr(jobs, name).delay(*arguments).id
    if what == "chain":
        tools, queue = args
        first = [jobs.long.s(tool).set(queue=queue) for tool in tools]
        canvas = chain(group(first) if len(tools) > 1 else first[0], jobs.after.s("said").set(queue=queue))
        last = canvas.apply_async()
        parents = last.parent.children if len(tools) > 1 else [last.parent]
        return [last.id, *[each.id for each in parents]]
    if what == "forget messages":
        return jobs.redis_of_tests().delete("celery", "unacked", "unacked_index")
    if what == "processes":
        return [int(each) for each in jobs.redis_of_tests().lrange("processes", 0, -1)]
    result = jobs.app.AsyncResult(args[0])
    if what == "look again":
        return look_again(result)
    if what == "cancel":
        return cancel_followed(result)
    if what == "answer":
        return answer(result, args[1])
    # Before the rest: what is asked then is there when the state says so.
    state = result.state
    asked = question(result) or {}
    info = result.info
    if isinstance(info, BaseException):
        public = {name: value for name, value in vars(info).items() if not name.startswith("_")}
        info = {"error": type(info).__name__, "text": str(info), "has": public, "is": kinds(info)}
    questions = {key: request.params.message for key, request in asked.items()}
    return {"state": state, "info": info, "questions": questions}


for line in sys.stdin:
    try:
        print(json.dumps({"is": do(*json.loads(line))}, default=str), flush=True)
    except Exception as error:
        print(json.dumps({"failed": repr(error)}), flush=True)

"""Servers whose tasks go through states that a test has written down."""

from __future__ import annotations

from typing import Any

from engine.scripted import Message, Script, legacy, modern, text

IDENTIFIER = "io.modelcontextprotocol/tasks"
ELICIT = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}
DONE = text("done", resultType="complete")


def state(status: str, **more: Any) -> Message:
    """Build what a server says of the task of these tests."""
    return {"resultType": "complete", "taskId": "t1", "status": status, "ttlMs": 60000, **more}


def begun(status: str = "working", **more: Any) -> Message:
    """Build the answer to a call that becomes a task."""
    return {**state(status, **more), "resultType": "task"}


def completed(result: Any = DONE) -> Message:
    """Build the last state of a task."""
    return state("completed", result=result)


def asking(**requests: Any) -> Message:
    """Build the state of a task that asks something."""
    return state("input_required", inputRequests=requests)


def in_turn(*states: Any) -> Script:
    """Answer with one state after the other, and then always with the last one."""
    waiting = list(states)
    return lambda request: waiting.pop(0) if len(waiting) > 1 else waiting[0]


def server(*states: Any, **more: Script) -> dict[str, Script]:
    """Script a server all of whose calls become the task ``t1``, which goes through these states."""
    scripts: dict[str, Script] = {
        "tools_call": lambda request: begun(),
        "tasks_get": in_turn(*states),
        "tasks_update": lambda request: {"resultType": "complete"},
        "tasks_cancel": lambda request: {"resultType": "complete"},
    }
    return modern(**{**scripts, **more})


def experiment(*states: Any, tools: Any = (), **more: Script) -> dict[str, Script]:
    """Script a server of 2025-11-25 with tasks."""
    scripts: dict[str, Script] = {
        "tools_list": lambda request: {"tools": list(tools)},
        "tools_call": lambda request: {"task": state("working")},
        "tasks_get": in_turn(*states),
        "tasks_result": lambda request: text("done"),
        "tasks_cancel": lambda request: state("cancelled"),
    }
    scripted = legacy(**{**scripts, **more})
    info = scripted["initialize"]({})
    capabilities = {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}}
    scripted["initialize"] = lambda request: {**info, "capabilities": capabilities}
    return scripted


def tool(name: str, support: str = "") -> Message:
    """Build a tool as it is listed."""
    shown: Message = {"name": name, "inputSchema": {"type": "object"}}
    return {**shown, "execution": {"taskSupport": support}} if support else shown

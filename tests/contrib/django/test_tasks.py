"""Rows for tasks that take long, whatever a server calls them and says of them."""

from __future__ import annotations

import pytest

from mcp_sync.contrib.django import tasks
from mcp_sync.contrib.django.models import TaskRecord
from mcp_sync.contrib.django.test import fake_server


def builder(task_id, text="", ttl=60_000):
    """Give a fake server whose one task has this name, and ends with a result at the second look."""
    offered = {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
    fake = fake_server("builder", capabilities=offered)
    state = {"taskId": task_id, "status": "working", "statusMessage": text, "ttlMs": ttl}
    state.update(createdAt="2026-01-01T00:00:00Z", lastUpdatedAt="2026-01-01T00:00:00Z")
    looks = []

    def look(message):
        looks.append(message)
        if len(looks) == 1:
            return {**state, "resultType": "complete"}
        result = {"content": [{"type": "text", "text": "built"}]}
        return {**state, "resultType": "complete", "status": "completed", "result": result}

    return fake, lambda message: {**state, "resultType": "task"}, look


@pytest.mark.parametrize(
    ("task_id", "text", "ttl"),
    [("1", "on it", 60_000), ("x" * 1000, "", None), ("a\0b", "NUL\0", 60_000), ("2", "", 10**18)],
)
def test_a_task_is_kept_whatever_its_name(ada, bob, task_id, text, ttl):
    for user in (ada, bob):
        fakes, start, look = builder(task_id, text, ttl)
        with fakes as fake:
            fake.on("tools/call", start)
            fake.on("tasks/get", look)
            row = tasks.start("builder", user, "build")
            assert (row.status, row.message) == ("working", text.replace("\0", "\N{REPLACEMENT CHARACTER}"))
            row = TaskRecord.objects.get(pk=row.pk)
            assert tasks.refresh(row, user).read_result().text == "built"
    assert [[row.user for row in tasks.of_user(user)] for user in (ada, bob)] == [[ada], [bob]]

"""Rows for tasks that take long, whatever a server calls them and says of them."""

from __future__ import annotations

import pytest

from mcp_sync.contrib.django import signals, tasks
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


@pytest.fixture
def ended():
    """Give the tasks of which it was told that they have ended."""
    found = []

    def note(task, **_):
        found.append(task.pk)

    signals.task_finished.connect(note)
    yield found
    signals.task_finished.disconnect(note)


def test_an_older_answer_that_comes_last_changes_nothing(ada, ended):
    fakes, start, look = builder("1")
    with fakes as fake:
        fake.on("tools/call", start)
        fake.on("tasks/get", look)
        row = tasks.start("builder", ada, "build")
        slow, other = tasks.of_user(ada).get(), tasks.of_user(ada).get()
        _, _, still_working = builder("1")

        def overtaken(message):
            fake.on("tasks/get", look)
            assert tasks.refresh(other, ada).status == "completed"
            return still_working(message)

        fake.on("tasks/get", overtaken)
        assert tasks.refresh(slow, ada).read_result().text == "built"
    assert TaskRecord.objects.get().status == "completed"
    assert ended == [row.pk]


def test_a_row_that_is_gone_meanwhile_stays_so(ada, ended):
    fakes, start, look = builder("1")
    with fakes as fake:
        fake.on("tools/call", start)
        fake.on("tasks/get", look)
        row = tasks.start("builder", ada, "build")
        TaskRecord.objects.all().delete()
        assert tasks.refresh(row, ada).read_result().text == "built"
    assert not TaskRecord.objects.exists()
    assert ended == []

"""``manage.py mcp_prune``: delete what is over. Run it daily."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from mcp_sync.auth._vault import PENDING_LIFE
from mcp_sync.contrib.django.models import PendingFlow, PendingInput, TaskRecord


class Command(BaseCommand):
    """See the module."""

    help = "Delete logins, questions and tasks that are over."

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it."""
        now = timezone.now()
        flows = PendingFlow.objects.filter(updated__lt=now - 2 * timedelta(seconds=PENDING_LIFE)).delete()[0]
        inputs = PendingInput.objects.filter(expires__lt=now).delete()[0]
        tasks = TaskRecord.objects.filter(expires__lt=now).delete()[0]
        self.stdout.write(f"deleted: {flows} logins, {inputs} questions, {tasks} tasks")

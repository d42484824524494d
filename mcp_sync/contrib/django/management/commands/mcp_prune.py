"""``manage.py mcp_prune``: delete what is over. Run it daily."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError
from django.db.models import Q
from django.utils import timezone

from mcp_sync.auth._vault import PENDING_LIFE
from mcp_sync.contrib.django.models import PendingFlow, PendingInput, TaskRecord
from mcp_sync.contrib.django.stores import settle_all

from ._base import ServerCommand


class Command(ServerCommand):
    """See the module."""

    help = "Delete logins, questions and tasks that are over."

    def add_arguments(self, parser: Any) -> None:
        """Add the arguments."""
        parser.add_argument(
            "--task-days",
            type=float,
            default=30.0,
            help="how long a task is kept after it was last looked at, where its server sets no time; "
            "default: 30",
        )

    def run(self, **options: Any) -> None:
        """Do it."""
        days = options["task_days"]
        if not 0 <= days <= 36_500:
            raise CommandError("--task-days must be a number of days, 0 or more")
        settle_all()
        now = timezone.now()
        flows = PendingFlow.objects.filter(updated__lt=now - 2 * timedelta(seconds=PENDING_LIFE)).delete()[0]
        inputs = PendingInput.objects.filter(expires__lt=now).delete()[0]
        old = Q(expires=None, updated__lt=now - timedelta(days=days))
        tasks = TaskRecord.objects.filter(Q(expires__lt=now) | old).delete()[0]
        self.stdout.write(f"deleted: {flows} logins, {inputs} questions, {tasks} tasks")

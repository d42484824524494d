"""What is kept. Whatever is secret is in a column of its own, encrypted."""

from __future__ import annotations

import uuid
from typing import Any, Optional

from django.conf import settings
from django.db import models
from django.utils import timezone

from . import conf, crypto


def plain(text: Any, most: Optional[int] = None) -> str:
    """Return a text of a server as a column can hold it: PostgreSQL keeps no NUL, and columns have an end."""
    return str(text or "").replace("\0", "\N{REPLACEMENT CHARACTER}")[:most]


class Records(models.Manager):
    """The rows in the database that ``MCP_SYNC["DATABASE"]`` names, which is that of the users."""

    def get_queryset(self) -> Any:
        """Return them."""
        return super().get_queryset().using(conf.get("DATABASE"))


class Kept(models.Model):
    """A row in that database: also a new one, for which Django's routers would have no reason to take it."""

    objects = Records()

    class Meta:
        abstract = True

    def save(self, *args: Any, using: Optional[str] = None, **options: Any) -> None:
        """See `django.db.models.Model.save`."""
        super().save(*args, using=using or conf.get("DATABASE"), **options)


class Record(Kept):
    """What a token store keeps under one key. The columns beside ``data`` are for people and look-ups.

    Attributes:
        key: A digest of the alias and the key of the store.
        version: Changes with every change: an update names the version that it replaces.
        data: The record, encrypted.
    """

    key = models.CharField(max_length=64, unique=True)
    alias = models.CharField("server", max_length=100, db_index=True)
    kind = models.CharField(max_length=20)
    issuer = models.CharField(max_length=500, blank=True)
    principal = models.CharField(max_length=255, blank=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    version = models.CharField(max_length=32)
    data = models.TextField()
    created = models.DateTimeField(default=timezone.now)
    updated = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.kind} for {self.alias}"


class Grant(Record):
    """What a user, or this application, may do at a server."""

    resource = models.CharField(max_length=500, blank=True)
    scopes = models.TextField(blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)


class ClientRegistration(Record):
    """How an authorization server knows this application."""

    expires_at = models.DateTimeField(null=True, blank=True)


class PendingFlow(Record):
    """A login that has begun. Its state is there as a digest only."""

    used = models.BooleanField(default=False)


class ServerMetadata(Record):
    """What discovery found out about a server, for one user."""


class StoreLock(models.Model):
    """A row that is locked while a token is refreshed."""

    key = models.CharField(max_length=64, primary_key=True)


class PendingInput(Kept):
    """A call that waits for its user to fill in a form.

    Attributes:
        envelope: The paused call, encrypted.
        result: What came of it in the end, encrypted; empty until then.
        return_to: Where the user goes on afterwards.
        asked_at: The page that made the call.
        version: Counts the changes: whoever goes on with the call names the one that was seen.
    """

    class Status(models.TextChoices):
        """How it stands."""

        WAITING = "waiting"
        RESUMING = "resuming"
        DONE = "done"
        FAILED = "failed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    alias = models.CharField("server", max_length=100)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    principal = models.CharField(max_length=255, blank=True)
    method = models.CharField(max_length=100)
    envelope = models.TextField()
    result = models.TextField(blank=True)
    message = models.TextField(blank=True)
    return_to = models.TextField(blank=True)
    asked_at = models.TextField(blank=True)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.WAITING)
    version = models.PositiveIntegerField(default=0)
    created = models.DateTimeField(default=timezone.now)
    updated = models.DateTimeField(default=timezone.now)
    expires = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.method} for {self.alias}, {self.status}"

    @property
    def is_over(self) -> bool:
        """Whether nobody may answer any more."""
        return bool(self.expires <= timezone.now())


class TaskRecord(Kept):
    """A task that goes on at a server.

    Attributes:
        task_id: Its name there, or a digest of a name that no column can hold.
        handle: What takes it up again, encrypted.
        result: What came of it, encrypted; empty until then.
    """

    alias = models.CharField("server", max_length=100)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    principal = models.CharField(max_length=255, blank=True)
    task_id = models.CharField(max_length=255)
    tool = models.CharField(max_length=255, blank=True)
    handle = models.TextField()
    status = models.CharField(max_length=20)
    message = models.TextField(blank=True)
    result = models.TextField(blank=True)
    poll_interval = models.FloatField(default=1.0)
    created = models.DateTimeField(default=timezone.now)
    updated = models.DateTimeField(default=timezone.now)
    expires = models.DateTimeField(null=True, blank=True, db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["alias", "principal", "task_id"], name="mcp_sync_task"),
        ]

    def __str__(self) -> str:
        return f"{self.tool or 'task'} at {self.alias}, {self.status}"

    @property
    def about(self) -> str:
        """What its encrypted columns are bound to."""
        return f"task {self.alias} {self.principal} {self.task_id}"

    def read_result(self) -> Any:
        """Return the result as a `CallToolResult`, ``None`` if there is none yet."""
        from ... import types

        value = crypto.sealer().unseal(self.result, self.about) if self.result else None
        return None if value is None else types.CallToolResult.model_validate(value)

"""The first tables."""

from __future__ import annotations

import uuid

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="StoreLock",
            fields=[
                ("key", models.CharField(max_length=64, primary_key=True, serialize=False)),
            ],
        ),
        migrations.CreateModel(
            name="ClientRegistration",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=64, unique=True)),
                ("alias", models.CharField(db_index=True, max_length=100, verbose_name="server")),
                ("kind", models.CharField(max_length=20)),
                ("issuer", models.CharField(blank=True, max_length=500)),
                ("principal", models.CharField(blank=True, max_length=255)),
                ("version", models.CharField(max_length=32)),
                ("data", models.TextField()),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated", models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Grant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=64, unique=True)),
                ("alias", models.CharField(db_index=True, max_length=100, verbose_name="server")),
                ("kind", models.CharField(max_length=20)),
                ("issuer", models.CharField(blank=True, max_length=500)),
                ("principal", models.CharField(blank=True, max_length=255)),
                ("version", models.CharField(max_length=32)),
                ("data", models.TextField()),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated", models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ("resource", models.CharField(blank=True, max_length=500)),
                ("scopes", models.TextField(blank=True)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="PendingFlow",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=64, unique=True)),
                ("alias", models.CharField(db_index=True, max_length=100, verbose_name="server")),
                ("kind", models.CharField(max_length=20)),
                ("issuer", models.CharField(blank=True, max_length=500)),
                ("principal", models.CharField(blank=True, max_length=255)),
                ("version", models.CharField(max_length=32)),
                ("data", models.TextField()),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated", models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ("used", models.BooleanField(default=False)),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="PendingInput",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("alias", models.CharField(max_length=100, verbose_name="server")),
                ("principal", models.CharField(blank=True, max_length=255)),
                ("method", models.CharField(max_length=100)),
                ("envelope", models.TextField()),
                ("result", models.TextField(blank=True)),
                ("message", models.TextField(blank=True)),
                ("return_to", models.TextField(blank=True)),
                ("asked_at", models.TextField(blank=True)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("resuming", "Resuming"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                        ],
                        default="waiting",
                        max_length=10,
                    ),
                ),
                ("version", models.PositiveIntegerField(default=0)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated", models.DateTimeField(default=django.utils.timezone.now)),
                ("expires", models.DateTimeField(db_index=True)),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ServerMetadata",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=64, unique=True)),
                ("alias", models.CharField(db_index=True, max_length=100, verbose_name="server")),
                ("kind", models.CharField(max_length=20)),
                ("issuer", models.CharField(blank=True, max_length=500)),
                ("principal", models.CharField(blank=True, max_length=255)),
                ("version", models.CharField(max_length=32)),
                ("data", models.TextField()),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated", models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="TaskRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("alias", models.CharField(max_length=100, verbose_name="server")),
                ("principal", models.CharField(blank=True, max_length=255)),
                ("task_id", models.CharField(max_length=255)),
                ("tool", models.CharField(blank=True, max_length=255)),
                ("handle", models.TextField()),
                ("status", models.CharField(max_length=20)),
                ("message", models.TextField(blank=True)),
                ("result", models.TextField(blank=True)),
                ("poll_interval", models.FloatField(default=1.0)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated", models.DateTimeField(default=django.utils.timezone.now)),
                ("expires", models.DateTimeField(blank=True, db_index=True, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("alias", "principal", "task_id"), name="mcp_sync_task")
                ],
            },
        ),
    ]

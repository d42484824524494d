"""What the admin shows: who is connected to what, and never a token."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.db.models import Count
from django.shortcuts import render
from django.urls import path
from django.utils.translation import ngettext

from ...errors import MCPError
from .models import ClientRegistration, Grant, PendingFlow, PendingInput, TaskRecord
from .servers import mcp
from .stores import digest


class ReadOnlyAdmin(admin.ModelAdmin):
    """Rows are looked at and deleted; nobody writes them by hand."""

    secrets: tuple[str, ...] = ("data", "key", "version")

    def get_fields(self, request: Any, obj: Any = None) -> list[str]:
        """Return all fields without secrets."""
        return [each.name for each in self.model._meta.fields if each.name not in self.secrets]

    get_readonly_fields = get_fields

    def has_add_permission(self, request: Any, obj: Any = None) -> bool:
        """Whether a row can be made here: none can."""
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        """Whether a row can be changed: none can."""
        return False


@admin.register(Grant)
class GrantAdmin(ReadOnlyAdmin):
    """Grants: who is connected to what."""

    list_display = ("alias", "user", "principal", "issuer", "scopes", "expires_at", "updated")
    list_filter = ("alias",)
    search_fields = ("principal", "issuer")
    list_select_related = ("user",)
    actions = ("revoke", "test")
    change_list_template = "admin/mcp_sync/grant/change_list.html"

    def get_urls(self) -> list[Any]:
        """Return those of the rows, and that of the status of the servers."""
        status = self.admin_site.admin_view(self.status)
        return [path("servers/", status, name="mcp_sync_status"), *super().get_urls()]

    def status(self, request: Any) -> Any:
        """Show how it stands with each server, without asking any."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        problem, rows = "", []
        try:
            rows = _status_rows()
        except (MCPError, ImproperlyConfigured) as error:
            problem = str(error)
        context = {**self.admin_site.each_context(request), "title": "Status of the servers"}
        return render(request, "mcp_sync/status.html", {**context, "rows": rows, "problem": problem})

    @admin.action(description="Revoke and delete", permissions=["delete"])
    def revoke(self, request: Any, queryset: Any) -> None:
        """Have the authorization servers revoke the tokens of those that are used, and delete all."""
        done = 0
        for row in queryset:
            try:
                server, oauth = _of(row)
                if _is_used(row, server, oauth):
                    oauth.logout(server.url)
                else:
                    row.delete()
                done += 1
            except MCPError as error:
                self.message_user(request, f"{row}: {error}", messages.ERROR)
        text = ngettext("%d grant was forgotten.", "%d grants were forgotten.", done)
        self.message_user(request, text % done)

    @admin.action(description="Test: ask the server for its tools", permissions=["view"])
    def test(self, request: Any, queryset: Any) -> None:
        """Use the grants."""
        for row in queryset:
            try:
                server, oauth = _of(row)
                if not _is_used(row, server, oauth):
                    raise MCPError("it is not used any more")
                count = len(list(server.for_principal(row.principal).tools()))
                self.message_user(request, f"{row}: {count} tools")
            except MCPError as error:
                self.message_user(request, f"{row}: {error}", messages.ERROR)


def _status_rows() -> list[dict[str, Any]]:
    entries = mcp.entries()
    rows = Grant.objects.values("alias").annotate(count=Count("id"))
    grants = {row["alias"]: row["count"] for row in rows.order_by()}
    found = []
    for each in mcp.registry.status():
        entry = entries.get(each.name)
        logins = "each user" if entry is not None and entry.per_user else "one for all"
        has_oauth = entry is not None and entry.auth is not None
        counted = {"logins": logins if has_oauth else "none", "grants": grants.get(each.name, 0)}
        found.append({**each._asdict(), **counted})
    return found


def _of(row: Grant) -> Any:
    server = mcp[row.alias]
    oauth = server.oauth_for(None)
    if oauth is None:
        raise MCPError("the server has no OAuth any more")
    return server, oauth.for_principal(row.principal)


def _is_used(row: Grant, server: Any, oauth: Any) -> bool:
    """Whether it is this grant that the user's calls are made with: they may have another one by now."""
    key = oauth.vault.grant_key(server.url)
    return key is not None and row.key == digest(row.alias, key)


@admin.register(ClientRegistration)
class ClientRegistrationAdmin(ReadOnlyAdmin):
    """How authorization servers know this site."""

    list_display = ("alias", "issuer", "expires_at", "updated")


@admin.register(PendingFlow)
class PendingFlowAdmin(ReadOnlyAdmin):
    """Logins that have begun."""

    list_display = ("alias", "principal", "used", "updated")


@admin.register(PendingInput)
class PendingInputAdmin(ReadOnlyAdmin):
    """Calls that wait for their users."""

    # The addresses have in their queries what the user was looking for.
    secrets = ("envelope", "result", "version", "return_to", "asked_at")
    list_display = ("alias", "method", "user", "status", "created", "expires")
    list_filter = ("alias", "status")


@admin.register(TaskRecord)
class TaskRecordAdmin(ReadOnlyAdmin):
    """Tasks of servers."""

    secrets = ("handle", "result", "task_id")
    list_display = ("alias", "tool", "user", "status", "created", "updated")
    list_filter = ("alias", "status")

"""The Django project that the tests run: its settings and its pages."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import HttpResponse, JsonResponse
from django.urls import include, path

FOLDER = Path(tempfile.mkdtemp(prefix="mcp-sync-django-"))
FILE = str(FOLDER / "db.sqlite3")
SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": FILE, "OPTIONS": {"timeout": 20}}

_MADE_BY = os.getpid()


@atexit.register
def _remove() -> None:
    if os.getpid() == _MADE_BY:  # and not a child of it
        shutil.rmtree(FOLDER, ignore_errors=True)


def configure(database: dict[str, Any], servers: dict[str, Any] | None = None) -> None:
    """Make the settings, and set Django up: once for a process."""
    import django

    if settings.configured:
        return
    if database["ENGINE"].endswith(".mysql"):
        import pymysql

        # Django knows but the driver that has to be built from C.
        pymysql.install_as_MySQLdb()
    settings.configure(
        SECRET_KEY="a secret of the tests",
        SECRET_KEY_FALLBACKS=[],
        DEBUG=False,
        ALLOWED_HOSTS=["testserver", "localhost", "127.0.0.1"],
        ROOT_URLCONF="tests.contrib.django.site",
        DATABASES={"default": database},
        USE_TZ=True,
        LOGIN_REDIRECT_URL="/",
        LOGIN_URL="/login/",
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=[
            "django.contrib.admin",
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "django.contrib.messages",
            "mcp_sync.contrib.django",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
            "mcp_sync.contrib.django.middleware.McpSyncMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        MCP_SYNC={"SERVERS": servers or {}},
    )
    django.setup()


def whoami(request: Any) -> HttpResponse:
    """Ask the protected server who asks."""
    from mcp_sync.contrib.django import mcp

    return HttpResponse(mcp["guarded"].for_user(request.user).call_tool("whoami").text)


def greet(request: Any) -> HttpResponse:
    """Call a tool that asks for a name first."""
    from mcp_sync.contrib.django import answered, mcp

    result = answered(request) or mcp["desk"].for_user(request.user).call_tool("greet", on_input="raise")
    return HttpResponse(result.text)


def atomic(request: Any) -> HttpResponse:
    """Ask the protected server who asks, in a transaction as with ATOMIC_REQUESTS that is rolled back."""
    from django.contrib.auth.models import User
    from django.db import transaction

    from mcp_sync.contrib.django import mcp

    with transaction.atomic():
        User.objects.filter(pk=request.user.pk).update(first_name="Ada")
        text = mcp["guarded"].for_user(request.user).call_tool("whoami").text
        transaction.set_rollback(True)
    return HttpResponse(text)


def locked(request: Any) -> HttpResponse:
    """Ask the protected server who asks, in a transaction that has locked the user."""
    from django.contrib.auth.models import User
    from django.db import transaction

    from mcp_sync.contrib.django import mcp

    with transaction.atomic():
        User.objects.select_for_update().get(pk=request.user.pk)
        return HttpResponse(mcp["guarded"].for_user(request.user).call_tool("whoami").text)


def visit(request: Any) -> HttpResponse:
    """Count a visit, and ask the protected server who asks."""
    from django.contrib.auth.models import User

    from mcp_sync.contrib.django import mcp

    User.objects.filter(pk=request.user.pk).update(first_name=f"{request.user.first_name}.")
    return HttpResponse(mcp["guarded"].for_user(request.user).call_tool("whoami").text)


def build(request: Any) -> HttpResponse:
    """Start a task, and say which it is."""
    from mcp_sync.contrib.django import tasks

    return HttpResponse(str(tasks.start("builder", request.user, "build").pk))


def built(request: Any, pk: int) -> HttpResponse:
    """Say how a task of the user is getting on, or what came of it."""
    from mcp_sync.contrib.django import tasks

    row = tasks.refresh(tasks.of_user(request.user).get(pk=pk), request.user)
    result = row.read_result()
    return HttpResponse(row.status if result is None else result.text)


def connected_only(request: Any) -> JsonResponse:
    """A page for those who are connected."""
    from mcp_sync.contrib.django import mcp_login_required

    return mcp_login_required("guarded")(lambda request: JsonResponse({"ok": True}))(request)


def worker(request: Any) -> HttpResponse:
    """Tell which process answers."""
    return HttpResponse(str(os.getpid()))


def _admin() -> Any:
    from django.contrib import admin

    return admin.site.urls


def __getattr__(name: str) -> Any:
    if name != "urlpatterns":
        raise AttributeError(name)
    # Only once Django is set up.
    from mcp_sync.contrib.django import mcp_login_required

    return [
        path("mcp/", include("mcp_sync.contrib.django.urls")),
        path("whoami/", whoami),
        path("greet/", greet),
        path("atomic/", mcp_login_required("guarded")(atomic)),
        path("visit/", visit),
        path("locked/", locked),
        path("build/", build),
        path("build/<int:pk>/", built),
        path("connected/", connected_only),
        path("worker/", worker),
        path("admin/", _admin()),
    ]

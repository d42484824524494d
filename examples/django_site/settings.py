"""The settings of the site. In production the secret comes from elsewhere, and DEBUG is off as here."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

SECRET_KEY = os.environ.get("SITE_SECRET") or secrets.token_urlsafe(32)
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "pages"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SITE_DATABASE", str(Path(__file__).parent / "site.sqlite3")),
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/"
SESSION_COOKIE_SAMESITE = "Lax"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "mcp_sync.contrib.django",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "mcp_sync.contrib.django.middleware.McpSyncMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [Path(__file__).parent / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
            ]
        },
    }
]

MCP_SYNC = {
    "SERVERS": {"desk": {"URL": os.environ.get("MCP_URL", ""), "AUTH": {"KIND": "oauth"}}},
    "CLIENT_NAME": "The example site",
    "DEFAULT_DEADLINE": 20,
}

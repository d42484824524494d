"""What may be wrong with the settings: ``manage.py check`` says it before users find out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Optional
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections
from django.utils.module_loading import import_string

from ..._masking import is_secret_name, masked_text
from ..._protocol.urls import is_loopback
from ...client import Client
from ...errors import MCPError
from .._entries import Entry
from . import conf, crypto
from ._unwritten import unwritten_of

TAG = "mcp_sync"
_GRANTS = 100  # that are looked at
_SECONDS = {"DEFAULT_DEADLINE": "A request must not wait for ever.", "INPUT_LIFE": None}
_MOST_SECONDS = 1e9  # No clock of a system or of Python waits much longer.
_LONGEST_ALIAS = 100  # characters: what a column holds
# In an address with the name of the user in front of it.
_VARIABLE = re.compile(r"(?<=//)[^/@]*\$\{[^{}]*\}@|\$\{[^{}]*\}")


def register() -> None:
    """Have Django run the checks."""
    checks.register(check_settings, TAG)
    checks.register(check_deployment, TAG, deploy=True)
    checks.register(check_grants, checks.Tags.database)


def check_settings(**_: Any) -> list[checks.CheckMessage]:
    """Check ``MCP_SYNC``. Opens nothing."""
    try:
        found = [checks.Error(text, id="mcp_sync.E001") for text in conf.unknown_keys()]
        return [*found, *_check_values(), *_check_servers(), *_check_owner()]
    except ImproperlyConfigured as error:
        return [checks.Error(str(error), id="mcp_sync.E001")]


def _check_servers() -> Iterator[checks.CheckMessage]:
    servers = conf.get("SERVERS")
    if not isinstance(servers, dict):
        yield checks.Error("MCP_SYNC['SERVERS'] must be a dict", id="mcp_sync.E001")
        return
    entries: dict[str, Entry] = {}
    try:
        entries = conf.entries()
    except MCPError as error:
        yield checks.Error(str(error), id="mcp_sync.E001")
    for alias, entry in entries.items():
        yield from _check_server(alias, entry)
    if any(entry.per_user for entry in entries.values()):
        yield from _check_users()


def _check_server(alias: str, entry: Entry) -> Iterator[checks.CheckMessage]:
    for warning in entry.warnings:
        yield checks.Error(warning, id="mcp_sync.E001")
    if len(alias) > _LONGEST_ALIAS or (entry.auth is not None and "/" in alias):
        text = f"the name {alias!r} is no part of a path, or has more than {_LONGEST_ALIAS} characters"
        yield checks.Error(text, id="mcp_sync.E001")
    if entry.server.fault is not None:
        yield checks.Error(str(entry.server.fault), id="mcp_sync.E001")
        return
    try:
        entry.server.check()
        if entry.auth is not None:
            from .authorization import make_oauth

            make_oauth(alias, entry)
    except MCPError as error:
        yield checks.Error(str(error), id="mcp_sync.E002")
    except ImportError:
        pass  # E003 says so.
    parts = urlsplit(entry.server.url or "")
    if parts.scheme in ("http", "ws") and not is_loopback(parts.hostname):
        text = f"the server {alias!r} is asked in clear: everybody on the way can read it"
        yield checks.Warning(text, hint="Use https.", id="mcp_sync.W001")


def _check_values() -> Iterator[checks.CheckMessage]:
    from django.core.cache import caches

    store = conf.get("TOKEN_STORE")
    try:
        is_class = callable(import_string(store))
    except (ImportError, AttributeError, TypeError):
        is_class = False
    if not is_class:
        text = f"MCP_SYNC['TOKEN_STORE'] cannot be imported: {store!r}"
        yield checks.Error(text, id="mcp_sync.E003")
    cache = conf.get("RESPONSE_CACHE")
    if cache and cache not in list(caches.settings):
        yield checks.Error(f"MCP_SYNC['RESPONSE_CACHE'] names no cache: {cache!r}", id="mcp_sync.E003")
    if conf.get("DATABASE") not in list(settings.DATABASES):
        name = conf.get("DATABASE")
        yield checks.Error(f"MCP_SYNC['DATABASE'] names no database: {name!r}", id="mcp_sync.E003")
    for key, hint in _SECONDS.items():
        seconds = conf.get(key)
        if (
            isinstance(seconds, bool)
            or not isinstance(seconds, (int, float))
            or not 0 < seconds <= _MOST_SECONDS
        ):
            text = f"MCP_SYNC[{key!r}] must be a number of seconds above 0"
            yield checks.Error(text, hint=hint, id="mcp_sync.E001")
    keys = conf.get("ENCRYPTION_KEYS")
    if not isinstance(keys, (list, tuple)) or not all(isinstance(key, str) and key for key in keys):
        text = "MCP_SYNC['ENCRYPTION_KEYS'] must be a list of strings that are not empty"
        yield checks.Error(text, id="mcp_sync.E001")
    yield from _check_base_url()
    options = conf.get("OPTIONS")
    try:
        Client("http://localhost", **options).close()
    except (TypeError, MCPError) as error:
        yield checks.Error(f"MCP_SYNC['OPTIONS'] are no options of Client: {error}", id="mcp_sync.E001")
    if str(store).endswith("MemoryStore") and not settings.DEBUG:
        text = "MemoryStore keeps the grants of users in one process: others do not know them"
        yield checks.Warning(text, id="mcp_sync.W002")
    if str(store).endswith("FileStore"):
        text = "FileStore is for one user of one machine, not for those of a web application"
        yield checks.Warning(text, id="mcp_sync.W003")


def _check_owner() -> Iterator[checks.CheckMessage]:
    """Check that what stands beside a SQLite file can be used: it is for the owner of the file alone."""
    name = conf.get("DATABASE")
    beside = unwritten_of(connections[name]) if name in list(settings.DATABASES) else None
    with suppress(OSError, AttributeError):  # There is no file yet, or no such thing as an owner.
        me = os.geteuid()
        if beside is not None and me not in (0, os.stat(beside.database).st_uid):
            text = f"this runs as another user of the system than the one that {beside.database} belongs to"
            hint = "Run whatever uses the database as its owner: others cannot refresh the tokens of users."
            yield checks.Warning(text, hint=hint, id="mcp_sync.W008")


def _check_base_url() -> Iterator[checks.CheckMessage]:
    base = conf.get("BASE_URL")
    parts = urlsplit(str(base or ""))
    is_plain = parts.scheme in ("http", "https") and parts.netloc and not (parts.query or parts.fragment)
    if base and not is_plain:
        text = f"MCP_SYNC['BASE_URL'] must be like https://example.com, not {base!r}"
        yield checks.Error(text, id="mcp_sync.E001")
    if conf.get("CLIENT_METADATA") and not base:
        text = "MCP_SYNC['CLIENT_METADATA'] means nothing without BASE_URL, below which the document is"
        yield checks.Error(text, id="mcp_sync.E001")


def _check_users() -> Iterator[checks.CheckMessage]:
    from .authorization import path_of

    for name in ("django.contrib.auth", "django.contrib.sessions"):
        if not apps.is_installed(name):
            text = f"a server has a grant for each user, and {name} is not installed"
            yield checks.Error(text, id="mcp_sync.E004")
    if getattr(settings, "ROOT_URLCONF", None) and not path_of("connect", "x"):
        text = "a server has a grant for each user, who have no page to connect on"
        hint = 'Add path("mcp/", include("mcp_sync.contrib.django.urls")) to your urls.'
        yield checks.Error(text, hint=hint, id="mcp_sync.E004")


def check_grants(databases: Optional[Sequence[str]] = None, **_: Any) -> list[checks.CheckMessage]:
    """Check that the latest grants can be decrypted: with ``manage.py check --database``, and ``migrate``."""
    from .models import Grant
    from .stores import UNREADABLE_HINT

    try:
        if conf.get("DATABASE") not in (databases or ()):
            return []
        latest = list(Grant.objects.order_by("-updated").values_list("data", "key")[:_GRANTS])
    except (DatabaseError, ImproperlyConfigured):
        return []  # There are no tables yet, say.
    count = sum(crypto.sealer().unseal(data, key) is None for data, key in latest)
    if not count:
        return []
    text = (
        f"of the latest {len(latest)} grants {count} cannot be decrypted: their users have to connect again"
    )
    hint = f"{UNREADABLE_HINT[:1].upper()}{UNREADABLE_HINT[1:]}."
    return [checks.Warning(text, hint=hint, id="mcp_sync.W007")]


def check_deployment(**_: Any) -> list[checks.CheckMessage]:
    """Check what matters in production."""
    try:
        return list(_check_deployment())
    except ImproperlyConfigured:
        return []  # E001 says so.


def _check_deployment() -> Iterator[checks.CheckMessage]:
    if not conf.get("ENCRYPTION_KEYS"):
        text = "tokens are encrypted with a key derived from SECRET_KEY: who has that can read them"
        hint = "Set MCP_SYNC['ENCRYPTION_KEYS'], with SECRET_KEY as the last one until mcp_rotate has run."
        yield checks.Warning(text, hint=hint, id="mcp_sync.W005")
    database = settings.DATABASES.get(str(conf.get("DATABASE")), {})
    if str(database.get("ENGINE", "")).endswith("sqlite3") and database.get("ATOMIC_REQUESTS"):
        text = "with SQLite and ATOMIC_REQUESTS, nobody else can write as long as the call of a view takes"
        hint = "Use the WAL mode of SQLite, or a database that locks rows."
        yield checks.Warning(text, hint=hint, id="mcp_sync.W006")
    try:
        entries = conf.entries()
    except MCPError:
        return
    commands = [alias for alias, entry in entries.items() if entry.server.kind == "stdio"]
    if commands:
        names = ", ".join(commands)
        text = f"each worker process starts a process of its own for: {names}"
        yield checks.Warning(text, hint="Count them, or have them listen at a URL.", id="mcp_sync.W004")
    for alias, entry in entries.items():
        if entry.server.file is None and _has_secret(entry):
            text = f"a secret of the server {alias!r} is in the settings, which Django's error mails show"
            hint = 'Write "${NAME}" for it, with a variable of the environment, and not its value.'
            yield checks.Warning(text, hint=hint, id="mcp_sync.W009")


def _has_secret(entry: Entry) -> bool:
    """Whether a secret seems to be there itself, and not the name of a variable."""
    server = entry.server
    address = _VARIABLE.sub("", server.url or "")
    auth = entry.auth if entry.auth is not None else server.auth
    if isinstance(auth, str):
        auth = {"token": auth}
    named = [
        *server.headers.items(),
        *server.env.items(),
        *(auth.items() if isinstance(auth, Mapping) else ()),
    ]
    return masked_text(address) != address or any(
        isinstance(value, str) and is_secret_name(name) and not _VARIABLE.search(value)
        for name, value in named
    )

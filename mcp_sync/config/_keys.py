"""The keys that hosts have for a server, and what they mean."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Optional

# By their letters alone: `httpUrl`, `http_url` and `HTTP_URL` are the same key.
FIELDS = {
    "type": "type",
    "transport": "type",
    "command": "command",
    "args": "args",
    "env": "env",
    "environment": "env",
    "envfile": "env_file",
    "envvars": "env_vars",
    "cwd": "cwd",
    "inheritenv": "inherit_env",
    "url": "url",
    "httpurl": "url",
    "serverurl": "url",
    "headers": "headers",
    "httpheaders": "headers",
    "envhttpheaders": "env_headers",
    "verify": "verify",
    "timeout": "timeout",
    "tooltimeoutsec": "timeout_seconds",
    "startuptimeoutsec": "open_seconds",
    "timeouts": "timeouts",
    "mode": "mode",
    "disabled": "disabled",
    "enabled": "enabled",
    "auth": "auth",
    "oauth": "oauth",
    "scopes": "scopes",
    "bearertoken": "bearer_token",
    "bearertokenenvvar": "bearer_variable",
    "tools": "allow",
    "includetools": "allow",
    "allowedtools": "allow",
    "enabledtools": "allow",
    "toolsallow": "allow",
    "excludetools": "deny",
    "disabledtools": "deny",
    "blockedtools": "deny",
    "toolsdeny": "deny",
}
# What concerns nobody but the host: whom it asks, what it shows, how it starts and watches the server.
_OF_THE_HOST = {
    *("alwaysallow", "autoapprove", "trust", "alwaysload", "required", "supportsparalleltoolcalls"),
    *(
        "name",
        "displayname",
        "title",
        "description",
        "icon",
        "note",
        "notes",
        "comment",
        "gallery",
        "version",
    ),
    *("dev", "watchpaths", "sandbox", "sandboxenabled", "extension", "source", "settings"),
}
# What a client would have to obey, and does not: without it, the server behaves differently.
_NOT_SUPPORTED = {"headershelper", "authprovidertype", "targetaudience", "targetserviceaccount"}


def plain(key: str) -> str:
    """Return a key without its style of writing."""
    return key.replace("_", "").replace("-", "").lower()


def warning_about(key: str) -> Optional[str]:
    """Return what is to be said of a key that is none of `FIELDS`, ``None`` for nothing."""
    name = plain(key)
    if name in _OF_THE_HOST or key.startswith(("_", "//", "$")):
        return None
    if name in _NOT_SUPPORTED:
        return "this is not supported, and ignored"
    return unknown(key, FIELDS)


def unknown(key: str, known: Iterable[str]) -> str:
    """Return what is to be said of a key that means nothing, beside those that do."""
    close = guess(key, known)
    return "unknown, and ignored" + (f"; did you mean {close!r}?" if close else "")


def guess(key: str, known: Iterable[str]) -> Optional[str]:
    """Return the key that may have been meant by one that there is not."""
    close = difflib.get_close_matches(plain(key), known, 1)
    return close[0] if close else None

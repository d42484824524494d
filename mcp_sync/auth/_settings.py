"""What users set for an authorization, refused at once and by name where it makes no sense."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..errors import UsageError
from ._rules import scope_tokens


def as_scopes(scopes: Any) -> tuple[str, ...]:
    """Return a list of scopes, each once. A single string would be taken letter by letter.

    Raises:
        UsageError: It is none.
    """
    is_list = isinstance(scopes, Iterable) and not isinstance(scopes, (str, bytes, Mapping))
    given = tuple(scopes) if is_list else (None,)
    if not all(isinstance(scope, str) for scope in given):
        shown = repr(scopes) if isinstance(scopes, str) else type(scopes).__name__
        raise UsageError(f'scopes must be a list of strings such as ["read", "write"], not {shown}')
    return tuple(scope_tokens(*given))


def as_path(name: str, path: Any) -> Path:
    """Return a path as an absolute one.

    Raises:
        UsageError: It is neither a string nor a path.
    """
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes):
        raise UsageError(f"{name} must be a path, as a string or a Path, not {type(path).__name__}")
    return Path(path).expanduser().absolute()


def is_proxy(url: str) -> bool:
    """Whether a URL, or a host and port, can name a proxy. The empty one names none."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        return not url or (bool(parts.hostname) and parts.port != 0)
    except ValueError:
        return False


def check_sending(verify: Any, proxies: Any, cert: Any) -> None:
    """Refuse what requests does not take for how requests are sent.

    Raises:
        UsageError: It does not.
    """
    if not isinstance(verify, (bool, str, os.PathLike)):
        raise UsageError(f"verify must be a bool, or the path of a CA bundle, not {type(verify).__name__}")
    if proxies is not None and not isinstance(proxies, Mapping):
        raise UsageError(f"proxies must be a mapping such as a dict, not {type(proxies).__name__}")
    for name, proxy in (proxies or {}).items():
        if proxy is not None and not (isinstance(proxy, str) and is_proxy(proxy)):
            # Its URL may hold a password.
            raise UsageError(f"the proxy for {name!r} is no URL with a host and, if any, a port")
    parts = cert if isinstance(cert, tuple) and len(cert) == 2 else (cert,)
    if cert is not None and not all(isinstance(part, (str, os.PathLike)) for part in parts):
        raise UsageError("cert must be the path of a certificate, or a pair of those of certificate and key")

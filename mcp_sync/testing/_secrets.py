"""What is secret of a target: what it was given, and what it gets for its requests."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Callable
from urllib.parse import parse_qsl, unquote, urlsplit

from .._masking import HIDDEN, is_option_value, is_secret_name
from .._protocol.striking import secrets_of

Learn = Callable[[Iterable[str]], Any]

_PLAIN = ("accept", "accept-language", "content-type", "user-agent", "origin")
# What is shorter stands for other things, too.
_SHORTEST = 6
# A mere word, such as a level, or a revision of the protocol is in many messages, and means something there.
_COMMON = re.compile(r"[A-Za-z]+|\d{4}-\d\d-\d\d")


def known_of(target: Any) -> list[str]:
    """Return what a target knows that nobody else should.

    That is, of its headers, its environment and the query of its URL, every value but mere words and dates
    under names that tell nothing; and its passwords, tokens and keys, wherever they are.
    """
    found = [*_of_headers(getattr(target, "headers", None) or {})]
    found += _of_variables(getattr(target, "env", None) or {})
    if getattr(target, "inherit_env", None) == "all":
        found += [value for name, value in os.environ.items() if is_secret_name(name)]
    found += _of_command(getattr(target, "args", None) or ())
    for url in (getattr(target, "url", None), *(getattr(target, "proxies", None) or {}).values()):
        found += _of_url(url) if isinstance(url, str) else ()
    found += _of_auth(getattr(target, "auth", None))
    session = getattr(target, "session", None)
    if session is not None:
        found += _of_headers(getattr(session, "headers", None) or {})
        found += _of_auth(getattr(session, "auth", None))
    found.append(getattr(target, "session_id", None) or "")
    return long_enough(found)


def known_of_request(headers: Mapping[str, str]) -> list[str]:
    """Return what is secret of the headers of one request."""
    return long_enough(_of_headers(headers))


def known_of_channel(channel: Any) -> list[str]:
    """Return what a channel was given by its server, and nobody else should know."""
    cookies = [value or "" for *_, value in getattr(channel, "cookies", ())]
    return long_enough([*cookies, getattr(channel, "session_id", None) or ""])


def long_enough(values: Iterable[str]) -> list[str]:
    """Return what is long enough not to stand for other things as well."""
    return [value for value in values if len(value) >= _SHORTEST and value != HIDDEN]


def watched(target: Any, learn: Learn) -> Any:
    """Return a target that does the same, and tells what its authorization puts on requests."""
    auth = getattr(target, "auth", None)
    if not callable(auth) or not dataclasses.is_dataclass(target):
        return target
    return dataclasses.replace(target, auth=_WatchedAuth(auth, learn))  # type: ignore[type-var]


class _WatchedAuth:
    """An authorization of requests that does what another one does, and tells what that is."""

    def __init__(self, auth: Any, learn: Learn) -> None:
        self._auth = auth
        self._learn = learn
        bind = getattr(auth, "_bound_to", None)
        if bind is not None:
            self._bound_to = lambda *args: _WatchedAuth(bind(*args), learn)

    def __call__(self, request: Any) -> Any:
        request = self._auth(request)
        self._look(request)
        # Behind those of the authorization, which sends the request again with something newer.
        request.register_hook("response", self._after)
        return request

    def _after(self, response: Any, **options: Any) -> Any:
        self._look(response.request)
        return response

    def _look(self, request: Any) -> None:
        self._learn(long_enough(secrets_of(request.headers, request.url or "")))


def _of_headers(headers: Mapping[str, Any]) -> Iterator[str]:
    yield from secrets_of(headers, "")
    for name, value in headers.items():
        lower = name.lower()
        if lower not in (*_PLAIN, "cookie") and not lower.startswith("mcp-"):
            yield from _of_value(name, value.decode("latin-1") if isinstance(value, bytes) else str(value))


def _of_variables(variables: Mapping[str, str]) -> Iterator[str]:
    for name, value in variables.items():
        yield from _of_value(name, str(value))
        yield from _of_url(str(value))


def _of_value(name: str, value: str) -> Iterator[str]:
    if is_secret_name(name) or not _COMMON.fullmatch(value):
        yield from (value, value.rpartition(" ")[2])


def _of_command(args: Sequence[str]) -> Iterator[str]:
    for option, arg in zip(("", *args), args):
        name, equals, value = arg.partition("=")
        header, colon, content = arg.partition(":")
        if is_option_value(option, arg):
            yield arg
        elif equals and is_secret_name(name.lstrip("-")):
            yield value
        elif colon and is_secret_name(header):
            yield from _of_headers({header: content.strip()})
        yield from _of_url(arg)


def _of_url(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    if not parts.scheme or not parts.netloc:
        return
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    if user:
        # A name without a password is often a key.
        yield from (password, unquote(password)) if password else (user, unquote(user))
    for name, value in parse_qsl(parts.query):
        yield from _of_value(name, value)


def _of_auth(auth: Any) -> Iterator[str]:
    if isinstance(auth, tuple) and len(auth) == 2:
        user, password = auth
    else:
        user, password = getattr(auth, "username", None), getattr(auth, "password", None)
    if isinstance(user, str) and isinstance(password, str):
        yield password
    secret = getattr(getattr(auth, "identity", None), "client_secret", None)
    if isinstance(secret, str):
        yield secret

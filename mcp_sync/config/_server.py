"""One server of a configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from .._concurrency.fork import no_fork
from .._protocol.urls import hide_filled
from ..errors import UsageError
from ..errors._base import another
from ..options import Timeouts
from ._auth import make_auth
from ._env_file import read_env_file
from ._errors import ConfigError, Place
from ._shown import is_reference, secrets, shown_args, shown_auth, shown_url
from ._variables import Variables

if TYPE_CHECKING:
    from ..client import Client
    from ..transports._base import Target

# What of a client's arguments belongs to its target.
_OF_THE_TARGET = ("auth", "headers", "session", "session_id")


@dataclass(frozen=True, repr=False)
class ServerConfig:
    """One server, as it was written: variables such as ``${TOKEN}`` are replaced when it is used.

    So a variable that is missing harms no other server, and what is shown of it has no secrets.

    Attributes:
        name: Its name.
        kind: ``"stdio"``, ``"http"``, ``"sse"`` or ``"websocket"``; ``"broken"`` if its entry cannot be so.
        command, args, env, env_file, env_vars, cwd, inherit_env: A server to be started, as in `Stdio`;
            ``env_vars`` are the names of variables that it gets from this process.
        url, headers, env_headers, verify, auth: A server that runs; ``env_headers`` are headers with the
            names of the variables that hold their values.
        timeout: Seconds that a call may take, ``None`` for the bounds of the library.
        timeouts: Other bounds on time.
        mode: As in `Client`.
        disabled: Whether it is not to be used.
        fault: What is wrong with its entry, ``None`` if nothing is. It is raised when the server is used, and
            harms no other.
        allow: Patterns (as of `fnmatch`) for the names of the tools that may be used, ``None`` for all.
        deny: Patterns for those that may not, even if allowed.
        file: The file that it comes from.
        auth_key: The key that ``auth`` was written with.
        variables: What its variables stand for.
    """

    name: str
    kind: str = "stdio"
    command: Optional[str] = None
    args: tuple[str, ...] = ()
    env: Mapping[str, Any] = field(default_factory=dict, hash=False)
    env_file: Optional[str] = None
    env_vars: tuple[str, ...] = ()
    cwd: Optional[str] = None
    inherit_env: str = "base"
    url: Optional[str] = None
    headers: Mapping[str, Any] = field(default_factory=dict, hash=False)
    env_headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    verify: Union[bool, str] = True
    auth: Any = field(default=None, hash=False)
    timeout: Optional[float] = None
    timeouts: Timeouts = Timeouts()  # noqa: RUF009  (immutable)
    mode: Optional[str] = None
    disabled: bool = False
    allow: Optional[tuple[str, ...]] = None
    deny: tuple[str, ...] = ()
    fault: Optional[ConfigError] = field(default=None, hash=False)
    file: Optional[str] = None
    auth_key: str = field(default="auth", repr=False)
    variables: Variables = field(default=Variables(".", False, {}), repr=False, hash=False)

    def __repr__(self) -> str:
        return f"<ServerConfig {self.name!r} {json.dumps(self.to_json(), ensure_ascii=False)}>"

    def to_json(self) -> dict[str, Any]:
        """Return what there is to see of it, with ``***`` for whatever may be a secret."""
        if self.fault is not None:
            return {
                "type": self.kind,
                "error": str(self.fault),
                **({"disabled": True} if self.disabled else {}),
            }
        command, args = shown_args(self.command, self.args)
        shown: dict[str, Any] = {
            "type": self.kind,
            "command": command,
            "args": args,
            "env": secrets(self.env),
            "envFile": self.env_file,
            "envVars": list(self.env_vars),
            "cwd": self.cwd,
            "url": shown_url(self.url),
            "headers": {**secrets(self.headers), **secrets(self.env_headers)},
            "auth": shown_auth(self.auth),
            "timeout": self.timeout,
            "mode": self.mode,
            "disabled": self.disabled,
            "includeTools": None if self.allow is None else list(self.allow),
            "excludeTools": list(self.deny),
        }
        return {key: value for key, value in shown.items() if value not in (None, [], {}, False)}

    # --- what it is for ----------------------------------------------------------------------------------

    def client(self, **overrides: Any) -> Client:
        """Return a client of it, which opens on first use. It offers and calls allowed tools only.

        Args:
            overrides: Arguments of `Client`, instead of what the configuration says; ``headers`` are added.

        Raises:
            ConfigError: A variable is not set, or something cannot be so. Names file, server and key.
            UsageError: An override makes no sense.
        """
        return self.client_with(None, **overrides)

    def client_with(self, also: Optional[Callable[[str], bool]], **overrides: Any) -> Client:
        """Return a client as `client` does, to which only those tools exist that are allowed ``also``."""
        with no_fork():
            from .._servers.filtered import client_class

        given = {name: overrides.pop(name) for name in _OF_THE_TARGET if name in overrides}
        options: dict[str, Any] = {"name": self.name, "timeouts": self.timeouts}
        if self.timeout is not None:
            options["timeout"] = self.timeout
        if self.mode is not None:
            options["mode"] = self.mode
        kind = client_class(self.allow, self.deny, also)
        return kind(self.target(**given), **{**options, **overrides})

    def target(self, **given: Any) -> Target:
        """Return where it is, with all variables replaced.

        Args:
            given: What a URL may have beside it, as in `Client`: ``auth``, ``headers``, ``session``,
                ``session_id``.

        Raises:
            ConfigError: A variable is not set, or something cannot be so.
        """
        if self.fault is not None:
            raise another(self.fault)
        if self.kind == "stdio":
            if given:
                raise self._place().error(f"{', '.join(given)} need a URL; this server is a command")
            return self._checked(self._process)  # type: ignore[no-any-return]
        return self._checked(lambda: self._remote(given))  # type: ignore[no-any-return]

    def check(self) -> None:
        """See that it can be used, as far as that can be told without opening it.

        Raises:
            ConfigError: It cannot.
        """
        self.target()

    def _place(self, key: Optional[str] = None) -> Place:
        return Place(self.file, self.name, key)

    def _checked(self, make: Any) -> Any:
        """Return what ``make()`` does, and say of an error where it comes from."""
        try:
            return make()
        except ConfigError:
            raise
        except UsageError as error:
            raise self._place().error(str(error)) from error

    def _process(self) -> Target:
        with no_fork():
            from ..transports import Stdio
        fill = self.variables.fill
        command = str(fill(self.command, self._place("command")))
        cwd = None if self.cwd is None else str(self.variables.path(fill(self.cwd, self._place("cwd"))))
        return Stdio(
            str(self.variables.path(command)) if command.startswith("~") else command,
            fill(self.args, self._place("args")),
            env=self._environment() or None,
            cwd=cwd,
            inherit_env=self.inherit_env,
            name=self.name,
        )

    def _environment(self) -> dict[str, str]:
        found = {name: os.environ[name] for name in self.env_vars if name in os.environ}
        if self.env_file is not None:
            place = self._place("envFile")
            found.update(read_env_file(self.variables.path(self.variables.fill(self.env_file, place)), place))
        found.update(self._strings(self.env, self._place("env")))
        return found

    def _remote(self, given: Mapping[str, Any]) -> Target:
        with no_fork():
            from ..transports import LegacySSE, WebSocket
            from ..transports._url import ServerURL
        kinds: dict[str, Any] = {"http": ServerURL, "sse": LegacySSE, "websocket": WebSocket}
        url = self.variables.fill(self.url, self._place("url"))
        if self.url is not None and not is_reference(self.url):
            hide_filled(self.url, url)
        options = {"auth": self._auth() if given.get("auth") is None else None, **given}
        options["headers"] = {**self._headers(), **(given.get("headers") or {})} or None
        if self.verify is not True:
            options["verify"] = self.variables.fill(self.verify, self._place("verify"))
        target: Target = kinds[self.kind](url, **options)
        return target

    def _headers(self) -> dict[str, str]:
        found = self._strings(self.headers, self._place("headers"))
        for name, variable in self.env_headers.items():
            found[name] = self.variables.variable(variable, None, self._place("envHttpHeaders").at(name))
        return found

    def _auth(self) -> Any:
        return make_auth(self.auth, self.variables, self._place(self.auth_key))

    def _strings(self, values: Mapping[str, Any], place: Place) -> dict[str, str]:
        return {name: str(self.variables.fill(value, place.at(name))) for name, value in values.items()}

"""The entry of a server, read: every key checked, none of its variables replaced yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, Optional

from .._concurrency.fork import no_fork
from .._protocol.negotiation import check_mode
from .._protocol.versions import TRAITS
from ..errors import UsageError
from ..errors._base import another
from ..options import LONGEST, Timeouts
from ._auth import as_list, check_auth
from ._errors import ConfigError, Place, named_kind
from ._keys import FIELDS, guess, plain, warning_about
from ._server import ServerConfig
from ._variables import Variables

_KINDS = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "https": "http",
    "streamable": "http",
    "streamablehttp": "http",
    "remote": "http",
    "sse": "sse",
    "ws": "websocket",
    "websocket": "websocket",
}
# How VS Code writes what is no address in a network.
_OF_THIS_MACHINE = ("unix:", "npipe:", "pipe:")
# Some hosts count a timeout in seconds, up to an hour, others in milliseconds, from some thousand on.
_MOST_SECONDS = 3600
_TIMEOUTS = ("connect", "probe", "open", "silence", "total", "close")


class Given:
    """The keys of one server: each is taken by its meaning, and known by what was written."""

    def __init__(self, entry: Mapping[str, Any], place: Place) -> None:
        self._place = place
        self._found: dict[str, tuple[str, Any]] = {}
        self._unknown: list[str] = []
        self.warnings: list[str] = []
        for key, value in entry.items():
            name = FIELDS.get(plain(str(key)))
            if name is None:
                about = warning_about(str(key))
                self._unknown.append(str(key))
                if about:
                    self.warnings.append(f"{place.at(str(key))}: {about}")
            elif name in self._found and self._found[name][1] != value:
                raise place.at(str(key)).error(
                    f"this says the same as {self._found[name][0]!r}: give one of them"
                )
            else:
                self._found[name] = (str(key), value)

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def place(self, name: str) -> Place:
        """Return the place of what has this meaning."""
        return self._place.at(self._found[name][0] if name in self._found else name)

    def guess(self, *names: str) -> str:
        """Return what to add to an error because keys with one of these meanings may be misspelt."""
        guesses = ((key, guess(key, FIELDS)) for key in self._unknown)
        close = [
            f"did you mean {each!r} by {key!r}?" for key, each in guesses if FIELDS.get(each or "") in names
        ]
        return f"; {close[0]}" if close else ""

    def take(self, name: str, default: Any, fits: Callable[[Any], bool], wanted: str) -> Any:
        """Return a value that was given, or the default.

        Raises:
            ConfigError: It is not what is wanted. The error does not show it.
        """
        value = self._found[name][1] if name in self._found else None
        if value is None:
            return default
        if not fits(value):
            given = named_kind(value)
            # A number that is too small, a list of other things: what is wanted says it all.
            more = "" if wanted.startswith(given) else f", not {given}"
            raise self.place(name).error(f"this must be {wanted}{more}")
        return value

    def text(self, name: str) -> Optional[str]:
        """Return a string that is not empty."""
        found: Optional[str] = self.take(
            name, None, lambda value: isinstance(value, str) and bool(value), "a string that is not empty"
        )
        return found

    def words(self, name: str) -> Optional[tuple[str, ...]]:
        """Return a list of strings; numbers are written out."""
        found = self.take(name, None, _is_words, "a list of strings")
        return None if found is None else tuple(map(str, found))

    def table(self, name: str) -> dict[str, Any]:
        """Return names with strings; other plain values are written out, and ``null`` leaves one out."""
        found = self.take(name, {}, _is_table, "an object with strings")
        return {key: _written(value) for key, value in found.items() if value is not None}

    def flag(self, name: str, default: bool) -> bool:
        """Return a truth value."""
        return bool(self.take(name, default, lambda value: isinstance(value, bool), "true or false"))

    def seconds(self, name: str) -> Optional[float]:
        """Return a number above 0."""
        found: Optional[float] = self.take(name, None, _is_positive, "a number above 0 that a clock can wait")
        return found


def is_extension(entry: Any) -> bool:
    """Whether an entry only has settings for what an extension of Zed starts."""
    if not isinstance(entry, Mapping):
        return False
    keys = {plain(str(key)) for key in entry}
    return keys <= {"source", "enabled", "settings"} and (
        "settings" in keys or entry.get("source") == "extension"
    )


def read_entry(
    name: str, entry: Any, file: Optional[str], variables: Variables
) -> tuple[ServerConfig, list[str]]:
    """Return the server that an entry describes, and warnings about it.

    Raises:
        ConfigError: It describes none.
    """
    place = Place(file, name)
    if not name.strip():
        raise place.error("the name of a server must not be empty")
    if not isinstance(entry, Mapping):
        raise place.error(f"this must be an object, not {named_kind(entry)}")
    given = Given(_flat(entry), place)
    command, args = _command(given)
    auth_key, auth = _auth(given)
    given.warnings += check_auth(auth, place.at(auth_key))
    timeout, timeouts = _times(given)
    server = ServerConfig(
        name=name,
        kind=_kind(given, command, place),
        command=command,
        args=args,
        env=given.table("env"),
        env_file=given.text("env_file"),
        env_vars=given.words("env_vars") or (),
        cwd=given.text("cwd"),
        inherit_env=_inherited(given),
        url=given.text("url"),
        headers=given.table("headers"),
        env_headers=given.table("env_headers"),
        verify=given.take(
            "verify", True, lambda value: isinstance(value, (bool, str)), "true, false or a path"
        ),
        auth=auth,
        auth_key=auth_key,
        timeout=timeout,
        timeouts=timeouts,
        mode=_mode(given),
        disabled=given.flag("disabled", False) or not given.flag("enabled", True),
        allow=_patterns(given, "allow"),
        deny=_patterns(given, "deny") or (),
        file=file,
        variables=variables,
    )
    given.warnings += _misplaced(given, server)
    return server, given.warnings


def broken_entry(name: str, entry: Any, fault: ConfigError, variables: Variables) -> ServerConfig:
    """Return what stands for a server whose entry cannot be so.

    Args:
        name: Its name.
        entry: What was written.
        fault: What is wrong with that.
        variables: As for `read_entry`.
    """
    written = {plain(str(key)): value for key, value in entry.items()} if isinstance(entry, Mapping) else {}
    return ServerConfig(
        name=name,
        kind="broken",
        disabled=written.get("disabled") is True or written.get("enabled") is False,
        # Without the traceback, which holds what was written.
        fault=another(fault),
        file=fault.file,
        variables=variables,
    )


def _flat(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an entry in the form of today: older versions of Zed keep all of a command in one object."""
    command = entry.get("command")
    if not isinstance(command, Mapping) or "path" not in command:
        return entry
    inner = {"command" if key == "path" else key: value for key, value in command.items()}
    return {**{key: value for key, value in entry.items() if key != "command"}, **inner}


def _command(given: Given) -> tuple[Optional[str], tuple[str, ...]]:
    """Return the command and its arguments, which some hosts write as one list."""
    args = given.words("args") or ()
    command = given.take("command", None, lambda value: bool(value) and _is_command(value), "a string")
    if command is None or isinstance(command, str):
        return command, args
    first, *rest = command
    return first, (*rest, *args)


def _kind(given: Given, command: Optional[str], place: Place) -> str:
    said = given.text("type")
    kind = None if said is None else _KINDS.get(plain(said))
    if said is not None and kind is None:
        raise given.place("type").error("this must be stdio, http, sse or ws")
    has_url = "url" in given
    if command is not None and has_url:
        raise place.error("there is a command and a URL: give one of them")
    if command is None and not has_url:
        raise place.error(f"there is neither a command nor a URL{given.guess('command', 'url')}")
    url = (given.text("url") or "").lower()
    if url.startswith(_OF_THIS_MACHINE):
        raise given.place("url").error(
            "sockets (unix:) and pipes (npipe:) of this machine are not supported: "
            "the server must listen at a URL with http or https"
        )
    if kind is None:
        kind = "stdio" if command else "websocket" if url.startswith(("ws://", "wss://")) else "http"
    if (kind == "stdio") is has_url:
        raise given.place("type").error(f"it does not go with a {'URL' if has_url else 'command'}")
    return kind


def _times(given: Given) -> tuple[Optional[float], Timeouts]:
    timeout = given.seconds("timeout")
    if timeout is not None and timeout > _MOST_SECONDS:
        timeout /= 1000
    if "timeout_seconds" in given:
        timeout = given.seconds("timeout_seconds")
    bounds: dict[str, Any] = {}
    opening = given.seconds("open_seconds")
    if opening is not None:
        bounds["open"] = opening
    place = given.place("timeouts")
    for key, value in given.take(
        "timeouts", {}, lambda value: isinstance(value, Mapping), "an object"
    ).items():
        name = plain(str(key))
        if name not in _TIMEOUTS:
            raise place.at(str(key)).error(f"there are only {', '.join(_TIMEOUTS)}")
        if value is not None and not _is_positive(value):
            raise place.at(str(key)).error(
                "this must be a number of seconds above 0 that a clock can wait, or null for no bound"
            )
        bounds[name] = value
    return timeout, Timeouts(**bounds)


def _auth(given: Given) -> tuple[str, Any]:
    """Return what was said about authorization in one form, and the key of it."""
    if "bearer_variable" in given:
        name = given.text("bearer_variable")
        return given.place("bearer_variable").key or "", {"type": "bearer", "tokenEnv": name}
    if "bearer_token" in given:
        return given.place("bearer_token").key or "", {"type": "bearer", "token": given.text("bearer_token")}
    for name in ("oauth", "auth"):
        value = given.take(name, None, lambda value: isinstance(value, (bool, str, Mapping)), "an object")
        if value is None:
            continue
        scopes = as_list(given.take("scopes", None, _is_words, "a list of strings"), given.place("scopes"))
        if scopes and isinstance(value, Mapping):
            value = {"scopes": scopes, **value}
        return given.place(name).key or "", value
    return "auth", None


def _inherited(given: Given) -> str:
    found = given.text("inherit_env")
    if found is None:
        return "base"
    with no_fork():
        from ..transports._stdio.launch import INHERIT
    if found not in INHERIT:
        raise given.place("inherit_env").error(f"this must be one of {', '.join(INHERIT)}")
    return found


def _mode(given: Given) -> Optional[str]:
    mode = given.text("mode")
    try:
        check_mode(mode if mode is not None else "auto")
    except UsageError:
        # Its own words show what was written.
        problem = f'this must be "auto", "legacy" or one of {", ".join(TRAITS)}'
        raise given.place("mode").error(problem) from None
    return mode


def _patterns(given: Given, name: str) -> Optional[tuple[str, ...]]:
    found = given.take(name, None, lambda value: value == "*" or _is_words(value), "a list of names")
    return None if found is None else ("*",) if found == "*" else tuple(map(str, found))


def _misplaced(given: Given, server: ServerConfig) -> Iterator[str]:
    """Give warnings about keys that mean nothing to a server of this kind."""
    of_a_url = ("headers", "env_headers", "verify", "auth", "oauth", "bearer_token", "bearer_variable")
    of_a_command = ("args", "env", "env_file", "env_vars", "cwd", "inherit_env")
    is_process = server.kind == "stdio"
    for name in of_a_url if is_process else of_a_command:
        if name in given and given.take(name, None, lambda value: True, ""):
            yield f"{given.place(name)}: it means nothing beside a {'command' if is_process else 'URL'}"


def _is_words(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    return is_list and all(isinstance(each, (str, int, float)) for each in value)


def _is_command(value: Any) -> bool:
    return isinstance(value, str) or (_is_words(value) and all(isinstance(each, str) for each in value))


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and (each is None or isinstance(each, (str, int, float)))
        for key, each in value.items()
    )


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_positive(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and 0 < value <= LONGEST

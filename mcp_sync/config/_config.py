"""All servers of one configuration."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, Optional, Union

from .._concurrency.deadline import Deadline
from .._files import PATIENCE
from ..errors import UsageError
from ..options import check_seconds
from ._entries import broken_entry, is_extension, read_entry
from ._errors import ConfigError, Place
from ._keys import plain
from ._reading import FRAMES, Origin, as_path, find_servers, local_servers, origin_of, read_file
from ._server import ServerConfig
from ._variables import Inputs, Variables

logger = logging.getLogger("mcp_sync.config")


@dataclass(frozen=True, repr=False)
class Config:
    """The servers of a configuration. ``config["name"]`` is one of them.

    Attributes:
        servers: By name, in their order.
        file: Where they come from, ``None`` for a mapping.
        warnings: What was ignored, each with file, server and key. It was logged, too.
    """

    servers: Mapping[str, ServerConfig] = field(hash=False)
    file: Optional[str] = None
    warnings: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> ServerConfig:
        server = self.servers.get(name)
        if server is None:
            raise ConfigError(unknown_server(name, self.servers, self.file), file=self.file)
        return server

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (dict(self.servers), self.file, self.warnings)

    def __repr__(self) -> str:
        return f"<Config {self.file or 'of a mapping'}: {', '.join(self.servers) or 'no servers'}>"

    def to_json(self) -> dict[str, Any]:
        """Return what there is to see of it, with ``***`` for whatever may be a secret."""
        return {"mcpServers": {name: server.to_json() for name, server in self.servers.items()}}

    def check(self) -> list[ConfigError]:
        """Return what keeps servers that are not disabled from being used: an entry, or a variable."""
        found = []
        for server in self.servers.values():
            try:
                if not server.disabled:
                    server.check()
            except ConfigError as error:
                found.append(error)
        return found


def _rebuilt(servers: dict[str, ServerConfig], file: Optional[str], warnings: tuple[str, ...]) -> Config:
    return Config(MappingProxyType(servers), file, warnings)


def unknown_server(name: Any, known: Mapping[str, Any], file: Optional[str] = None) -> str:
    """Return what to say of a name that no server has."""
    close = difflib.get_close_matches(name, known, 1) if isinstance(name, str) else []
    hint = f"; did you mean {close[0]!r}?" if close else "."
    listed = ", ".join(known) or "none"
    return f"{file or 'the configuration'}: there is no server {name!r}{hint} Known: {listed}"


def load_config(
    source: Union[str, PathLike[str], Mapping[str, Any]],
    *,
    inputs: Inputs = None,
    timeout: Optional[float] = PATIENCE,
) -> Config:
    """Read servers from a file or a mapping, as the hosts write them.

    ``mcpServers`` (Claude Desktop, Claude Code, Cursor, Windsurf, Cline, Gemini CLI, Copilot), ``servers``
    and ``inputs`` (VS Code), ``context_servers`` (Zed), or ``mcp_servers`` in TOML (Codex). A mapping may be
    that of the servers itself, by name. Keys may be written in any style. What is unknown is ignored with a
    warning, and so are servers that only an extension of the host can start.

    In all strings ``${NAME}`` and ``${env:NAME}`` are a variable of the environment, ``${NAME:-default}`` is
    one that may be missing, ``${file:path}`` is the content of a file, ``${input:id}`` a value of ``inputs``,
    and ``$${`` stands for ``${``. They are replaced when a server is used, not before. An entry that cannot
    be so (a value of the wrong type, say) is an error only then, too, and harms no other: see `Config.check`.

    ``.claude.json`` has the servers of the user, and those that Claude Code keeps there for the project in
    whose folder this process runs; the latter win.

    Paths are relative to the folder of the file, or to that of the project if it lies in one for a host
    (``.vscode``). A ``timeout`` up to 3600 is in seconds, above it in milliseconds.

    Args:
        source: The path of a file, or a mapping.
        inputs: The values of ``${input:id}``, by id, or ``f(declaration)``, which returns one, ``None`` for
            the default that is declared.
        timeout: How many seconds a file that is a pipe may take until it ends; ``None`` for no bound.

    Raises:
        ConfigError: It cannot be read, or there are no servers in it. Names the file, and line and column
            where they are known.
    """
    config = read_config(source, inputs, timeout)
    for warning in config.warnings:
        logger.warning("%s", warning)
    return config


def read_config(
    source: Union[str, PathLike[str], Mapping[str, Any]],
    inputs: Inputs = None,
    timeout: Optional[float] = PATIENCE,
) -> Config:
    """Do what `load_config` does, but log no warning."""
    if not (inputs is None or isinstance(inputs, Mapping) or callable(inputs)):
        raise UsageError(f"inputs must be a mapping or a function, not {type(inputs).__name__}")
    check_seconds("timeout", timeout)
    if isinstance(source, Mapping):
        origin, found = Origin(None, str(Path.cwd())), source
        is_table = _is_table_of_servers(source)
        entries = source if is_table else find_servers(source, Place())
        in_project: tuple[str, Mapping[str, Any]] = ("", {})
    else:
        path = as_path(source)
        origin, found = origin_of(path), read_file(path, Deadline(timeout))
        entries = find_servers(found, Place(origin.file))
        in_project = local_servers(found, path)
    variables = Variables(origin.folder, origin.bare_variables, _declared(found), inputs)
    described = {name: (entry, variables) for name, entry in entries.items()}
    folder, local = in_project
    # Those of the project win.
    described.update({name: (entry, replace(variables, folder=folder)) for name, entry in local.items()})
    return _build(described, origin.file)


def _is_table_of_servers(source: Mapping[str, Any]) -> bool:
    """Whether entries look like servers: for settings in Python, which need no frame."""

    def is_server(entry: Any) -> bool:
        keys = {str(key).replace("_", "").lower() for key in entry} if isinstance(entry, Mapping) else set()
        return bool(keys & {"command", "url", "httpurl", "serverurl"})

    has_frame = any(plain(str(key)) in FRAMES for key in source)
    return not source or (not has_frame and any(map(is_server, source.values())))


def _declared(found: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the inputs that a file of VS Code declares, by id."""
    inputs = found.get("inputs")
    if not isinstance(inputs, (list, tuple)):
        return {}
    return {str(each.get("id")): each for each in inputs if isinstance(each, Mapping)}


def _build(entries: Mapping[str, tuple[Any, Variables]], file: Optional[str]) -> Config:
    servers, warnings = {}, []
    for name, (entry, variables) in entries.items():
        if is_extension(entry):
            warnings.append(f"{Place(file, str(name))}: left out, since an extension of the host starts it")
            continue
        try:
            servers[str(name)], found = read_entry(str(name), entry, file, variables)
            warnings += found
        except ConfigError as fault:
            servers[str(name)] = broken_entry(str(name), entry, fault, variables)
    return Config(MappingProxyType(servers), file, tuple(warnings))

"""Files with servers: read, and told apart by the host that they are for."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

from .._concurrency.deadline import Deadline
from .._files import PATIENCE, read_bytes
from ._errors import ConfigError, Place, named_kind
from ._json import at, read_json
from ._keys import plain

# Far above any file that a person has written, and far below what hurts.
_LARGEST = 16 * 1024 * 1024
_LARGEST_NAMED = 1024 * 1024
# Folders in which a host keeps its settings of a project.
_HOST_FOLDERS = (".vscode", ".cursor", ".gemini", ".claude", ".codex", ".idea", ".kiro", ".roo", ".zed")
# The file in which Claude Code keeps servers of the user and of projects, beside much else.
CLAUDE_CODE = ".claude.json"
# The keys of the object that has the servers, by their letters alone.
FRAMES = ("mcpservers", "servers", "contextservers")
# Hosts that take comments in their JSON.
_WITH_COMMENTS = (".vscode", ".gemini", ".zed", "zed", "Zed")


class Origin(NamedTuple):
    """Where a configuration comes from.

    Attributes:
        file: The file, ``None`` for a mapping.
        folder: The folder that relative paths in it are relative to: that of the project.
        bare_variables: Whether ``$NAME`` stands for a variable, too, as it does for the Gemini CLI.
    """

    file: Optional[str]
    folder: str
    bare_variables: bool = False


def origin_of(path: Path) -> Origin:
    """Tell from the path of a file what its host takes for granted."""
    folder = path.parent
    if folder.name in _HOST_FOLDERS:
        return Origin(str(path), str(folder.parent), folder.name == ".gemini")
    return Origin(str(path), str(folder))


def read_file(path: Path, deadline: Deadline) -> dict[str, Any]:
    """Read a file, TOML if it is called so, else JSON.

    Raises:
        ConfigError: It cannot be read.
    """
    file = str(path)
    try:
        data = read_bytes(path, _LARGEST + 1, deadline)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or type(error).__name__}", file=file) from error
    if len(data) > _LARGEST:
        raise ConfigError(f"{file}: larger than {_LARGEST} bytes", file=file)
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8, at byte {error.start}", file=file) from None
    found = _toml(text, file) if path.suffix.lower() == ".toml" else _json(text, path)
    if not isinstance(found, dict):
        raise ConfigError(f"{file}: this must be an object, not {named_kind(found)}", file=file)
    return found


def read_named(path: Path, name: str, place: Place) -> str:
    """Read a file that a configuration names.

    Args:
        path: The file.
        name: How it is named there.
        place: Where.

    Raises:
        ConfigError: It cannot be read, or is no text, or too large.
    """
    try:
        data = read_bytes(path, _LARGEST_NAMED + 1, Deadline(PATIENCE))
        text = data.decode().removeprefix("\ufeff")
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or "it is no text"
        raise place.error(f"the file {name} cannot be read: {problem}") from None
    if len(data) > _LARGEST_NAMED:
        raise place.error(f"the file {name} is larger than {_LARGEST_NAMED} bytes")
    return text


def _json(text: str, path: Path) -> Any:
    file = str(path)
    if not text.strip():
        raise ConfigError(f"{file}: the file is empty", file=file)
    value, oddity = read_json(text, file)
    takes_comments = path.suffix.lower() == ".jsonc" or path.parent.name in _WITH_COMMENTS
    if oddity is None or takes_comments or (isinstance(value, dict) and is_vs_code(value)):
        return value
    raise at(
        text,
        oddity.offset,
        file,
        f"{oddity.kind}, which JSON does not have (name the file .jsonc to allow it)",
    )


def _toml(text: str, file: str) -> Any:
    library = _toml_library(file)
    try:
        return library.loads(text)
    except (library.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{file}: this is no TOML: {error}", file=file) from None


def _toml_library(file: str) -> Any:
    for name in ("tomllib", "tomli"):
        try:
            return importlib.import_module(name)
        except ImportError:
            pass
    problem = "before Python 3.11, TOML needs the extra toml: pip install mcp-sync-client[toml]"
    raise ConfigError(f"{file}: {problem}", file=file)


def is_vs_code(found: Mapping[str, Any]) -> bool:
    """Whether it has the shape of VS Code's own file."""
    return isinstance(found.get("servers"), Mapping) and "mcpServers" not in found


def find_servers(found: Mapping[str, Any], place: Place) -> Mapping[str, Any]:
    """Return the entries of the servers, by name.

    Raises:
        ConfigError: There is no place where servers could be.
    """
    by_key = {plain(name): value for name, value in found.items() if isinstance(name, str)}
    # VS Code's settings.json keeps them one level below.
    inner = by_key.get("mcp")
    if isinstance(inner, Mapping) and "mcpservers" not in by_key and "servers" not in by_key:
        return find_servers(inner, place)
    for key in FRAMES:
        if key in by_key:
            servers = by_key[key]
            if not isinstance(servers, Mapping):
                raise place.error(f"the servers must be an object, not {named_kind(servers)}")
            return servers
    if place.file is not None and Path(place.file).name == CLAUDE_CODE:
        # It is there whether anybody uses servers or not.
        return {}
    keys = ", ".join(sorted(map(str, found))[:10]) or "nothing at all"
    raise place.error(f"there is neither mcpServers nor servers in it, but {keys}")


def local_servers(found: Mapping[str, Any], path: Path) -> tuple[str, Mapping[str, Any]]:
    """Return the servers that Claude Code keeps for one project in ``.claude.json``.

    The project is the folder in which this process runs, or that of the repository of git that it is in.

    Returns:
        The folder of the project, and the entries of its servers, by name.

    Raises:
        ConfigError: They have a form that the host does not write.
    """
    projects = found.get("projects") if path.name == CLAUDE_CODE else None
    if isinstance(projects, Mapping):
        for folder in _project_folders():
            project = projects.get(folder.as_posix(), projects.get(str(folder)))
            servers = project.get("mcpServers") if isinstance(project, Mapping) else None
            if servers:
                if isinstance(servers, Mapping):
                    return str(folder), servers
                kind = named_kind(servers)
                raise Place(str(path)).error(f"the servers of {folder} must be an object, not {kind}")
    return "", {}


def _project_folders() -> Iterator[Path]:
    here = Path.cwd()
    yield here
    root = next((each for each in here.parents if (each / ".git").exists()), None)
    if root is not None and not (here / ".git").exists():
        yield root


def as_path(path: Any) -> Path:
    """Return the absolute path of a file.

    Raises:
        ConfigError: It is no path.
    """
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes):
        kind = type(path).__name__
        raise ConfigError(f"a configuration is the path of a file, or a mapping, not {kind}")
    if str(path).lstrip().startswith("{"):
        raise ConfigError("a configuration is the path of a file, or a mapping; parse JSON text before")
    return Path(path).expanduser().absolute()

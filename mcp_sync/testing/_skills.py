"""Skills of the fake server: files that are resources, and entries that list them with their digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from . import _extensions, _pages
from ._catalog import FakeResource
from ._rpc import INVALID_PARAMS, METHOD_NOT_FOUND, Message, RpcError

if TYPE_CHECKING:
    from ._exchange import Exchange
    from ._server import FakeServer

SKILL_FILE = "SKILL.md"
_DIRECTORY = "inode/directory"


@dataclass(frozen=True)
class FakeSkill:
    """A skill; made by `FakeServer.add_skill`, whose arguments these are.

    Attributes:
        root: The URI of its folder.
        frontmatter: What stands at the head of its ``SKILL.md``.
        files: What it consists of, by paths below the root.
        listed: Whether ``skills/list`` shows it.
        dynamic: Whether its entry has no digests.
        alter: Changes what ``skills/list`` and ``skills/get`` say about it, for entries that are wrong.
    """

    root: str
    frontmatter: Mapping[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)
    listed: bool = True
    dynamic: bool = False
    alter: Optional[Callable[[Message], Message]] = None

    @property
    def uri(self) -> str:
        """The URI of its ``SKILL.md``, by which it is known."""
        return f"{self.root}/{SKILL_FILE}"

    def resources(self) -> dict[str, FakeResource]:
        """Return its files as resources, by their URIs."""
        return {f"{self.root}/{path}": self._resource(path, data) for path, data in self.files.items()}

    def _resource(self, path: str, data: bytes) -> FakeResource:
        import mimetypes  # Takes its time, and a server that starts quickly has no use for it.

        mime_type = mimetypes.guess_type(path)[0]
        if path == SKILL_FILE:
            described = {"description": self.frontmatter["description"]}
            return FakeResource(data.decode(), str(self.frontmatter["name"]), "text/markdown", described)
        try:
            return FakeResource(data.decode(), mime_type=mime_type)
        except UnicodeDecodeError:
            return FakeResource(data, mime_type=mime_type)


def make(
    path: str,
    text: str,
    description: str,
    files: Mapping[str, Union[str, bytes]],
    frontmatter: Mapping[str, Any],
    **options: Any,
) -> FakeSkill:
    """Make a skill; see `FakeServer.add_skill`."""
    root = path if "://" in path else f"skill://{path}"
    head = {"name": root.rsplit("/", 1)[-1], "description": description, **frontmatter}
    # JSON is YAML, too.
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
    written = "\n".join(["---", *lines, "---", "", text, ""])
    contents = {SKILL_FILE: written, **files}
    encoded = {
        name: data.encode() if isinstance(data, str) else bytes(data) for name, data in contents.items()
    }
    return FakeSkill(root, head, encoded, **options)


# --- methods ---------------------------------------------------------------------------------------------


def list_skills(exchange: Exchange) -> Message:
    """List the skills that are to be listed."""
    _extensions.require_offered(exchange, _extensions.SKILLS)
    server = exchange.connection.server
    entries = [_entry(server, skill) for skill in server.skills.values() if skill.listed]
    return _pages.page(exchange, "skills", entries)


def get_skill(exchange: Exchange) -> Message:
    """Return the entry of one skill, listed or not."""
    _extensions.require_offered(exchange, _extensions.SKILLS)
    server = exchange.connection.server
    uri = exchange.params.get("uri")
    skill = server.skills.get(str(uri))
    if skill is None:
        raise RpcError(INVALID_PARAMS, f"No skill is served at {uri}")
    return {"skill": _entry(server, skill)}


def _entry(server: FakeServer, skill: FakeSkill) -> Message:
    entry: Message = {"uri": skill.uri, "frontmatter": dict(skill.frontmatter)}
    entry["resources"] = "dynamic" if skill.dynamic else _manifest(server, skill)
    return entry if skill.alter is None else skill.alter(entry)


def _manifest(server: FakeServer, skill: FakeSkill) -> list[Message]:
    # The files of a skill inside another one are files of both.
    return [
        {"uri": uri, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}
        for uri, data in _files(server).items()
        if uri.startswith(f"{skill.root}/")
    ]


def _files(server: FakeServer) -> dict[str, bytes]:
    return {
        f"{skill.root}/{path}": data for skill in server.skills.values() for path, data in skill.files.items()
    }


def read_directory(exchange: Exchange) -> Message:
    """List what is directly in a folder of a skill."""
    server = exchange.connection.server
    settings = _extensions.offered(server).get(_extensions.SKILLS) or {}
    if not settings.get("directoryRead"):
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {exchange.method}")
    uri = str(exchange.params.get("uri"))
    is_inside = any(uri == skill.root or uri.startswith(f"{skill.root}/") for skill in server.skills.values())
    below = [known[len(uri) + 1 :] for known in _files(server) if known.startswith(f"{uri}/")]
    if not below or not is_inside:
        raise RpcError(INVALID_PARAMS, f"{uri} is not a directory resource")
    names = list(dict.fromkeys(path.partition("/")[:2] for path in below))
    children = [_child(server, f"{uri}/{name}", name, bool(slash)) for name, slash in names]
    return _pages.page(exchange, "resources", children)


def _child(server: FakeServer, uri: str, name: str, is_folder: bool) -> Message:
    if is_folder:
        return {"uri": uri, "name": name, "mimeType": _DIRECTORY}
    return server.resources[uri].wire(uri)

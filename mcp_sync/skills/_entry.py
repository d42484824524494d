"""Skills as a server describes them: the entries of ``skills/list`` and ``skills/get``, checked."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn, Optional

from ..errors import SkillRejected
from ._paths import SKILL_FILE, Unsafe, decoded, path_below

_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_LONGEST_NAME = 64
# What every reader of JSON takes for the same whole number (RFC 8259, section 6).
_LARGEST = 2**53 - 1


@dataclass(frozen=True)
class SkillFile:
    """A file of a skill, as the entry of the skill describes it.

    Attributes:
        path: Where it is below the root of the skill, with slashes.
        uri: Its URI.
        digest: SHA-256 of its bytes, as ``"sha256:..."``.
        size: How many bytes it has.
    """

    path: str
    uri: str
    digest: str
    size: int


@dataclass(frozen=True)
class Skill:
    """A skill as its server describes it, from ``client.skills``. Nothing of it has been fetched yet.

    It belongs to its server: two servers may have skills with the same URI, and one server several with the
    same name. All of it is untrusted; what ``front_matter`` asks for (``allowed-tools``, say) is a wish, no
    grant.

    Attributes:
        uri: The URI of its ``SKILL.md``, by which it is known.
        name: Its name, the last part of its folder.
        description: What it is for.
        front_matter: All that stands at the head of its ``SKILL.md``, as JSON values.
        files: Its files by their paths, ``SKILL.md`` among them; ``None`` where its content changes all the
            time (``"dynamic"``), so that nothing can be verified.
    """

    uri: str
    name: str
    description: str
    front_matter: Mapping[str, Any]
    files: Optional[Mapping[str, SkillFile]]

    @property
    def root(self) -> str:
        """The URI of its folder, without a slash at its end."""
        return self.uri[: -len(SKILL_FILE) - 1]

    @property
    def size(self) -> int:
        """How many bytes its files have together; 0 where that is not known."""
        return sum(file.size for file in (self.files or {}).values())

    @property
    def fingerprint(self) -> Optional[str]:
        """A digest of all its files: keep it with a user's approval, and ask again when it is another one.

        ``None`` where the content changes all the time: no approval can be kept for such a skill.
        """
        if self.files is None:
            return None
        lines = sorted(f"{file.uri} {file.digest}\n" for file in self.files.values())
        return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"

    def __hash__(self) -> int:
        return hash(self.uri)

    def __reduce__(self) -> tuple[Any, ...]:
        files = None if self.files is None else dict(self.files)
        return _skill, (self.uri, dict(self.front_matter), files)


def _skill(uri: str, front_matter: Mapping[str, Any], files: Optional[Mapping[str, SkillFile]]) -> Skill:
    name, description = front_matter["name"], front_matter["description"]
    kept = None if files is None else MappingProxyType(dict(files))
    return Skill(uri, name, description, MappingProxyType(dict(front_matter)), kept)


def read_entry(entry: Any) -> Skill:
    """Return the skill that an entry describes.

    Raises:
        SkillRejected: It is not as the specification demands, so that it must not be used.
    """
    uri = entry.get("uri") if isinstance(entry, Mapping) else None
    if not isinstance(uri, str) or not uri:
        raise SkillRejected("the entry of a skill has no uri")
    front_matter = entry.get("frontmatter")
    if not isinstance(front_matter, Mapping):
        _reject(uri, "it has no front matter")
    name, description = front_matter.get("name"), front_matter.get("description")
    if not isinstance(name, str) or not _is_name(name):
        _reject(uri, f"{name!r} is no name of a skill (lower-case letters, digits and single hyphens)")
    if not isinstance(description, str) or not description.strip():
        _reject(uri, "it has no description")
    _check_uri(uri, name)
    return _skill(uri, front_matter, _files(uri, entry.get("resources")))


def _check_uri(uri: str, name: str) -> None:
    scheme, separator, rest = uri.partition("://")
    folders = rest.split("/")
    try:
        last = decoded(folders[-2]) if len(folders) > 1 else ""
    except Unsafe as error:
        _reject(uri, str(error), reason="path")
    if not separator or not scheme or folders[-1] != SKILL_FILE or last != name or "?" in uri or "#" in uri:
        _reject(uri, f"its URI does not end with /{name}/{SKILL_FILE}")


def _files(uri: str, resources: Any) -> Optional[dict[str, SkillFile]]:
    if resources == "dynamic":
        return None
    if not isinstance(resources, list):
        _reject(uri, 'its resources are neither a list nor "dynamic"')
    found: dict[str, SkillFile] = {}
    for resource in resources:
        file = _file(uri, resource)
        if found.setdefault(file.path, file) is not file:
            _reject(uri, "it lists the file twice", path=file.path)
    if SKILL_FILE not in found or found[SKILL_FILE].uri != uri:
        _reject(uri, f"it does not list {SKILL_FILE}")
    return found


def _file(uri: str, resource: Any) -> SkillFile:
    where = resource.get("uri") if isinstance(resource, Mapping) else None
    if not isinstance(where, str):
        _reject(uri, "it lists a file without a uri")
    try:
        path = path_below(uri[: -len(SKILL_FILE) - 1], where)
    except Unsafe as error:
        _reject(uri, str(error), path=where, reason="path")
    digest, size = resource.get("digest"), resource.get("size")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        _reject(
            uri, f"the digest {digest!r:.80} is not sha256: and 64 lower-case hexadecimal digits", path=path
        )
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _LARGEST:
        _reject(uri, f"{size!r:.80} is no size", path=path)
    return SkillFile(path, where, digest, size)


def _is_name(name: str) -> bool:
    letters = name.replace("-", "")
    words = name.split("-")
    return len(name) <= _LONGEST_NAME and all(words) and letters.isalnum() and letters == letters.lower()


def _reject(uri: str, why: str, *, path: str = "", reason: str = "entry") -> NoReturn:
    of_file = f", {path!r:.200}" if path else ""
    text = f"the server's entry of the skill {uri!r:.200}{of_file} must not be used: {why}"
    raise SkillRejected(f"{text}. Tell whoever runs the server", uri=uri, path=path, reason=reason)

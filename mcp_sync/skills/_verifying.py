"""What came of a skill, held against what its entry says."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NoReturn, Optional
from urllib.parse import quote

from .. import types
from ..errors import DigestMismatch, SkillRejected
from ._comparing import differences
from ._entry import Skill, SkillFile
from ._front_matter import Malformed, read_front_matter
from ._paths import Unsafe, check_segments

# What a path of a URI may have as it is (RFC 3986, section 3.3).
_UNQUOTED = "/!$&'()*+,;=:@"


@dataclass(frozen=True)
class SkillContent:
    """A file of a skill, as it was read and verified.

    Attributes:
        path: Where it is below the root of the skill.
        uri: Its URI.
        data: Its bytes.
        mime_type: What the server takes it for.
        verified: Whether it has the digest of the entry; not so where the content changes all the time.
    """

    path: str
    uri: str
    data: bytes
    mime_type: Optional[str]
    verified: bool

    @property
    def text(self) -> str:
        """The bytes as text.

        Raises:
            UnicodeDecodeError: It is no text.
        """
        return self.data.decode("utf-8")


def check_limits(skill: Skill, max_files: int, max_bytes: int) -> None:
    """Refuse a skill that has more than the caller takes, before anything of it is fetched."""
    count = len(skill.files or ())
    if count > max_files:
        reject(skill, f"it has {count} files, and max_files is {max_files}", reason="limits")
    if skill.size > max_bytes:
        reject(skill, f"it has {skill.size} bytes, and max_bytes is {max_bytes}", reason="limits")


def file_of(skill: Skill, path: str) -> SkillFile:
    """Return the file of a path: one that the entry lists, or any one where there is no list."""
    if skill.files is None:
        try:
            check_segments(path.split("/"), path)
            return SkillFile(path, f"{skill.root}/{quote(path, safe=_UNQUOTED)}", "", 0)
        except Unsafe as error:
            reject(skill, str(error), path, "path")
    if path not in skill.files:
        text = "its entry does not list the file. If it is new, get() the skill, and have it approved again"
        reject(skill, text, path, "unlisted")
    return skill.files[path]


def only_content(skill: Skill, path: str, result: types.ReadResourceResult) -> tuple[bytes, Optional[str]]:
    """Return the bytes and the type of the one file that came."""
    contents = result.contents
    if len(contents) != 1:
        reject(skill, f"{len(contents)} pieces came for one file", path, "content")
    piece = contents[0]
    try:
        if isinstance(piece, types.TextResourceContents):
            return piece.text.encode(), piece.mime_type
        if isinstance(piece, types.BlobResourceContents):
            return piece.as_bytes(), piece.mime_type
        raise ValueError("neither text nor blob")
    except ValueError as error:
        reject(skill, f"what came is neither text nor base64 ({error})", path, "content")


def verify(skill: Skill, file: SkillFile, data: bytes) -> None:
    """Refuse a file that has not the size and the digest of the entry."""
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if len(data) != file.size:
        _mismatch(skill, file.path, "size", str(file.size), str(len(data)))
    if digest != file.digest:
        _mismatch(skill, file.path, "digest", file.digest, digest)


def _mismatch(skill: Skill, path: str, reason: str, expected: str, actual: str) -> NoReturn:
    text = (
        f"{path!r:.200} of the skill {skill.uri!r:.200} is not the file that its entry describes: its "
        f"{reason} is {actual} instead of {expected}. If the skill was changed, get() it again, and have it "
        "approved again"
    )
    raise DigestMismatch(text, uri=skill.uri, path=path, reason=reason, expected=expected, actual=actual)


def check_front_matter(skill: Skill, content: SkillContent) -> None:
    """Refuse a ``SKILL.md`` whose front matter is not that of the entry, field by field."""
    try:
        found = read_front_matter(content.data.decode("utf-8"))
        different = differences(found, dict(skill.front_matter))
    except (Malformed, UnicodeDecodeError) as error:
        reject(skill, f"its front matter cannot be read: {error}", content.path, "front matter")
    if different:
        names = ", ".join(different[:5])
        reject(
            skill, f"its front matter differs from its entry in {names:.200}", content.path, "front matter"
        )


def reject(skill: Skill, why: str, path: str = "", reason: str = "entry") -> NoReturn:
    """Raise `SkillRejected`, with the skill and the file named."""
    of_file = f"{path!r:.200} of " if path else ""
    text = f"{of_file}the skill {skill.uri!r:.200} is not to be used: {why}"
    raise SkillRejected(text, uri=skill.uri, path=path, reason=reason)

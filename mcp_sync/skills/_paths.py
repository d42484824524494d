"""Paths of a skill's files: where a URI points to, and which names any file system can take."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Optional
from urllib.parse import unquote

SKILL_FILE = "SKILL.md"
_LONGEST_NAME = 255
_LONGEST_PATH = 1024
_BROKEN_ESCAPE = re.compile("%(?![0-9a-fA-F]{2})")
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\/]')
_RESERVED = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])(?: *\..*)?",
    re.IGNORECASE | re.DOTALL,
)


class Unsafe(ValueError):
    """A path that is not to be used. The message says why."""


def path_below(root: str, uri: str) -> str:
    """Return the path of a file of a skill, from its URI.

    Args:
        root: The URI of the skill's folder, without a slash at its end.
        uri: The URI of the file.

    Raises:
        Unsafe: It does not lie in the folder.
    """
    if not uri.startswith(f"{root}/"):
        raise Unsafe(f"{uri!r} does not lie in the folder of the skill")
    if "?" in uri or "#" in uri:
        raise Unsafe(f"{uri!r} has a query or a fragment")
    segments = [decoded(segment) for segment in uri[len(root) + 1 :].split("/")]
    check_segments(segments, uri)
    return "/".join(segments)


def decoded(segment: str) -> str:
    """Return a part of a URI without its escapes.

    Raises:
        Unsafe: An escape is broken.
    """
    if _BROKEN_ESCAPE.search(segment):
        raise Unsafe(f"{segment[:60]!r} has a broken escape")
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError as error:
        raise Unsafe(f"{segment[:60]!r} has escapes that are no UTF-8") from error


def check_segments(segments: Iterable[str], shown: str) -> None:
    """Refuse a path that may lead out of its folder on some system.

    Raises:
        Unsafe: It may.
    """
    for segment in segments:
        if segment in ("", ".", "..") or "/" in segment or "\\" in segment or "\x00" in segment:
            raise Unsafe(f"{shown[:120]!r} may lead out of the folder of the skill")


def check_names(paths: Iterable[str]) -> None:
    """Refuse paths that not every file system can hold, side by side.

    Raises:
        Unsafe: Some system takes a name for something else, or two names for one.
    """
    kinds: dict[str, tuple[str, bool]] = {}
    for path in paths:
        segments = path.split("/")
        for segment in segments:
            fault = _fault_of(segment)
            if fault:
                raise Unsafe(f"{path[:120]!r}: {fault}")
        if len(path.encode("utf-8", "replace")) > _LONGEST_PATH:
            raise Unsafe(f"{path[:60]!r}... is longer than {_LONGEST_PATH} bytes")
        for length in range(1, len(segments) + 1):
            part, is_file = "/".join(segments[:length]), length == len(segments)
            known = kinds.setdefault(_folded(part), (part, is_file))
            if known != (part, is_file) or (is_file and known[0] != path):
                raise Unsafe(f"{path[:120]!r} and {known[0][:120]!r} are the same file on some systems")


def _fault_of(name: str) -> Optional[str]:
    if _FORBIDDEN.search(name):
        return "it has a character that names of files cannot have everywhere"
    if name[-1] in " .":
        return "a name ends with a space or a dot, which Windows drops"
    if _RESERVED.fullmatch(name):
        return "Windows takes the name for a device"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "it has half a character"
    return f"a name is longer than {_LONGEST_NAME} bytes" if size > _LONGEST_NAME else None


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())

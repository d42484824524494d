"""Names of files for what servers send: safe on every system, and true to the MIME type."""

from __future__ import annotations

import mimetypes
import re
import unicodedata
from typing import Optional
from urllib.parse import unquote, urlsplit

__all__ = ["file_name", "name_of_uri"]

_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\/]')
_RESERVED = re.compile(
    "(?:con|prn|aux|nul|conin[$]|conout[$]|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])(?: *[.].*)?",
    re.IGNORECASE | re.DOTALL,
)
_LONGEST = 120
# What may stay at the end of a name when the server does not say what it is.
_HARMLESS = (".txt", ".md", ".csv", ".json", ".log", ".yaml", ".toml")
_KNOWN = {
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "image/svg+xml": ".svg",
    "image/avif": ".avif",
    "audio/wav": ".wav",
    "audio/x-wav": ".wav",
    "audio/wave": ".wav",
    "audio/mpeg": ".mp3",
    "audio/mp3": ".mp3",
    "audio/ogg": ".ogg",
    "audio/flac": ".flac",
    "audio/mp4": ".m4a",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/yaml": ".yaml",
    "application/yaml": ".yaml",
    "application/octet-stream": ".bin",
}
# Not the tables of the system: the same name everywhere.
_TYPES = mimetypes.MimeTypes()


def name_of_uri(uri: str) -> str:
    """Return the last part of a URI's path, or its host, without escapes; empty if there is neither."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    path = unquote(parts.path).replace("\\", "/").rstrip("/")
    return path.rsplit("/", 1)[-1] or unquote(parts.netloc)


def file_name(wish: str, mime_type: Optional[str], is_text: bool) -> str:
    """Return a name for a file.

    Args:
        wish: What a server calls it, or what stands for that.
        mime_type: What it says that it is.
        is_text: Whether it is text.
    """
    name = _safe(wish)
    kind = (mime_type or "").split(";")[0].strip().lower()
    dot = name.rfind(".")
    suffix = name[dot:].lower() if dot > 0 else ""
    if suffix and suffix in _suffixes(kind, is_text):
        return name
    return name + _suffixes(kind, is_text)[0]


def _suffixes(kind: str, is_text: bool) -> list[str]:
    """Return how names of a kind may end; the first is the usual one."""
    if not kind:
        return list(_HARMLESS) if is_text else [".bin"]
    found = _TYPES.guess_all_extensions(kind)
    usual = _KNOWN.get(kind) or _TYPES.guess_extension(kind) or (".txt" if is_text else ".bin")
    return [usual, *found]


def _safe(wish: str) -> str:
    text = unicodedata.normalize("NFC", wish.encode("utf-8", "replace").decode("utf-8"))
    # Marks that turn the direction of writing show a name as another one.
    shown = "".join("_" if unicodedata.category(char) in ("Cf", "Cc", "Zl", "Zp") else char for char in text)
    name = _FORBIDDEN.sub("_", shown).strip(" .")
    name = name.encode("utf-8")[:_LONGEST].decode("utf-8", "ignore").strip(" .")
    return f"_{name}" if not name or _RESERVED.fullmatch(name) else name

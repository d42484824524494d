"""Tasks, skills and apps."""

from __future__ import annotations

from typing import Any

from ._base import UsageError
from ._printable import printable
from ._protocol import ProtocolError
from ._remote import RemoteError


class TaskGone(RemoteError):
    """The server does not know the task (any more): its time is over, or it never was one of this server.

    Attributes:
        task_id: The id of the task.
        code: That of the server's answer.
        message: The server's words.
    """

    def __init__(self, code: int, message: str, data: Any = None, *, task_id: str = "") -> None:
        super().__init__(code, message, data)
        self.task_id = task_id

    def __str__(self) -> str:
        task = printable(self.task_id or "")
        return f"the server does not know the task {task} (any more): {super().__str__()}"


class InvalidHandle(UsageError):
    """What was kept of a task does not fit this client. Nothing was sent.

    Attributes:
        reason: ``"malformed"`` (no handle), ``"version"`` (of another version of this library),
            ``"server"`` or ``"principal"`` (made for another one).
    """

    def __init__(self, message: str, *, reason: str = "malformed") -> None:
        super().__init__(message)
        self.reason = reason


class SkillRejected(ProtocolError):
    """What the server says or sends of a skill is not to be used. The message says why.

    Attributes:
        uri: The URI of the skill's ``SKILL.md``, as it came.
        path: The file that it is about, below the root of the skill; empty where it is about the skill.
        reason: ``"entry"`` (what describes the skill is malformed), ``"path"`` (a file would lie outside of
            its folder, or has a name that not every system takes), ``"limits"`` (too many or too large
            files), ``"unlisted"`` (the entry does not list the file), ``"dynamic"`` (there are no digests),
            ``"content"`` (what came is not one file), ``"size"``, ``"digest"`` or ``"front matter"``
            (it is not what the entry describes).
    """

    def __init__(self, message: str, *, uri: str = "", path: str = "", reason: str = "entry") -> None:
        super().__init__(message)
        self.uri = uri
        self.path = path
        self.reason = reason


class DigestMismatch(SkillRejected):
    """A file is not the one that the skill's entry describes: changed since, damaged, or forged.

    Attributes:
        expected: The digest of the entry, or its size.
        actual: That of the file.
    """

    def __init__(
        self,
        message: str,
        *,
        uri: str = "",
        path: str = "",
        reason: str = "digest",
        expected: str = "",
        actual: str = "",
    ) -> None:
        super().__init__(message, uri=uri, path=path, reason=reason)
        self.expected = expected
        self.actual = actual


class AppRejected(ProtocolError):
    """The page of an app, or what it asks for, is not to be shown to anybody. The message says why.

    Attributes:
        uri: The URI of the page.
        reason: ``"content"`` (what came is not one page of HTML) or ``"policy"`` (what it asks to be allowed
            is malformed, or more than an app may ask for).
    """

    def __init__(self, message: str, *, uri: str = "", reason: str = "content") -> None:
        super().__init__(message)
        self.uri = uri
        self.reason = reason


class FolderRefused(UsageError):
    """A skill, or what a result holds, cannot be written where it was to be. Nothing was left there.

    Attributes:
        path: The folder.
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path

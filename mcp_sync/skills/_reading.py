"""Lists, reads and downloads the skills of one server, and verifies what comes."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union, cast

from .. import types
from .._arguments import as_uri, check_callback, check_instance
from .._calls import call_options
from .._concurrency.cancel import CancelToken
from .._concurrency.deadline import Deadline
from .._engine.call_options import CallOptions
from .._protocol import methods
from ..errors import DigestMismatch, InvalidResult, NotSupported, SkillRejected, UsageError
from ..options import UNSET, TimeoutArgument
from ._entry import Skill, SkillFile, read_entry
from ._extension import GET, IDENTIFIER, LIST, READ_DIRECTORY, Skills
from ._folder import check_folder, write_folder
from ._manifest import MANIFEST
from ._paths import SKILL_FILE, Unsafe, check_names
from ._verifying import SkillContent, check_front_matter, check_limits, file_of, only_content, reject, verify

if TYPE_CHECKING:
    from ..session import ClientSession

T = TypeVar("T")
# What every client must be able to take, and no server should exceed (SEP-2640, "Limits").
MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024
_log = logging.getLogger("mcp_sync.skills")


class _OneSkill(types.Result):
    skill: Any = None


class _Skills(types.PaginatedResult):
    skills: list[Any]


class _Folder(types.PaginatedResult):
    resources: list[Any]


_PAGES: Mapping[str, type[types.PaginatedResult]] = {"skills": _Skills, "resources": _Folder}


class ServerSkills:
    """The skills of one server: ``client.skills``. Any number of threads can use it.

    Nothing is fetched before it is asked for. Each method may raise what any call may.
    """

    def __init__(self, client: Any) -> None:
        self._client = cast("ClientSession", client)
        if self._client._engine.plan.extensions.find(Skills) is None:
            raise UsageError("this client does not know skills: Client(..., extensions=[Tasks(), Skills()])")
        self._settings: Optional[Mapping[str, Any]] = None

    def list(
        self,
        *,
        on_rejected: Optional[Callable[[SkillRejected], None]] = None,
        timeout: TimeoutArgument = UNSET,
        cancel: Optional[CancelToken] = None,
        cache: str = "use",
    ) -> Iterator[Skill]:
        """Iterate over the skills that the server lists; it may have others, which `get` finds.

        Args:
            on_rejected: Called for each entry that must not be used; otherwise a warning is logged.
            timeout: Seconds for each page.
            cancel: Cancels it.
            cache: As for `Client.list_tools`: ``"refresh"`` asks the server, ``"bypass"`` keeps nothing, too.

        Raises:
            NotSupported: The server does not say that it has skills.
        """
        check_callback("on_rejected", on_rejected)
        options = call_options(cancel=cancel, cache=cache)
        self._declared(options, self._client._deadline(timeout))
        pages = self._pages(LIST, {}, "skills", options, timeout)
        return self._entries(pages, on_rejected or _warn)

    def _entries(self, found: Iterator[Any], reject: Callable[[SkillRejected], None]) -> Iterator[Skill]:
        for entry in found:
            try:
                skill = read_entry(entry)
            except SkillRejected as error:
                reject(error)
            else:
                yield skill

    def get(
        self,
        uri: str,
        *,
        timeout: TimeoutArgument = UNSET,
        cancel: Optional[CancelToken] = None,
        cache: str = "use",
    ) -> Skill:
        """Return a skill, listed or not, as it is now, or, with a cache, for as long as the server said.

        Args:
            uri: The URI of its ``SKILL.md``; or its path, such as ``"acme/refunds"``, which stands for
                ``skill://acme/refunds/SKILL.md``.
            timeout: See the client.
            cancel: Cancels it.
            cache: As for `list`.

        Raises:
            InvalidParams: The server has no such skill.
            SkillRejected: What the server says about it must not be used.
            NotSupported: The server does not say that it has skills.
        """
        return self._get(uri, call_options(cancel=cancel, cache=cache), self._client._deadline(timeout))

    def _get(self, uri: str, options: CallOptions, deadline: Deadline) -> Skill:
        uri = as_uri(uri)
        if "://" not in uri:
            uri = f"skill://{uri.strip('/')}/{SKILL_FILE}"
        self._declared(options, deadline)
        engine = self._client._engine
        spec = engine.plan.extensions.spec_of(GET)
        skill = read_entry(engine.call(spec, {"uri": uri}, _OneSkill, options, deadline).skill)
        if skill.uri != uri:
            text = f"the server was asked for the skill {uri!r} and described {skill.uri!r:.200}"
            raise SkillRejected(text, uri=uri)
        return skill

    def read(
        self,
        skill: Union[Skill, str],
        path: str = SKILL_FILE,
        *,
        max_files: int = MAX_FILES,
        max_bytes: int = MAX_BYTES,
        timeout: TimeoutArgument = UNSET,
        cancel: Optional[CancelToken] = None,
    ) -> SkillContent:
        """Return one file of a skill, verified against its entry: digest, size, and front matter.

        Args:
            skill: The skill; what it was when `list` or `get` returned it is what is verified against. With a
                URI or a path, as for `get`, it is what the server says now.
            path: The file, below the root of the skill.
            max_files: The most files that the skill may have.
            max_bytes: The most bytes that they may have together.
            timeout: Seconds for all of it.
            cancel: Cancels it.

        Raises:
            DigestMismatch: It is another file than the entry describes.
            SkillRejected: The entry does not list it, or is not to be used.
        """
        deadline, options = self._client._deadline(timeout), call_options(cancel=cancel)

        def read(held: Skill) -> SkillContent:
            check_limits(held, max_files, max_bytes)
            content = self._read(held, path, max_bytes, options, deadline)
            if content.path == SKILL_FILE:
                check_front_matter(held, content)
            return content

        return self._with_entry(skill, read, options, deadline)

    def download(
        self,
        skill: Union[Skill, str],
        folder: Union[str, os.PathLike[str]],
        *,
        overwrite: bool = False,
        max_files: int = MAX_FILES,
        max_bytes: int = MAX_BYTES,
        timeout: TimeoutArgument = UNSET,
        cancel: Optional[CancelToken] = None,
    ) -> Path:
        """Write all files of a skill into a new folder, each verified.

        The folder appears when everything is there; nothing is left after a failure. Folders and files belong
        to the user of this process alone (0700 and 0600), and none can be run. Name the folder after server
        and skill: two servers may have skills of the same name.

        Args:
            skill: As for `read`.
            folder: The folder to make, in one that is there.
            overwrite: Whether a former download is replaced: a folder that holds what one wrote, by the
                digests in its ``.mcp-sync-skill.json``, and nothing else. What was added or changed since
                is never deleted: it is named in a `FolderRefused`.
            max_files: The most files, folders not counted.
            max_bytes: The most bytes of all files.
            timeout: Seconds for all of it.
            cancel: Cancels it.

        Returns:
            The folder.

        Raises:
            FolderRefused: It is there already, holds something of somebody else, or cannot be written.
            DigestMismatch: A file is another than the entry describes.
            SkillRejected: There are no digests, a file would lie outside of its folder or has a name that not
                every system takes, or there is too much of it.
        """
        target = _as_folder(folder)
        check_folder(target, overwrite)
        deadline, options = self._client._deadline(timeout), call_options(cancel=cancel)

        def write(held: Skill) -> None:
            check_limits(held, max_files, max_bytes)
            write_folder(target, held.uri, self._contents(held, max_bytes, options, deadline), overwrite)

        self._with_entry(skill, write, options, deadline)
        return target

    def _contents(
        self, skill: Skill, max_bytes: int, options: CallOptions, deadline: Deadline
    ) -> Iterator[tuple[str, bytes]]:
        if skill.files is None:
            text = "its content changes all the time, so that nothing can be verified: read() what you need"
            reject(skill, text, reason="dynamic")
        try:
            check_names([*skill.files, MANIFEST])
            if MANIFEST in skill.files:
                raise Unsafe(f"{MANIFEST!r} is the name of a file that a download writes itself")
        except Unsafe as error:
            reject(skill, str(error), reason="path")
        # A skill that does not begin as it should ends before anything else is fetched.
        for path in sorted(skill.files, key=lambda each: (each != SKILL_FILE, each)):
            content = self._read(skill, path, max_bytes, options, deadline)
            if path == SKILL_FILE:
                check_front_matter(skill, content)
            yield path, content.data

    def directory(
        self,
        skill: Union[Skill, str],
        path: str = "",
        *,
        timeout: TimeoutArgument = UNSET,
        cancel: Optional[CancelToken] = None,
    ) -> Iterator[types.Resource]:
        """Iterate over what the server has in a folder now: files, and folders (type ``inode/directory``).

        Of a skill with digests, ``skill.files`` is the list that counts: a file that is here and not there
        must be left alone until `get` has described the skill anew.

        Args:
            skill: The skill; or the URI of any folder.
            path: The folder below it.
            timeout: Seconds for each page.
            cancel: Cancels it.

        Raises:
            NotSupported: The server cannot list folders.
            InvalidParams: There is no such folder.
        """
        options = call_options(cancel=cancel)
        if self._declared(options, self._client._deadline(timeout)).get("directoryRead") is not True:
            raise NotSupported("the server does not list the folders of its skills", method=READ_DIRECTORY)
        root = skill.root if isinstance(skill, Skill) else as_uri(skill).rstrip("/")
        uri = f"{root}/{path.strip('/')}".rstrip("/")
        return map(_resource, self._pages(READ_DIRECTORY, {"uri": uri}, "resources", options, timeout))

    # --- what the methods share -------------------------------------------------------------------------

    def _declared(self, options: CallOptions, deadline: Deadline) -> Mapping[str, Any]:
        """Return the settings with which the server declares skills; only then may it be asked for them."""
        if self._settings is not None:
            return self._settings
        engine = self._client._engine
        era = engine.connection(deadline, options.cancel).era
        server = era.server
        if "capabilities" not in server and not era.handshake:
            server = engine.call_raw(methods.DISCOVER, {}, options, deadline)
        capabilities = server.get("capabilities")
        extensions = capabilities.get("extensions") if isinstance(capabilities, Mapping) else None
        settings = extensions.get(IDENTIFIER) if isinstance(extensions, Mapping) else None
        if not isinstance(settings, Mapping):
            text = f"the server offers no skills on {era.version}"
            raise NotSupported(text, method=LIST, version=era.version)
        self._settings = settings
        return settings

    def _pages(
        self, method: str, params: dict[str, Any], items: str, options: CallOptions, timeout: TimeoutArgument
    ) -> Iterator[Any]:
        engine = self._client._engine
        spec = engine.plan.extensions.spec_of(method)

        def fetch(cursor: Optional[str]) -> Any:
            asked = params if cursor is None else {**params, "cursor": cursor}
            return engine.call(spec, asked, _PAGES[items], options, self._client._deadline(timeout))

        return self._client._all(fetch, items)

    def _with_entry(
        self,
        skill: Union[Skill, str],
        use: Callable[[Skill], T],
        options: CallOptions,
        deadline: Deadline,
    ) -> T:
        """Use a skill; one that is only named as the server describes it now, whatever is kept of it."""
        if not isinstance(skill, Skill):
            return use(self._get(skill, options._replace(cache="refresh"), deadline))
        try:
            return use(skill)
        except DigestMismatch:
            cache = self._client._engine.plan.cache
            if cache is not None:
                # The entry may be out of date: who gets it again now gets it as it is.
                cache.clear(LIST)
                cache.clear(GET)
            raise

    def _read(
        self, skill: Skill, path: str, max_bytes: int, options: CallOptions, deadline: Deadline
    ) -> SkillContent:
        check_instance("the path of a file", path, str)
        file = file_of(skill, path)
        try:
            return self._fetch(skill, file, max_bytes, options, deadline)
        except DigestMismatch:
            if self._client._engine.plan.cache is None:
                raise
        # An answer that was kept may be older than the entry.
        return self._fetch(skill, file, max_bytes, options._replace(cache="refresh"), deadline)

    def _fetch(
        self, skill: Skill, file: SkillFile, max_bytes: int, options: CallOptions, deadline: Deadline
    ) -> SkillContent:
        path = file.path
        result = self._client._engine.call(
            methods.READ_RESOURCE, {"uri": file.uri}, types.ReadResourceResult, options, deadline
        )
        data, mime_type = only_content(skill, path, result)
        if skill.files is None:
            if len(data) > max_bytes:
                reject(skill, f"it has {len(data)} bytes, and max_bytes is {max_bytes}", path, "limits")
        else:
            verify(skill, file, data)
        return SkillContent(path, file.uri, data, mime_type, skill.files is not None)


def skills_of(client: Any) -> ServerSkills:
    """Return the skills of a client's server; ``client.skills`` is the same.

    Raises:
        UsageError: The client was not given the extension `Skills`.
    """
    return ServerSkills(client)


def _as_folder(folder: Any) -> Path:
    try:
        path = os.path.abspath(os.fsdecode(folder))
    except TypeError as error:
        raise UsageError(f"the folder must be a path, not {type(folder).__name__}") from error
    if "\0" in path:
        raise UsageError(f"the path of a folder cannot hold the character NUL: {path!r:.200}")
    return Path(path)


def _warn(error: SkillRejected) -> None:
    _log.warning("left out of the list of skills: %s", error)


def _resource(raw: Any) -> types.Resource:
    try:
        return types.Resource.model_validate(raw)
    except ValueError as error:
        raise InvalidResult(f"the result of {READ_DIRECTORY} has a malformed resource", result=raw) from error

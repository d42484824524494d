"""Files and standard input, read within a time (a pipe may have nobody who writes), or written as a whole."""

from __future__ import annotations

import errno
import io
import os
import secrets
import select
import stat
import sys
from pathlib import Path
from typing import IO, Optional

from ._concurrency.deadline import Deadline

# Whoever asks a person before it writes (a manager of passwords, say) is given time for that.
PATIENCE = 30.0
_PIECE = 1024 * 1024
# How a folder refuses a new file, or a file to be replaced: one that is mounted by itself, say.
_IRREPLACEABLE = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS)
# How a file system answers that lists attributes which it does not let be read, or given to another file.
_INALIENABLE = (errno.EINVAL, errno.ENODATA, errno.ENOTSUP)


def read_bytes(path: Path, most: int, deadline: Deadline) -> bytes:
    """Return what is in a file.

    Args:
        path: The file; a pipe will do (``<(command)`` and ``/dev/stdin`` of a shell).
        most: How many bytes are read; there may be more.
        deadline: How long whoever writes into a pipe is waited for.

    Raises:
        OSError: It cannot be read; `TimeoutError`: it is no regular file, and did not end in time.
    """
    # Otherwise opening waits for somebody who opens a pipe for writing.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb", buffering=0) as stream:
        return _read(stream, most, deadline)


def read_text(path: Path, deadline: Deadline) -> str:
    """Return the text in a file, whose lines end as the system has it.

    Raises:
        OSError: As `read_bytes`.
        ValueError: It is no UTF-8.
    """
    return _decoded(read_bytes(path, sys.maxsize, deadline), "utf-8", "strict")


def read_standard_input(deadline: Deadline) -> str:
    """Return all of standard input, nothing where there is none.

    Raises:
        TimeoutError: It did not end in time.
    """
    stdin = sys.stdin
    if stdin is None:
        return ""
    try:
        descriptor = stdin.fileno()
    except OSError:
        return stdin.read()  # Somebody has put another stream there.
    with open(descriptor, "rb", buffering=0, closefd=False) as stream:
        return _decoded(_read(stream, sys.maxsize, deadline), stdin.encoding, stdin.errors or "strict")


def replace_file(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Put data in the place of a file: all of it, or nothing.

    A link stays one, and the file that it leads to keeps its owner and mode, and on Linux its access list and
    other extended attributes. What is no regular file, has several names, or cannot be replaced by one alike
    although it may be written, is written to.

    Args:
        path: The file.
        data: What is to be in it.
        mode: The permission bits of a new file, less those of the umask.

    Raises:
        OSError: It cannot be written.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        _put(Path(os.path.realpath(path)), data, mode, None)
        return
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and os.access(path, os.W_OK):
        try:
            _put(Path(os.path.realpath(path)), data, mode, found)
            return
        except OSError as error:
            if error.errno not in (*_IRREPLACEABLE, *_INALIENABLE):
                raise
    path.write_bytes(data)


def _put(path: Path, data: bytes, mode: int, kept: Optional[os.stat_result]) -> None:
    """Write data beside a file, then rename it."""
    draft = path.with_name(f".new-{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(draft, flags, mode), "wb") as file:
            if kept is not None:
                _make_alike(draft, path, kept)
            file.write(data)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _make_alike(draft: Path, path: Path, kept: os.stat_result) -> None:
    found = draft.stat()
    if (found.st_uid, found.st_gid) != (kept.st_uid, kept.st_gid):
        os.chown(draft, kept.st_uid, kept.st_gid)
    if hasattr(os, "listxattr"):
        # The draft may have some from its folder.
        ours, theirs = _attributes(draft), _attributes(path)
        for name in ours.keys() - theirs.keys():
            os.removexattr(draft, name)
        for name, value in theirs.items():
            if ours.get(name) != value:
                os.setxattr(draft, name, value)
    # Afterwards, since another owner costs some of these bits.
    os.chmod(draft, stat.S_IMODE(kept.st_mode))


def _attributes(path: Path) -> dict[str, bytes]:
    try:
        return {name: os.getxattr(path, name) for name in os.listxattr(path)}
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return {}
        raise


def _read(stream: IO[bytes], most: int, deadline: Deadline) -> bytes:
    may_wait = hasattr(select, "poll") and not stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    data = bytearray()
    while len(data) < most:
        if may_wait:
            _await_more(stream.fileno(), deadline)
        piece = stream.read(min(most - len(data), _PIECE))
        if piece == b"":
            break
        # None: another reader was quicker.
        data += piece or b""
    return bytes(data)


def _await_more(descriptor: int, deadline: Deadline) -> None:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    left = deadline.remaining()
    if not waiting.poll(None if left is None else left * 1000):
        text = f"nobody has written it to its end within {deadline.timeout or 0:g} s"
        raise TimeoutError(errno.ETIMEDOUT, text)


def _decoded(data: bytes, encoding: str, errors: str) -> str:
    return io.TextIOWrapper(io.BytesIO(data), encoding, errors).read()

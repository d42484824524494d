"""Files are written as a whole, and stay what they were otherwise."""

from __future__ import annotations

import errno
import os
import stat
import struct
import tempfile
import threading
from pathlib import Path

import pytest

from mcp_sync._files import replace_file

posix = pytest.mark.skipif(os.name != "posix", reason="needs links and permission bits")


def test_a_new_file_is_written_and_an_old_one_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a"
    replace_file(path, b"long enough")
    with path.open("rb") as opened:
        replace_file(path, b"new")
        # Whoever reads it meanwhile reads on in the old one.
        assert opened.read() == b"long enough"

    assert path.read_bytes() == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


@posix
def test_a_link_stays_one_and_its_file_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    file, link = tmp_path / "folder" / "file", tmp_path / "link"
    link.symlink_to(Path("folder") / "file")
    replace_file(link, b"through a link that leads to nothing yet", 0o640)
    file.chmod(0o751)
    replace_file(link, b"new")

    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert not list(tmp_path.rglob(".new-*"))


@posix
def test_all_names_of_a_file_lead_to_the_new_data(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old and longer")
    os.link(tmp_path / "a", tmp_path / "b")
    replace_file(tmp_path / "a", b"new")

    assert (tmp_path / "b").read_bytes() == b"new"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give a file away")
def test_the_file_of_another_user_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    os.chown(path, 12345, 23456)
    path.chmod(0o2764)
    replace_file(path, b"new")

    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 23456, 0o2764)
    assert path.read_bytes() == b"new"


def _access_list(*entries: tuple[int, int, int]) -> bytes:
    """Return an access list as Linux keeps it, of tags, permissions and ids."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


NOBODY = 0xFFFFFFFF
OWNER, USER, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
LIST = _access_list(
    (OWNER, 6, NOBODY), (USER, 4, 12345), (GROUP, 4, NOBODY), (MASK, 4, NOBODY), (OTHER, 0, NOBODY)
)


def _set_attribute(path: Path, name: str, value: bytes) -> None:
    if not hasattr(os, "setxattr"):
        pytest.skip("needs the extended attributes of Linux")
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        pytest.skip("the file system has no such attributes")


@pytest.mark.parametrize(
    ("name", "value"),
    [("system.posix_acl_access", LIST), ("user.origin", b"from\0somewhere")],
    ids=["access list", "other"],
)
def test_a_file_keeps_its_access_list_and_other_attributes(tmp_path: Path, name: str, value: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    _set_attribute(path, name, value)
    with path.open("rb") as opened:
        replace_file(path, b"new")
        assert opened.read() == b"old"

    assert os.getxattr(path, name) == value
    assert path.read_bytes() == b"new"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can become somebody else")
def test_a_file_with_an_attribute_that_its_owner_cannot_give_is_written_to() -> None:
    # Not below the folder of pytest, into which nobody else is let.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a")
        path.write_bytes(b"old and longer")
        _set_attribute(path, "security.mcp_sync", b"a label")
        for each in (folder, path):
            os.chown(each, 12345, os.getegid())
        before = path.stat().st_ino
        os.seteuid(12345)
        try:
            replace_file(path, b"new")
        finally:
            os.seteuid(0)

        assert (path.read_bytes(), path.stat().st_ino) == (b"new", before)
        assert os.getxattr(path, "security.mcp_sync") == b"a label"
        assert os.listdir(folder) == ["a"]


def test_a_file_gets_no_access_list_from_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o640)
    _set_attribute(tmp_path, "system.posix_acl_default", LIST)
    replace_file(path, b"new")

    assert "system.posix_acl_access" not in os.listxattr(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@posix
def test_what_is_no_regular_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    replace_file(pipe, b"data")
    reader.join(30)

    assert found == [b"data"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_permissions_are_obeyed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"

    # The folder takes no other file, but this one may be written.
    path.chmod(0o644)
    tmp_path.chmod(0o555)
    try:
        replace_file(path, b"new")
    finally:
        tmp_path.chmod(0o755)
    assert path.read_bytes() == b"new"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        replace_file(tmp_path, b"data")
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "nowhere" / "a", b"data")

"""Skills that are written to a folder: all of it or nothing, and nothing beside it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import (
    CallCancelled,
    CancelToken,
    Client,
    DigestMismatch,
    FolderRefused,
    InMemory,
    SkillRejected,
    UsageError,
)
from mcp_sync.skills import Skills, _folder
from mcp_sync.skills._manifest import MANIFEST
from mcp_sync.testing import FakeServer

FILES = {"templates/mail.md": "Dear", "templates/eu/mail.md": "Cher", "logo.png": b"\x89PNG\xff"}


@pytest.fixture
def server() -> FakeServer:
    server = FakeServer()
    server.add_skill("acme/refunds", files=FILES)
    return server


@pytest.fixture
def client(server: FakeServer) -> Iterator[Client]:
    with Client(InMemory(server), extensions=[Skills()]) as client:
        yield client


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_all_files_are_written_for_nobody_else(client: Client, tmp_path: Path) -> None:
    folder = client.skills.download("acme/refunds", tmp_path / "refunds")
    assert folder == tmp_path / "refunds"
    assert tree(tmp_path) == {
        "refunds",
        *(f"refunds/{name}" for name in ("SKILL.md", MANIFEST, "logo.png", "templates", "templates/eu")),
        *("refunds/templates/mail.md", "refunds/templates/eu/mail.md"),
    }
    assert (folder / "logo.png").read_bytes() == b"\x89PNG\xff"
    assert (folder / "templates/eu/mail.md").read_text() == "Cher"
    if os.name == "posix":
        modes = {stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}
        assert modes == {0o700, 0o600}


def test_what_is_there_already_is_kept(client: Client, server: FakeServer, tmp_path: Path) -> None:
    folder = tmp_path / "refunds"
    folder.mkdir()
    (folder / "SKILL.md").write_text("mine")
    with pytest.raises(FolderRefused, match="overwrite=True") as caught:
        client.skills.download("acme/refunds", folder)
    assert caught.value.path == str(folder)
    assert (folder / "SKILL.md").read_text() == "mine"
    assert server.count("resources/read") == 0


def test_a_former_download_is_replaced_on_request(client: Client, server: FakeServer, tmp_path: Path) -> None:
    folder = client.skills.download("acme/refunds", tmp_path / "refunds")
    (folder / "logo.png").unlink()  # What is missing is no loss.
    server.add_skill("acme/refunds", files={"new/file.md": "new"})
    client.skills.download("acme/refunds", folder, overwrite=True)
    assert tree(tmp_path) == {"refunds", *(f"refunds/{path}" for path in tree(folder))}
    assert tree(folder) == {"SKILL.md", MANIFEST, "new", "new/file.md"}
    client.skills.download("acme/refunds", folder, overwrite=True)
    (tmp_path / "empty").mkdir()
    client.skills.download("acme/refunds", tmp_path / "empty", overwrite=True)


def change(folder: Path) -> None:
    (folder / "SKILL.md").write_text("mine")


def add_a_file(folder: Path) -> None:
    (folder / "templates" / "notes.txt").write_text("years of work")


def add_a_folder(folder: Path) -> None:
    (folder / ".git").mkdir()


def add_a_link(folder: Path) -> None:
    (folder / "logo.png").unlink()
    (folder / "logo.png").symlink_to(folder / "SKILL.md")


def lose_the_manifest(folder: Path) -> None:
    (folder / MANIFEST).unlink()


def break_the_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_text("{}")


def nest_the_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_text("[" * 100_000)


@pytest.mark.parametrize(
    ("deed", "named"),
    [
        (change, "'SKILL.md' was changed"),
        (add_a_file, "'templates/notes.txt' was added"),
        (add_a_folder, "'.git' was added"),
        (add_a_link, "'logo.png' was added"),
        (lose_the_manifest, MANIFEST),
        (break_the_manifest, MANIFEST),
        (nest_the_manifest, MANIFEST),
    ],
)
def test_what_somebody_else_has_added_or_changed_is_never_deleted(
    deed: Callable[[Path], None], named: str, client: Client, server: FakeServer, tmp_path: Path
) -> None:
    folder = client.skills.download("acme/refunds", tmp_path / "refunds")
    deed(folder)
    before, asked = tree(tmp_path), server.count("resources/read")
    with pytest.raises(FolderRefused, match=named):
        client.skills.download("acme/refunds", folder, overwrite=True)
    assert tree(tmp_path) == before
    assert server.count("resources/read") == asked


def test_what_is_added_in_the_last_moment_is_kept_too(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = client.skills.download("acme/refunds", tmp_path / "refunds")
    put = _folder._put

    def late(new: Path, folder: Path, old: Path) -> None:
        (folder / "notes.txt").write_text("years of work")
        put(new, folder, old)

    monkeypatch.setattr(_folder, "_put", late)
    with pytest.raises(FolderRefused, match=r"notes\.txt"):
        client.skills.download("acme/refunds", folder, overwrite=True)
    assert (folder / "notes.txt").read_text() == "years of work"
    assert tree(tmp_path) == {"refunds", *(f"refunds/{path}" for path in tree(folder))}


@pytest.mark.parametrize("folder", [None, 5, "a\0b"])
def test_what_is_no_path_is_a_usage_error(client: Client, folder: Any) -> None:
    with pytest.raises(UsageError, match="path"):
        client.skills.download("acme/refunds", folder)


def test_a_failure_leaves_the_skill_that_was_there(
    client: Client, server: FakeServer, tmp_path: Path
) -> None:
    folder = client.skills.download("acme/refunds", tmp_path / "refunds")
    before = tree(tmp_path)
    server.add_resource("skill://acme/refunds/logo.png", b"other")
    with pytest.raises(DigestMismatch):
        client.skills.download("acme/refunds", folder, overwrite=True)
    assert tree(tmp_path) == before
    assert (folder / "logo.png").read_bytes() == b"\x89PNG\xff"


def test_a_folder_that_cannot_take_the_place_is_put_back(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = client.skills.download("acme/refunds", tmp_path / "refunds")
    before, rename = tree(tmp_path), Path.rename

    def failing(path: Path, target: Any) -> Any:
        if path.name.startswith(".new-"):
            raise PermissionError("not now")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(FolderRefused, match="not now"):
        client.skills.download("acme/refunds", folder, overwrite=True)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("overwrite", [False, True])
def test_only_a_skill_is_ever_replaced(client: Client, tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "diary.txt").write_text("dear diary")
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "home")
    (tmp_path / "skill").mkdir()
    (tmp_path / "skill" / "SKILL.md").write_text("mine")
    (tmp_path / "skilled").symlink_to(tmp_path / "skill")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = tree(tmp_path)
    for name in ("home", "file", "link", "skilled", "dangling", "missing/refunds", "home/..", "file/refunds"):
        with pytest.raises(FolderRefused):
            client.skills.download("acme/refunds", tmp_path / name, overwrite=overwrite)
    with pytest.raises(FolderRefused):
        client.skills.download("acme/refunds", "/", overwrite=overwrite)
    assert tree(tmp_path) == before
    assert not (tmp_path / "nowhere").exists()


BAD_NAMES = {
    "a drive": ["C:/x"],
    "a stream": ["a.txt:hidden"],
    "a device": ["aux"],
    "a device with an ending": ["docs/NUL.md"],
    "a numbered device": ["com1.txt"],
    "a device with odd digits": ["lpt\u00b9"],
    "a dot at the end": ["a."],
    "a space at the end": ["a /b"],
    "a line break": ["a\nb"],
    "a star": ["a*"],
    "a name that is too long": ["a" * 256],
    "a name that is too long in UTF-8": ["ü" * 128],
    "a path that is too long": ["/".join(["a" * 200] * 6)],
    "one name in two cases": ["README", "readme"],
    "one folder in two cases": ["Docs/a", "docs/b"],
    "the skill's own file in another case": ["skill.md"],
    "one name in two forms": ["\u00e9", "e\u0301"],
    "a sharp s and two of them": ["stra\u00dfe", "strasse"],
    "a file that is a folder, too": ["a", "a/b"],
    "the name of the manifest": [MANIFEST],
    "the name of the manifest in another case": [MANIFEST.upper()],
}


@pytest.mark.parametrize("case", BAD_NAMES)
def test_names_that_not_every_system_takes_are_refused(case: str, tmp_path: Path) -> None:
    server = FakeServer()
    server.add_skill("a", files=dict.fromkeys(BAD_NAMES[case], "x"))
    with Client(InMemory(server), extensions=[Skills()]) as client:
        with pytest.raises(SkillRejected) as caught:
            client.skills.download("a", tmp_path / "a")
        assert caught.value.reason == "path"
    assert tree(tmp_path) == set()
    assert server.count("resources/read") == 0


def test_names_of_all_languages_are_fine(tmp_path: Path) -> None:
    server = FakeServer()
    names = {"日本語/読む.md", "straße.md", "con-text.md", "auxiliary", ".hidden", "a b.md", "-rf"}
    server.add_skill("a", files={name: name for name in names})
    with Client(InMemory(server), extensions=[Skills()]) as client:
        folder = client.skills.download("a", tmp_path / "a")
    assert {name for name in names if (folder / name).read_text("utf-8") == name} == names


def test_a_way_out_writes_nothing(tmp_path: Path) -> None:
    def escaping(entry: dict[str, Any]) -> dict[str, Any]:
        one = {**entry["resources"][0], "uri": "skill://a/../../outside"}
        return {**entry, "resources": [*entry["resources"], one]}

    server = FakeServer()
    server.add_skill("a", alter=escaping)
    inside = tmp_path / "inside"
    inside.mkdir()
    with Client(InMemory(server), extensions=[Skills()]) as client, pytest.raises(SkillRejected):
        client.skills.download("a", inside / "a")
    assert tree(tmp_path) == {"inside"}


def test_too_much_is_refused_before_anything_is_read(
    client: Client, server: FakeServer, tmp_path: Path
) -> None:
    server.add_skill("bomb", files={f"{number}.txt": "x" for number in range(512)})
    for limits in ({"max_files": 4, "max_bytes": 20}, {"max_files": 3}):
        with pytest.raises(SkillRejected, match="max_") as caught:
            client.skills.download("acme/refunds", tmp_path / "a", **limits)
        assert caught.value.reason == "limits" or limits["max_files"] == 4
    with pytest.raises(SkillRejected, match="513 files, and max_files is 512"):
        client.skills.download("bomb", tmp_path / "bomb")
    assert server.count("resources/read") == 0
    assert tree(tmp_path) == set()
    assert client.skills.download("bomb", tmp_path / "bomb", max_files=513).is_dir()


def test_the_first_file_that_is_wrong_ends_it(client: Client, server: FakeServer, tmp_path: Path) -> None:
    server.add_skill("forged", files={"SKILL.md": "---\nname: other\n---\n", "a.md": "a"})
    with pytest.raises(SkillRejected, match="front matter"):
        client.skills.download("forged", tmp_path / "forged")
    assert server.count("resources/read") == 1
    assert tree(tmp_path) == set()


def test_what_changes_all_the_time_is_not_downloaded(
    client: Client, server: FakeServer, tmp_path: Path
) -> None:
    server.add_skill("daily", dynamic=True)
    with pytest.raises(SkillRejected, match="nothing can be verified") as caught:
        client.skills.download("daily", tmp_path / "daily")
    assert caught.value.reason == "dynamic"
    assert tree(tmp_path) == set()


def test_an_interrupted_download_leaves_nothing(client: Client, server: FakeServer, tmp_path: Path) -> None:
    token = CancelToken()

    def read(message: dict[str, Any]) -> dict[str, Any]:
        if message["params"]["uri"].endswith("logo.png"):
            token.cancel("enough")
        resource = server.resources[message["params"]["uri"]]
        return {"contents": [{"uri": message["params"]["uri"], "text": resource.content}]}

    server.on("resources/read", read)
    with pytest.raises(CallCancelled):
        client.skills.download("acme/refunds", tmp_path / "a", cancel=token)
    assert tree(tmp_path) == set()


@pytest.mark.parametrize("step", ["_make", "_write", "_put"])
def test_ctrl_c_at_any_step_leaves_nothing(
    step: str, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(_folder, step)

    def interrupted(*arguments: Any) -> None:
        if step != "_put":
            real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(_folder, step, interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.skills.download("acme/refunds", tmp_path / "a")
    assert tree(tmp_path) == set()


def test_a_folder_that_cannot_be_looked_into_is_told(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*arguments: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a").mkdir()
    monkeypatch.setattr(Path, "iterdir", forbidden)
    with pytest.raises(FolderRefused, match="Permission denied"):
        client.skills.download("acme/refunds", tmp_path / "a", overwrite=True)


def test_a_folder_that_cannot_be_written_is_told(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any, **options: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("builtins.open", full)
    with pytest.raises(FolderRefused, match="No space left"):
        client.skills.download("acme/refunds", tmp_path / "a")
    monkeypatch.undo()
    assert tree(tmp_path) == set()

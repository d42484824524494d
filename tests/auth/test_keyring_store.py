"""The store in the keyring of the system, on keyrings that work without one."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backends.fail import Keyring as NoKeyring
from keyring.errors import KeyringLocked

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.auth import _keyring_store
from mcp_sync.auth._keyring_store import KeyringStore
from mcp_sync.auth._locks import file_name
from mcp_sync.auth._private_files import check_folder
from mcp_sync.errors import AuthError

from .store_worker import KEY, FolderKeyring, open_store

LONG = {"access_token": "canary-" + "é" * 4000}
NAME = file_name(KEY)


@pytest.fixture
def ring(tmp_path: Path) -> FolderKeyring:
    return FolderKeyring(tmp_path / "ring", 2560)


@pytest.fixture
def store(ring: FolderKeyring, tmp_path: Path) -> KeyringStore:
    return KeyringStore(backend=ring, lock_folder=tmp_path / "locks", part_size=1200)


def entries(ring: FolderKeyring) -> int:
    return len(list(ring.folder.iterdir()))


def version(store: KeyringStore) -> Any:
    stored = store.get(KEY)
    return None if stored is None else stored.version


def test_a_short_record_is_one_entry(store, ring):
    store.put(KEY, {"n": 1}, None)
    assert entries(ring) == 1
    assert json.loads(ring.get_password("mcp-sync", NAME))["value"] == {"n": 1}


def test_a_record_that_windows_would_not_take_is_split_and_put_together(store, ring):
    assert store.put(KEY, LONG, None)
    assert entries(ring) > 10
    assert store.get(KEY).value == LONG
    assert max(len(path.read_text("utf-16")) for path in ring.folder.iterdir()) <= 1200


@pytest.mark.parametrize("size", range(1080, 1200, 7))
def test_no_entry_is_too_long_whatever_the_length_of_the_record(store, ring, size):
    store.put(KEY, {"t": "x" * size}, None)
    assert store.get(KEY).value == {"t": "x" * size}
    assert max(len(path.read_text("utf-16")) for path in ring.folder.iterdir()) <= 1200


def test_an_entry_that_is_being_written_anew_is_not_taken_for_none(store, ring, monkeypatch):
    store.put(KEY, {"n": 1}, None)
    real, seen = ring.get_password, []

    def get(service: str, name: str) -> Any:
        # Some keyrings are one file, which is cut short before it is written.
        seen.append(name)
        return None if len(seen) == 1 else real(service, name)

    monkeypatch.setattr(ring, "get_password", get)
    assert store.get(KEY).value == {"n": 1}


def test_a_look_at_a_keyring_leaves_nothing_behind(store, tmp_path):
    assert store.get(KEY) is None
    assert not (tmp_path / "locks").exists()


def test_no_part_is_left_behind_when_a_record_becomes_shorter_or_goes(store, ring):
    store.put(KEY, LONG, None)
    store.put(KEY, LONG, version(store))
    many = entries(ring)
    store.put(KEY, {"access_token": "canary-" + "x" * 3000}, version(store))
    assert 1 < entries(ring) < many
    store.put(KEY, {"n": 1}, version(store))
    assert entries(ring) == 1
    store.put(KEY, LONG, version(store))
    store.put(KEY, None, version(store))
    assert entries(ring) == 0


@pytest.mark.parametrize("allowed", [0, 1, 5])
def test_a_keyring_that_fails_on_the_way_leaves_the_old_record(store, ring, monkeypatch, allowed):
    store.put(KEY, {"n": 1}, None)
    left = [allowed]
    really = FolderKeyring.set_password

    def fail(self: Any, *args: str) -> None:
        if not left[0]:
            raise OSError(28, "No space left on device")
        left[0] -= 1
        really(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(FolderKeyring, "set_password", fail)
        with pytest.raises(AuthError, match="No space left on device"):
            store.put(KEY, LONG, version(store))
    assert store.get(KEY).value == {"n": 1}
    # What was left behind goes with the next change.
    assert store.put(KEY, {"n": 2}, version(store))
    assert entries(ring) == 1


def test_a_record_that_is_replaced_while_it_is_read_is_read_again(store, ring, monkeypatch):
    store.put(KEY, LONG, None)
    newer = {"access_token": LONG["access_token"].replace("é", "ü")}
    really, looks = FolderKeyring.get_password, []

    def look(self: Any, service: str, username: str) -> Any:
        looks.append(username)
        if len(looks) == 3:
            monkeypatch.setattr(FolderKeyring, "get_password", really)
            # Twice, so that the parts have the names of the old ones again.
            store.put(KEY, {"n": 1}, version(store))
            store.put(KEY, newer, version(store))
        return really(self, service, username)

    monkeypatch.setattr(FolderKeyring, "get_password", look)
    assert store.get(KEY).value == newer


def shown(error: BaseException) -> str:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    seen: Any = error
    while seen is not None:
        text += repr(vars(seen)) + repr(seen.args)
        seen = seen.__cause__ or seen.__context__
    return text


@pytest.mark.parametrize(
    "text",
    [
        "canary",
        '"canary"',
        "{}",
        '{"version": "1", "slot": "c", "parts": 0, "value": {}}',
        '{"version": "1", "slot": "a", "parts": "canary", "value": null}',
        '{"version": "1", "slot": "a", "parts": 0, "value": "canary"}',
        '{"version": "1", "slot": ["a"], "parts": 0, "value": {}}',
        '{"version": "1", "slot": "a", "parts": 0}',
    ],
)
def test_a_damaged_entry_is_named_and_kept(store, ring, text):
    ring.set_password("mcp-sync", NAME, text)
    for action in (lambda: store.get(KEY), lambda: store.put(KEY, {"n": 1}, None)):
        with pytest.raises(AuthError, match=NAME) as caught:
            action()
        assert "canary" not in shown(caught.value)
    assert ring.get_password("mcp-sync", NAME) == text


def test_a_record_with_a_missing_part_is_an_error_and_kept(store, ring):
    store.put(KEY, LONG, None)
    slot = json.loads(ring.get_password("mcp-sync", NAME))["slot"]
    ring.delete_password("mcp-sync", f"{NAME}.{slot}.2")
    with pytest.raises(AuthError, match="damaged record"):
        store.get(KEY)
    assert ring.get_password("mcp-sync", f"{NAME}.{slot}.1") is not None


class Failing(FolderKeyring):
    error: Exception

    def get_password(self, service: str, username: str) -> Any:
        raise self.error

    set_password = delete_password = get_password


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (KeyringLocked("the user said no"), "the user said no"),
        (UnicodeEncodeError("latin-1", "canary", 0, 1, "no"), "UnicodeEncodeError"),
        (RuntimeError("canary"), "RuntimeError"),
    ],
)
def test_the_failure_of_a_keyring_is_told_without_a_secret(tmp_path, error, says):
    backend = Failing(tmp_path / "ring")
    backend.error = error
    store = KeyringStore("my app", backend=backend, lock_folder=tmp_path / "locks")
    for action in (lambda: store.get(KEY), lambda: store.put(KEY, LONG, None)):
        with pytest.raises(AuthError, match=f"service 'my app'.*{says}") as caught:
            action()
        assert "canary" not in str(caught.value) + repr(caught.value.__context__)


def test_a_system_without_a_keyring_is_an_error_that_says_so(tmp_path):
    store = KeyringStore(backend=NoKeyring(), lock_folder=tmp_path / "locks")
    with pytest.raises(AuthError, match="No recommended backend was available"):
        store.get(KEY)


def test_services_are_kept_apart(ring, tmp_path):
    stores = [KeyringStore(name, backend=ring, lock_folder=tmp_path / "locks") for name in ("a", "ü")]
    for number, store in enumerate(stores):
        store.put(KEY, {"n": number}, None)
    assert [store.get(KEY).value["n"] for store in stores] == [0, 1]
    with stores[0].lock(KEY, Deadline(5)), stores[1].lock(KEY, Deadline(5)):
        pass


def test_the_keyring_is_the_one_that_the_package_chooses_and_locks_are_in_the_users_folder(
    ring, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "state"))
    monkeypatch.setattr(keyring, "get_keyring", lambda: ring)
    store = KeyringStore()
    store.put(KEY, {"n": 1}, None)
    assert ring.get_password("mcp-sync", NAME) is not None
    with store.lock(KEY, Deadline(5)):
        assert [path.suffix for path in (tmp_path / "state").rglob("*") if path.is_file()] == [".lock"]
    assert check_folder(tmp_path / "state" / "mcp-sync" / "locks") or sys.platform == "darwin"


@pytest.mark.parametrize(
    ("platform", "folder"),
    [("linux", ".local/state"), ("darwin", "Library/Application Support"), ("win32", "AppData/Local")],
)
def test_every_system_has_a_folder_for_the_locks(monkeypatch, platform, folder):
    for name in ("XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_keyring_store.sys, "platform", platform)
    assert _keyring_store._state_folder() == Path.home() / folder / "mcp-sync" / "locks"


def test_on_windows_parts_are_as_long_as_windows_takes_them(monkeypatch, ring, tmp_path):
    monkeypatch.setattr(_keyring_store.sys, "platform", "win32")
    store = KeyringStore(backend=ring, lock_folder=tmp_path / "locks")
    monkeypatch.undo()
    store.put(KEY, LONG, None)
    assert store.get(KEY).value == LONG


def test_a_plain_file_of_keyrings_alt_will_do(tmp_path):
    store = open_store("plain", tmp_path)
    for number in range(3):
        stored = store.get(KEY)
        assert store.put(KEY, {"n": number, **LONG}, stored.version if stored else None)
    assert open_store("plain", tmp_path).get(KEY).value == {"n": 2, **LONG}
    assert store.put(KEY, None, version(store))
    assert store.get(KEY) is None


def test_without_the_package_the_error_says_what_to_install():
    script = """
import sys
sys.modules["keyring"] = None
from mcp_sync.auth._keyring_store import KeyringStore
from mcp_sync.errors import UsageError
try:
    KeyringStore()
except UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50)
    assert "pip install 'mcp-sync-client[keyring]'" in done.stdout, done.stderr


def test_the_package_is_not_loaded_before_a_store_is_made():
    script = "import sys, mcp_sync.auth._keyring_store; print('keyring' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50)
    assert done.stdout == "False\n", done.stderr

"""Sessions of `nox`: the tests on every interpreter, on the oldest dependencies, lint and types."""

from __future__ import annotations

import configparser
import fcntl
import os
import re
from pathlib import Path

import nox

PYTHONS = ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14"]
OLDEST = PYTHONS[0]
# What is heavy runs on the newest interpreters, and on the oldest in the session `lowest`.
HEAVY = PYTHONS[-2:]
CODE = ["mcp_sync", "tests", "noxfile.py"]

nox.options.sessions = ["lint", "types", "tests"]
nox.options.error_on_missing_interpreters = False


def _prefer_pyenv() -> None:
    """Put pyenv's interpreters on PATH before its shims, which exist for inactive versions too."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [str(path) for version in PYTHONS[::-1] for path in root.glob(f"versions/{version}.*/bin")]
    os.environ["PATH"] = os.pathsep.join([*found, os.environ["PATH"]])


def _floors() -> list[str]:
    """Return the oldest version that setup.cfg admits of each dependency, as pins."""
    setup = configparser.ConfigParser()
    setup.read("setup.cfg")
    extras = setup["options.extras_require"]
    # A tool of the tests (joserfc) needs a newer cryptography.
    named = ("cli", "jwt", "keyring", "otel", "django", "flask", "celery")
    wanted = "\n".join([setup["options"]["install_requires"], *map(extras.get, named)])
    found = re.findall(r"^\s*([A-Za-z0-9_.-]+)(?:\[\w+\])?>=([0-9.]+)", wanted, re.MULTILINE)
    assert found, "setup.cfg names no floors"
    return sorted({f"{name}=={version}" for name, version in found if name != "cryptography"})


def _install(session: nox.Session, *options: str) -> None:
    """Install the project, one session at a time: setuptools writes into the source tree.

    Python compiles what the session imports, which is little of what there is.
    """
    with open(Path(session.cache_dir) / "install.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        session.install("--no-compile", "-e", ".[dev]", *options)


_prefer_pyenv()


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests."""
    _install(session)
    heavy = ["--heavy"] if session.python in HEAVY else []
    session.run("python", "-m", "pytest", "-q", "-n", "2", *heavy, *session.posargs)


@nox.session(python=OLDEST)
def lowest(session: nox.Session) -> None:
    """Run the tests with the oldest dependencies that setup.cfg admits."""
    constraints = Path(session.create_tmp()) / "floors.txt"
    constraints.write_text("\n".join(_floors()) + "\n")
    _install(session, "-c", str(constraints))
    session.run("python", "-m", "pip", "list")
    session.run("python", "-m", "pytest", "-q", "-n", "2", "--heavy", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check the style."""
    session.install("ruff>=0.9")
    session.run("ruff", "check", *CODE)


@nox.session
def types(session: nox.Session) -> None:
    """Check the types."""
    _install(session)
    session.run("mypy")

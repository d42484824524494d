"""Install what the tests of other makers' software, the conformance suite and the benchmarks talk to.

`python -m tests.interop.install [COMPONENT ...]` makes, below `MCP_SYNC_INTEROP_HOME` (by default
`.cache/interop` in the repository), one virtual environment for each Python SDK and each published server,
one with what applications are deployed with and one with Authlib, the npm folders, and one folder each with
Debian's nginx and browser. It is idempotent: a component whose requirements have not changed costs nothing,
and two runs at the same time wait for each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# What mcp_sync itself needs, for programs that use it without having it installed.
OWN_REQUIREMENTS = ["requests", "sseclient-py", "websocket-client", "pydantic>=2", "jsonschema", "PySocks"]
# What the makers of the protocol publish for use: each in an environment of its own, as `uvx` would run it.
PUBLIC_SERVERS = {
    "fetch": ["mcp-server-fetch==2026.10.24"],
    "git": ["mcp-server-git==2026.10.19"],
    # Its last release admits any SDK, and needs one of the first generation.
    "sqlite": ["mcp-server-sqlite==2025.4.25", "mcp<2"],
    "time": ["mcp-server-time==2026.10.19"],
}
VENVS = {
    "sdk1": ["mcp==1.30.*", "websockets==15.*"],
    "sdk2": ["mcp==2.3.*"],
    "fastmcp4": ["fastmcp==4.*"],
    # Released together; left to itself, pip looks for another pair for minutes.
    "fastmcp4tasks": ["fastmcp-tasks==4.1.4", "fastmcp==4.1.4"],
    "fastmcp2tasks": ["fastmcp[tasks]==2.14.*"],
    "deployment": [
        *OWN_REQUIREMENTS,
        "gunicorn>=23",
        "celery>=5.4",
        "gevent>=24.11",
        "eventlet>=0.39",
        "ipykernel>=6.29",
        "proxy.py>=2.4.10",
        "pproxy>=2.7.9",
    ],
    "authlib": ["Authlib==1.9.*", "Flask==3.*"],
    **PUBLIC_SERVERS,
}
DEBIAN_PACKAGES = {
    "nginx": ["nginx", "nginx-common"],
    # The second has what the first looks for beside itself, wherever the machine may have it, too.
    "chromium": ["chromium-headless-shell", "chromium-common"],
}
NODE_VERSION = "22.23.5"
NPM_PACKAGES = {
    "@modelcontextprotocol/conformance": "0.2.0-alpha.12",
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
}
NPM_FOLDERS = {
    "node": NPM_PACKAGES,
    "memory": {"@modelcontextprotocol/server-memory": "2026.8.31"},
    "oidc-provider": {"oidc-provider": "9.13.3"},
}
COMPONENTS = (*VENVS, *NPM_FOLDERS, *DEBIAN_PACKAGES)
OLDEST_PYTHON = (3, 10)
# Fetches the dependencies that this machine lacks; it installs nothing, so it needs no lock.
_APT_INTO_FOLDER = [
    "apt-get",
    "-y",
    "--download-only",
    "--no-install-recommends",
    "-o",
    "Debug::NoLocking=1",
    "-o",
]


class NotInstalled(Exception):
    """A component is missing or out of date; the message says how to install it."""


def home() -> Path:
    """Return the folder that holds everything installed here."""
    chosen = os.environ.get("MCP_SYNC_INTEROP_HOME")
    return Path(chosen) if chosen else Path(__file__).resolve().parents[2] / ".cache" / "interop"


def venv_python(component: str) -> Path:
    """Return the interpreter of a Python component.

    Raises:
        NotInstalled: It has not been installed, or its requirements have changed since.
    """
    _check(component)
    return home() / component / "bin" / "python"


def node() -> Path:
    """Return the Node.js binary that the npm packages are run with.

    Raises:
        NotInstalled: The npm folder has not been installed, or its requirements have changed since.
    """
    _check("node")
    return home() / "node" / "node_modules" / _node_package() / "bin" / "node"


def npm_script(package: str, *path: str) -> Path:
    """Return a script of an installed npm package.

    Raises:
        NotInstalled: The npm folder has not been installed, or its requirements have changed since.
    """
    component = next(name for name, packages in NPM_FOLDERS.items() if package in packages)
    _check(component)
    return home().joinpath(component, "node_modules", *package.split("/"), *path)


def nginx() -> Path:
    """Return the nginx binary.

    Raises:
        NotInstalled: It has not been installed.
    """
    _check("nginx")
    return home() / "nginx" / "usr" / "sbin" / "nginx"


def chromium() -> tuple[Path, dict[str, str]]:
    """Return the binary of the headless browser, and the environment variables that it needs.

    Raises:
        NotInstalled: It has not been installed.
    """
    _check("chromium")
    usr = home() / "chromium" / "usr"
    # None, where the machine has all that it needs.
    folders = [each for found in usr.glob("lib/*-linux-gnu") for each in (found, found / "pulseaudio")]
    variables = {"LD_LIBRARY_PATH": os.pathsep.join(map(str, folders))} if folders else {}
    return usr / "lib" / "chromium" / "chromium-headless-shell", variables


def install(components: Iterable[str] = COMPONENTS) -> None:
    """Install the components that are missing, two at a time.

    Raises:
        NotInstalled: There is no such component.
        subprocess.CalledProcessError: An installation failed; its output went to the log named on stderr.
    """
    components = list(components)
    unknown = sorted(set(components) - set(COMPONENTS))
    if unknown:
        raise NotInstalled(f"unknown: {', '.join(unknown)}; there are {', '.join(COMPONENTS)}")
    home().mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(_install, components):
            pass


def _check(component: str) -> None:
    if _stamp(component).is_file() and _stamp(component).read_text() == _wanted(component):
        return
    raise NotInstalled(f"{component} is not installed: run python -m tests.interop.install {component}")


def _stamp(component: str) -> Path:
    return home() / f"{component}.installed"


def _wanted(component: str) -> str:
    wanted = VENVS.get(component) or DEBIAN_PACKAGES.get(component) or _npm_manifest(component)
    return json.dumps(wanted, sort_keys=True)


def _node_package() -> str:
    system = {"Linux": "linux", "Darwin": "darwin"}[platform.system()]
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}[
        platform.machine().lower()
    ]
    return f"node-{system}-{machine}"


def _npm_manifest(component: str) -> dict[str, object]:
    # One binary of Node.js does for all folders.
    runtime = {_node_package(): NODE_VERSION} if component == "node" else {}
    return {
        "name": "mcp-sync-interop",
        "private": True,
        "dependencies": {**NPM_FOLDERS[component], **runtime},
    }


def _install(component: str) -> None:
    with _locked(component):
        with contextlib.suppress(NotInstalled):
            _check(component)
            return
        print(f"installing {component} ...", file=sys.stderr, flush=True)
        folder = home() / component
        shutil.rmtree(folder, ignore_errors=True)
        with open(home() / f"{component}.log", "w") as log:
            try:
                _installer(component)(component, folder, log.fileno())
            except subprocess.CalledProcessError:
                print(f"installing {component} failed: see {log.name}", file=sys.stderr, flush=True)
                raise
        _stamp(component).write_text(_wanted(component))


def _installer(component: str) -> Callable[[str, Path, int], None]:
    if component in VENVS:
        return _install_venv
    return _install_debian if component in DEBIAN_PACKAGES else _install_node


@contextlib.contextmanager
def _locked(component: str) -> Iterator[None]:
    with open(home() / f"{component}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install_venv(component: str, folder: Path, log: int) -> None:
    # By the pip that runs this, 22.3 or newer: the one that Python brings may be many times as slow.
    _run([_python(), "-m", "venv", "--without-pip", str(folder)], log)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    _run([*pip, "--disable-pip-version-check", "install", "--quiet", *VENVS[component]], log)


def _install_node(component: str, folder: Path, log: int) -> None:
    folder.mkdir()
    (folder / "package.json").write_text(json.dumps(_npm_manifest(component)))
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("npm was not found: what speaks JavaScript needs it")
    _run([npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder)], log, cwd=folder)


def _install_debian(component: str, folder: Path, log: int) -> None:
    """Unpack packages of Debian into a folder: this needs no root, and leaves the system alone."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise NotInstalled(f"{component} is taken from Debian, and there is no apt-get here")
    (folder / "partial").mkdir(parents=True)
    packages = DEBIAN_PACKAGES[component]
    try:
        _run(["apt-get", "download", *packages], log, cwd=folder)
    except subprocess.CalledProcessError:
        _run(["apt-get", "update"], log)  # The lists of a new machine may be missing or out of date.
        _run(["apt-get", "download", *packages], log, cwd=folder)
    _run([*_APT_INTO_FOLDER, f"Dir::Cache::archives={folder}", "install", *packages], log, cwd=folder)
    for package in folder.glob("*.deb"):
        _run(["dpkg", "-x", str(package), str(folder)], log)


def _run(command: list[str], log: int, cwd: Path | None = None) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=cwd)


def _python() -> str:
    """Find an interpreter that the SDKs accept: this one, else the first of those on PATH or of pyenv."""
    if sys.version_info >= OLDEST_PYTHON:
        return sys.executable
    names = ["python3.12", "python3.11", "python3.13", "python3.10", "python3"]
    found = [shutil.which(name) for name in names]
    found += [str(path) for path in Path.home().glob(".pyenv/versions/3.1?.*/bin/python")]
    probe = f"import sys; sys.exit(sys.version_info < {OLDEST_PYTHON})"
    for candidate in filter(None, found):
        if subprocess.run([candidate, "-c", probe], capture_output=True).returncode == 0:
            return candidate
    raise NotInstalled("the SDKs need Python 3.10 or newer, and none was found")


if __name__ == "__main__":
    try:
        install(sys.argv[1:] or COMPONENTS)
    except NotInstalled as error:
        sys.exit(str(error))

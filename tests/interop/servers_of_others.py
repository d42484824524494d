"""Servers of other makers, started as their users start them, and what they work on."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from . import install

SERVERS = Path(__file__).parent / "servers"
ON_SDKS = ("sdk1", "sdk2", "fastmcp4")
ON_NODE = ("everything", "filesystem", "memory")
PUBLISHED = tuple(install.PUBLIC_SERVERS)
MAKERS = (*ON_SDKS, *ON_NODE, *PUBLISHED)


def command(maker: str, folder: Path) -> list[str]:
    """Return what starts a server that looks after a folder and leaves everything else alone."""
    if maker in PUBLISHED:
        program = install.venv_python(maker).with_name(f"mcp-server-{maker}")
        options = {
            "fetch": ["--allow-private-ips"],
            "git": ["--repository", str(folder)],
            "sqlite": ["--db-path", str(folder / "data.db")],
        }
        return [str(program), *options.get(maker, [])]
    if maker in ON_SDKS:
        return [str(install.venv_python(maker)), "-W", "ignore", str(SERVERS / f"{maker}_server.py"), "stdio"]
    script = install.npm_script(f"@modelcontextprotocol/server-{maker}", "dist", "index.js")
    words = {"everything": ["stdio"], "filesystem": [str(folder)]}
    return [str(install.node()), str(script), *words.get(maker, [])]


def environment(folder: Path) -> dict[str, str]:
    """Return the variables with which servers keep what they remember in a folder."""
    return {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}


def folder_of(maker: str, parent: Path) -> Path:
    """Make the folder that a server looks after; that of `git` is a repository with one commit."""
    folder = parent / f"{maker}-files"
    folder.mkdir()
    if maker == "git":
        _git(folder, "init", "--quiet")
        _git(folder, "config", "user.name", "Ada")
        _git(folder, "config", "user.email", "ada@example.com")
        _git(folder, "commit", "--quiet", "--allow-empty", "--message", "the first")
    return folder


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, stdin=subprocess.DEVNULL, capture_output=True)


@contextmanager
def web_page(html: str) -> Iterator[str]:
    """Serve a page, whatever is asked for but the rules for robots; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = html.encode()
            self.send_response(404 if self.path == "/robots.txt" else 200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/page"
        finally:
            server.shutdown()
            thread.join()

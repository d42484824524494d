"""A real nginx in front of a server, with the settings that a test wants to see."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interop.install import nginx

CONFIGURATION = """
daemon off;
master_process off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log info;
events {{ worker_connections 256; }}
http {{
    log_format test "$request_method $uri $status $gzip_ratio $connection";
    access_log {folder}/access.log test;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    proxy_set_header Host $http_host;
    {http}
    server {{
        listen 127.0.0.1:{port}{tls};
        {server}
    }}
}}
"""


class Nginx:
    """A running nginx.

    Attributes:
        origin: Its address, without a path.
    """

    def __init__(self, folder: Path, port: int, origin: str) -> None:
        self._folder = folder
        self.port = port
        self.origin = origin

    @property
    def url(self) -> str:
        """The address of the MCP endpoint."""
        return f"{self.origin}/mcp"

    @property
    def log(self) -> list[list[str]]:
        """The requests that were answered: method, path, status, gzip ratio, connection."""
        text = (self._folder / "access.log").read_text()
        return [line.split(" ") for line in text.splitlines()]

    def log_of(self, count: int) -> list[list[str]]:
        """Wait until so many requests were logged, and return them."""
        until = time.monotonic() + 5
        while len(self.log) < count and time.monotonic() < until:
            time.sleep(0.01)
        return self.log


@contextmanager
def serving(
    folder: Path, server: str, http: str = "", certificate: tuple[str, str] | None = None
) -> Iterator[Nginx]:
    """Run nginx with these settings; ``PORT`` in them is its port.

    Args:
        folder: Where it keeps its files.
        server: What stands in its ``server`` block.
        http: What stands beside that block.
        certificate: The paths of a certificate for ``localhost`` and its key, for TLS.
    """
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    tls = ""
    if certificate is not None:
        tls = " ssl"
        server = f"ssl_certificate {certificate[0]}; ssl_certificate_key {certificate[1]};\n{server}"
    told = {"folder": folder, "port": port, "tls": tls}
    server, http = (text.replace("PORT", str(port)) for text in (server, http))
    text = CONFIGURATION.format(server=server, http=http, **told)
    if os.getuid() == 0:
        text = f"user root;\n{text}"
    (folder / "nginx.conf").write_text(text)
    command = [nginx(), "-p", folder, "-c", folder / "nginx.conf", "-e", folder / "error.log"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        _await(process, port, folder)
        yield Nginx(folder, port, f"{'https' if tls else 'http'}://localhost:{port}")
    finally:
        process.terminate()
        process.wait(10)


def _await(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    until = time.monotonic() + 10
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.01)
    raise AssertionError(f"nginx does not run: {(folder / 'error.log').read_text()}")

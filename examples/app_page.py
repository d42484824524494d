"""Serve the page of an app to a browser, in a frame that lets it do what it asked for and no more.

python examples/app_page.py https://example.com/mcp ui://weather/board [PORT]

The page is a program of a stranger. Two ports are two origins, so it gets at nothing of the page around it,
whose policy keeps it from taking its own frame elsewhere. What both say to each other (``postMessage``) is up
to the host, and not shown.
"""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mcp_sync import Client
from mcp_sync.apps import Apps


class Page(ThreadingHTTPServer):
    """Serves one page at every address."""

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.origin = f"http://127.0.0.1:{self.server_port}"
        self.headers = {"Content-Type": "text/html; charset=utf-8"}
        self.html = ""


class Handler(BaseHTTPRequestHandler):
    server: Page

    def do_GET(self) -> None:
        self.send_response(200)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.server.html.encode())


def main(url: str, uri: str, port: int = 8000) -> None:
    with Client(url, extensions=[Apps()]) as client:
        app = client.app(uri)
    host, inner = Page(port), Page(0)
    inner.headers, inner.html = app.headers(embedder=host.origin), app.html
    host.headers["Content-Security-Policy"] = f"frame-src {inner.origin}"
    attributes = "".join(f' {name}="{value}"' for name, value in app.iframe().items())
    host.html = f'<!DOCTYPE html><h1>The host</h1><iframe src="{inner.origin}/"{attributes}></iframe>'
    threading.Thread(target=inner.serve_forever, daemon=True).start()
    print(f"It asks for {app.domains}, {app.permissions}. Open {host.origin}/", flush=True)
    host.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
